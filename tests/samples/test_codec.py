"""Samples as lines of JSON: what was written is read back whole, what a person writes is understood or refused."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path

import pytest

from agent.clock import Instant
from agent.container.port import ContainerView, RunState, StopRequest
from agent.engines.model import EngineKind, EngineReading, LogEvent, Phase, Pong, RankReading
from agent.samples.codec import SOURCES, line_of, sample_of
from agent.samples.model import Activity, Canary, Connections, GpuSample, Health, Miss, Missed, Sample, Xid
from agent.samples.recording import BadRecording, read_recording, write_recording
from tests.verdict import scenarios as s
from tests.verdict.series import PP4, Series

RANK = RankReading("0", 1.0, 2.0, 0.5, 10.0, 20.0, 3.0, asleep=True, progress={"flops": 1e15}, steps=("flops",))
FULL = Sample(
    at=Instant(5.0, 1_790_000_000.0),
    container=ContainerView("c", "n", "s", "p", 4, RunState.EXITED, exit_code=0, address=("127.0.0.1", 8000)),
    scrape=EngineReading((RANK,), process_start=1.0, blind=("kv_usage",), kv_tokens=1e6),
    health=Missed(Miss.REFUSED, "connection refused"),
    ping=Pong(None, age=3.0),
    connections=Connections(3, 1),
    activity=Activity(2, 10.5, 4096.0, (7,), (8,), ("ptxas",), 7),
    gpus=(GpuSample("GPU-1", 0.5, 300.0, 1 << 30, 60.0, 0, lost=True),),
    log=(LogEvent("Loading", phase=Phase.LOAD, ratio=0.5, jit=True),),
    log_lines=3,
    log_unread=Missed(Miss.BROKEN, "no such file"),
    xids=(Xid("GPU-1", 79, "off the bus"),),
    canary=Canary(False, 30.0, "no answer", timed_out=True),
    canary_out=True,
    stop=StopRequest(5.0, "SIGTERM"),
    oom_kills=2,
    host_oom_kills=5,
)
RUNS = ContainerView("recorded", "recorded", "recorded", "recorded", 1, RunState.RUNNING, pid=1)


def test_every_field_of_a_sample_comes_back():
    missing = [f.name for f in fields(Sample) if getattr(FULL, f.name) in (None, (), False)]
    assert not missing, "the sample above must fill every field"
    assert sample_of(json.loads(json.dumps(line_of(FULL))), None) == FULL


@pytest.mark.parametrize(
    ("script", "seconds"), [(s.n1, 300), (s.then(s.f8), 700), (s.n16, 900), (s.n6, 1500), (s.n14, 300)]
)
def test_a_window_comes_back_as_it_was_taken(script, seconds):
    window = Series(script, seconds).play()[-1].window
    recording = read_recording(write_recording(window, PP4))
    assert recording.samples == window.samples
    assert recording.head.engine == PP4
    assert (recording.head.started, recording.head.ready) == (window.started.mono, window.ready.mono)


def test_a_line_is_no_longer_than_what_was_seen():
    """Defaults are left out: a day of incidents must fit a disk, and a person must be able to read them."""
    seen = Sample(at=Instant(1.0, 2.0), container=RUNS, scrape=Missed(Miss.TIMEOUT, "late"), health=Health(200, 0.01))
    assert set(line_of(seen)) == {"t", "wall", "container", "metrics", "health"}


@pytest.mark.parametrize(
    ("line", "part", "value"),
    [
        ({}, "container", RUNS),
        ({}, "scrape", Missed(Miss.NOT_ASKED, "not in the recording")),
        ({}, "health", None),
        ({"health": 503}, "health", Health(503, 0.0)),
        ({"health": {"missed": "timeout"}}, "health", Missed(Miss.TIMEOUT, "timeout (recorded)")),
        ({"ping": True}, "ping", Pong(True)),
        ({"connections": 3}, "connections", Connections(3)),
        ({"xids": [79]}, "xids", (Xid("GPU-0", 79),)),
        ({"canary": True}, "canary", Canary(True, 0.0, "recorded")),
        ({"gpus": [{"power_w": 60}]}, "gpus", (GpuSample("GPU-0", power_w=60.0),)),
        ({"container": "exited"}, "scrape", Missed(Miss.GONE, "it does not run")),
        ({"container": {"missed": "timeout", "why": "hangs"}}, "container", Missed(Miss.TIMEOUT, "hangs")),
        (
            {"metrics": {"running": 1, "generation_tokens": 5}},
            "scrape",
            EngineReading(
                (RankReading("0", 1.0, generation_tokens=5.0, progress={"running": 1.0, "generation_tokens": 5.0}),)
            ),
        ),
    ],
)
def test_a_minimal_line_means_what_it_says_and_no_more(line, part, value):
    assert getattr(sample_of({"t": 1, **line}, None), part) == value


def test_an_engines_own_text_is_read_by_that_engine(shared: Path):
    text = (shared / "captures/vllm/metrics-after-load.txt").read_text()
    log = ["(APIServer) INFO: Application startup complete.", "nothing of note", 'INFO: "GET /health HTTP/1.1" 200']
    line = {"t": 1, "metrics": text, "log": log}
    sample = read_recording(['{"engine": "vllm"}', json.dumps(line)]).samples[0]
    assert isinstance(sample.scrape, EngineReading)
    assert sample.scrape.ranks[0].generation_tokens
    assert [event.phase for event in sample.log] == [Phase.READY]
    assert sample.log_lines == 2, "the agent's own probe is no line of the engine's"


HEAD = '{"engine": "vllm"}'


@pytest.mark.parametrize(
    ("lines", "number", "why"),
    [
        (["nonsense"], 1, "not JSON"),
        (["[1]"], 1, "no object"),
        ([], 1, "no sample"),
        ([HEAD], 1, "no sample"),
        ([HEAD, HEAD], 2, "stands once and first"),
        (['{"t": 1}', HEAD], 2, "stands once and first"),
        (['{"t": 1}', '{"t": 1}'], 2, "not after"),
        (['{"t": "soon"}'], 1, "number"),
        (['{"t": 1, "metrix": 2}'], 1, "no 'metrix'"),
        (['{"t": 1, "health": "x"}'], 1, "integer"),
        (['{"t": 1, "metrics": {"runing": 1}}'], 1, "no 'runing'"),
        (['{"t": 1, "metrics": "vllm:x 1"}'], 1, "no engine is named"),
        ([HEAD, '{"t": 1, "metrics": "<html>"}'], 2, "not Prometheus"),
        (['{"t": 1, "log": ["line"]}'], 1, "no engine is named"),
        (['{"t": 1, "log": "line"}'], 1, "no list"),
        (['{"t": 1, "health": {"missed": "lost"}}'], 1, "timeout"),
        (['{"engine": "vlm"}'], 1, "vllm"),
        (['{"engine": {"port": 1}}'], 1, "kind"),
        (['{"begin": 1}'], 1, "no 'begin'"),
    ],
)
def test_what_is_not_understood_is_refused_with_its_line(lines, number, why):
    with pytest.raises(BadRecording) as error:
        read_recording(lines)
    assert f"line {number} " in error.value.text
    assert why in error.value.text


def test_the_engine_that_is_asked_for_goes_before_the_recordings_own():
    recording = read_recording([HEAD, '{"t": 1}'], PP4)
    assert recording.head.engine is PP4
    assert read_recording([HEAD, '{"t": 1}']).head.engine.kind is EngineKind.VLLM


def test_the_readme_tells_every_key_and_its_example_is_one():
    readme = (Path(__file__).parents[2] / "agent/samples/README.md").read_text()
    assert not [key for key in SOURCES if f"`{key}`" not in readme]
    example = readme.split("```json\n")[1].split("```")[0]
    assert len(read_recording(example.splitlines()).samples) == 4
