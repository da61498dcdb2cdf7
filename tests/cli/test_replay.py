"""`agentctl replay` as people call it."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from agent.cli.main import main
from agent.plan.tojson import to_json
from tests.plan.build import plan

HUNG = """
{"engine": "vllm", "ready": -3600, "watch": {"stall": 60, "stall_blind": 120, "suspect": 20}}
{"t": 0, "health": 200, "metrics": {"running": 1, "kv_usage": 0.1, "generation_tokens": 10}}
{"t": 10, "health": 200, "metrics": {"running": 1, "kv_usage": 0.2, "generation_tokens": 90}}
{"t": 40, "health": 200, "metrics": {"running": 1, "kv_usage": 0.2, "generation_tokens": 90}}
{"t": 60, "health": 200, "metrics": {"running": 1, "kv_usage": 0.2, "generation_tokens": 90}, "canary": false}
{"t": 75, "health": 200, "metrics": {"running": 1, "kv_usage": 0.2, "generation_tokens": 90}}
"""


@pytest.fixture
def hung(tmp_path: Path) -> str:
    file = tmp_path / "hung.jsonl"
    file.write_text(HUNG)
    return str(file)


def answer(capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, object]]:
    assert main(["replay", *words, "-o", "json"]) == 0
    found: list[dict[str, object]] = json.loads(capsys.readouterr().out)
    return found


def test_json_is_the_time_line(hung: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, hung)
    assert {"t", "state", "why", "step"} <= set(found[0])
    assert [(one["t"], one["state"], one["step"]) for one in found] == [
        (0.0, "busy", "nothing"),
        (40.0, "suspect", "ask_canary"),
        (60.0, "suspect", "nothing"),
        (75.0, "stalled", "restart"),
    ]


def test_text_is_one_line_a_moment(hung: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", hung]) == 0
    out = capsys.readouterr().out
    assert len(out.splitlines()) == 4
    assert "75.0 s  stalled" in out


def test_all_is_one_entry_a_sample(hung: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert len(answer(capsys, hung, "--all")) == 5


@pytest.mark.parametrize(("window", "state"), [("watch.stall=50", "stalled"), ("stall=never", "suspect")])
def test_rules_are_tried_with_other_windows(
    window: str, state: str, hung: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = answer(capsys, hung, "--set", window, "--all")
    assert found[3]["state"] == state


def test_a_plan_brings_its_windows_and_its_launch(
    hung: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(to_json(plan())))
    assert answer(capsys, hung, "--plan", str(file))[-1]["state"] == "suspect", "its window is longer than 65 s"


def test_it_reads_standard_input(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO('{"t": 1, "container": "exited", "metrics": null}\n'))
    assert answer(capsys, "-")[0]["state"] == "dead"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["/nowhere"], 1, "cannot read /nowhere: No such file"),
        (["FILE", "--engine", "vlm"], 2, "no engine that the agent knows"),
        (["FILE", "--set", "watch.stall"], 2, "watch.KEY=SECONDS"),
        (["FILE", "--set", "watch.stall=soon"], 2, "watch.KEY=SECONDS"),
        (["FILE", "--set", "watch.stal=1"], 1, "no such window"),
        (["FILE", "--plan", "FILE"], 1, "not JSON"),
        (["FILE", "--plan", "/dev/zero"], 1, "which no plan is"),
        (["FILE", "--engine", ""], 2, "no engine that the agent knows"),
        (["FILE", "--set", "watch.budget=inf"], 1, "a whole number of restarts"),
        (["FILE", "--set", "watch.budget=nan"], 1, "a whole number of restarts"),
        (["FILE", "--set", "watch.period=0"], 1, "above zero"),
        (["FILE", "--set", "watch.period=never"], 1, "above zero"),
        (["/dev/zero"], 1, "line 1 is longer than 16 MiB"),
        (["/"], 1, "Is a directory"),
        (["a\0b"], 1, "no name of a file"),
    ],
)
def test_what_cannot_be_done_is_said(
    words: list[str], code: int, said: str, hung: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", *(hung if word == "FILE" else word for word in words)]) == code
    assert said in capsys.readouterr().err


def test_a_bad_line_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "bad.jsonl"
    file.write_text('{"t": 1}\n{"t": 2, "helth": 200}\n')
    assert main(["replay", str(file)]) == 1
    assert "line 2" in capsys.readouterr().err


def test_an_archive_is_told_how_to_open_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "incident.tar.gz"
    file.write_bytes(b"\x1f\x8b\x08\xff")
    assert main(["replay", str(file)]) == 1
    assert "tar -xzf" in capsys.readouterr().err


def test_a_plan_of_another_engine_is_refused_unless_the_engine_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded, planned = tmp_path / "window.jsonl", tmp_path / "plan.json"
    recorded.write_text('{"engine": "sglang", "ready": -9}\n{"t": 1}\n')
    planned.write_text(json.dumps(to_json(plan())))
    words = ["replay", str(recorded), "--plan", str(planned)]
    assert main(words) == 1
    assert "taken of sglang, and the plan is one of vllm" in capsys.readouterr().err
    assert main([*words, "--engine", "sglang"]) == 0


SECRETS = "hf_abcdefghijklmnop Authorization: Bearer sk-abcdefghijklmnop --api-key hunter2hunter2 password=hunter3"
LEAKS = ("hf_abc", "sk-abc", "hunter2", "hunter3")


@pytest.mark.parametrize("words", [[], ["-v"], ["-o", "json"], ["--all", "-v"]], ids=["text", "verbose", "json", "all"])
@pytest.mark.parametrize(
    "line",
    [
        {"container": "exited", "log": [f"EngineDeadError {SECRETS}"]},
        {"container": {"missed": "timeout", "why": SECRETS}},
        {"gpus": [{"uuid": "hf_abcdefghijklmnop", "recovery_action": 1}]},
        {"health": {"missed": "refused", "why": SECRETS}, "metrics": {"missed": "refused", "why": SECRETS}},
        {"health": SECRETS},
        {"health": "hf_abcdefghijklmnop"},
        {"hf_abcdefghijklmnop": 1},
        {"container": [SECRETS]},
        {"log": [{"text": SECRETS, "phase": "hf_abcdefghijklmnop"}]},
    ],
    ids=lambda line: next(iter(line)),
)
def test_no_secret_of_a_recording_is_shown(
    line: dict[str, object], words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "window.jsonl"
    file.write_text("\n".join(['{"engine": "vllm", "ready": -9}', '{"t": 1}', json.dumps({"t": 11, **line})]))
    main(["replay", str(file), *words])
    told = "".join(capsys.readouterr())
    assert told
    assert not [leak for leak in LEAKS if leak in told]


@pytest.mark.parametrize("mark", ["\ufeff", ""], ids=["marked", "plain"])
def test_a_line_ends_where_json_lines_end_it(mark: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Other writers leave letters as they are that Python's `splitlines` takes for the end of a line."""
    file = tmp_path / "window.jsonl"
    lines = [
        '{"engine": "vllm", "ready": -9}',
        '{"t": 1}',
        '{"t": 11, "container": "exited", "log": ["a\u2028b\x85c"]}',
    ]
    file.write_text(mark + "\r\n".join(lines), encoding="utf-8", newline="")
    assert [one["state"] for one in answer(capsys, str(file))] == ["ready", "dead"]


