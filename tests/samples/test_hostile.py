"""Recordings that were written in a hurry, cut off, or meant to do harm: a clear error or a time line, nothing else."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest

from agent.action.replay import replay
from agent.errors import InvalidInput
from agent.plan.watch import Watch
from agent.plan.windows import Given, derive
from agent.samples.codec import line_of
from agent.samples.recording import BadRecording, Head, open_recording, read_recording
from tests.samples.test_codec import FULL
from tests.verdict.series import PP4

HEAD: dict[str, Any] = {
    "engine": {"kind": "vllm", "port": 8000, "chunk_tokens": 8192, "max_model_len": 4096},
    "started": -3600.0,
    "ready": -60.0,
    "learned": {"prefill_s": 10.0, "prefill_tokens": 2000.0, "start_s": 100.0},
    "watch": {"stall": 60.0, "period": 10.0},
}
LINE: dict[str, Any] = {**line_of(FULL), "t": 1.0}
SHORT: dict[str, Any] = {"t": 1, "container": "running", "health": 200, "ping": True, "connections": 3, "xids": [79],
                         "canary": True, "log": ["line"], "metrics": "vllm:num_requests_running 1\n"}  # fmt: skip
BAD: tuple[Any, ...] = (None, True, -1, 0, 1.5, 1e29, 10**400, "", "x", "\ud800", "hf_" + "a" * 100, [], [[]], {},
                        {"a": {"b": [1]}}, {"missed": "timeout"}, {"missed": 5}, float("nan"), float("inf"),
                        )  # fmt: skip


def spoiled(whole: Any) -> Iterator[Any]:
    """It with one of its parts replaced, in every place and by every bad value."""
    parts = whole.items() if isinstance(whole, dict) else enumerate(whole)
    for key, part in parts:
        for bad in (*BAD, *(spoiled(part) if isinstance(part, dict | list) else ())):
            changed = copy.copy(whole)
            changed[key] = bad
            yield changed


def windows(head: Head) -> Watch:
    return derive(head.engine, [], {key: Given(value, "the recording") for key, value in head.watch.items()},
                  head.learned)  # fmt: skip


def judged(head: Any, line: Any) -> str:
    """The error's text, or empty."""
    texts = [json.dumps(head), json.dumps(line), json.dumps({**SHORT, "t": 1e6})]
    try:
        recording = read_recording(texts)
        for moment in replay(recording, windows(recording.head)):
            assert moment.why
    except InvalidInput as error:
        return error.text
    return ""


@pytest.mark.parametrize("line", [LINE, SHORT], ids=["whole", "short"])
def test_any_part_of_a_line_may_be_anything(line: dict[str, Any]) -> None:
    texts = [judged(HEAD, changed) for changed in spoiled(line)]
    assert any(texts)
    assert not all(texts)
    assert all(len(text) < 700 for text in texts), "an error cites no more than can be read"
    assert not any("hf_aaa" in text for text in texts)


def test_any_part_of_the_head_may_be_anything() -> None:
    texts = [judged(changed, SHORT) for changed in spoiled(HEAD)]
    assert any(texts)
    assert all(len(text) < 1200 for text in texts)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('{"t": NaN}', "NaN is no number"),
        ('{"t": 1, "metrics": {"running": 1, "generation_tokens": NaN}}', "NaN is no number"),
        ('{"t": -Infinity}', "no number"),
        ('{"t": 1e999}', "no number"),
        (f'{{"t": 1{"0" * 5000}}}', "no number"),
        ('{"t": 1e15}', "t: 1e+15 s is no time"),
        ('{"t": 1, "wall": -1e12}', "wall: -1e+12 s is no time"),
        ('{"started": -1e14}', "started: -1e+14 s is no time"),
        ('{"t": true}', "t: it should be a number"),
        ('{"t": "1"}', "t: it should be a number"),
        ('{"t": 1, "health": true}', "an integer"),
        ('{"t": 1, "xids": [true]}', "an integer"),
        ('{"t": 1, "t": 2}', "'t' stands twice"),
        ('{"t": 1, "container": [1]}', "no object"),
        ('{"t": 1, "metrics": {"running": -1}}', "below zero"),
        ('{"t": 1, "metrics": {"ranks": [{"rank": "0"}, {"rank": "0"}]}}', "one rank twice"),
        (json.dumps({"t": 1, "metrics": {"ranks": [{"rank": str(n)} for n in range(2000)]}}), "2,000 schedulers"),
        ('{"t": 1, "health": ' + "[" * 100_000, "not JSON"),
        ('{"t": 1, "container": ' + '{"a":' * 700 + "1" + "}" * 701, "no 'a'"),
    ],
)
def test_what_cannot_have_been_measured_is_refused(line: str, why: str) -> None:
    with pytest.raises(BadRecording) as error:
        read_recording(['{"engine": "vllm"}', line] if "started" not in line else [line, '{"t": 1}'])
    assert why in error.value.text


@pytest.mark.parametrize(
    ("text", "other"),
    [('sglang:num_running_reqs{tp_rank="0"} 1\n', "sglang"), ("llamacpp:requests_processing 1\n", "llamacpp")],
)
def test_another_engines_metrics_are_no_engine_without_metrics(text: str, other: str) -> None:
    with pytest.raises(BadRecording) as error:
        read_recording(['{"engine": "vllm"}', json.dumps({"t": 1, "metrics": text})])
    assert f"those of {other}, and the engine is vllm" in error.value.text


def test_another_engines_plan_is_told_where_the_engine_was_not_asked_for() -> None:
    lines = ['{"engine": "sglang"}', '{"t": 1}']
    with pytest.raises(BadRecording) as error:
        open_recording(lines, PP4, same=True)
    assert "taken of sglang, and the plan is one of vllm" in error.value.text
    assert open_recording(lines, PP4)[0].engine is PP4
    assert open_recording(['{"t": 1}'], PP4, same=True)[0].engine is PP4


def test_samples_are_read_as_they_are_asked_for() -> None:
    """A recording may be longer than the memory."""
    read = []

    def lines() -> Iterator[str]:
        for number in range(10**9):
            read.append(number)
            yield json.dumps({"t": number})

    _, samples = open_recording(lines())
    assert [next(samples).at.mono for _ in range(3)] == [0.0, 1.0, 2.0]
    assert len(read) == 3


def test_of_a_flood_of_lines_the_last_are_kept_and_all_are_counted() -> None:
    flood = [f"EngineDeadError: no. {number}" for number in range(3000)]
    (sample,) = read_recording(['{"engine": "vllm"}', json.dumps({"t": 1, "log": flood})]).samples
    assert (len(sample.log), sample.log_lines, sample.log[-1].text) == (500, 3000, flood[-1])
