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