def test_a_sentence_stays_in_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "window.jsonl"
    why = "slow\n      9.9 s  ready         nothing           all is well\x1b[2J" + "x" * 5000
    file.write_text(json.dumps({"t": 1, "container": {"missed": "timeout", "why": why}}))
    assert main(["replay", str(file)]) == 0
    out = capsys.readouterr().out
    assert len(out.splitlines()) == 1
    assert len(out) < 2200
    assert "\x1b" not in out


def test_nothing_is_told_of_a_recording_with_a_bad_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "window.jsonl"
    file.write_text('{"t": 1}\n{"t": 2, "container": "exited"}\n{"t": 2}\n')
    assert main(["replay", str(file), "-o", "json"]) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert json.loads(told.err)["error"]["details"]["line"] == 3


def test_the_answer_is_one_json_list_however_long_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "window.jsonl"
    file.write_text("\n".join(f'{{"t": {number}, "container": "paused"}}' for number in range(3000)))
    assert [one["t"] for one in answer(capsys, str(file), "--all")] == [float(number) for number in range(3000)]


def test_looks_that_were_a_minute_apart_throughout_are_no_pauses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A hang that somebody wrote down once a minute is found; a pause in which nobody looked is none of its silence."""
    look = {"health": 200, "metrics": {"running": 1, "generation_tokens": 5}, "canary": False}
    head = json.dumps({"engine": "vllm", "ready": -3600, "watch": {"stall": 180, "stall_blind": 180}})
    sparse, paused = tmp_path / "sparse.jsonl", tmp_path / "paused.jsonl"
    sparse.write_text("\n".join([head, *(json.dumps({"t": at, **look}) for at in range(0, 600, 60))]))
    paused.write_text("\n".join([head, *(json.dumps({"t": at, **look}) for at in (0, 10, 20, 30, 40, 50, 600))]))
    assert answer(capsys, str(sparse))[-1]["state"] == "stalled"
    assert answer(capsys, str(paused))[-1]["state"] == "busy"
