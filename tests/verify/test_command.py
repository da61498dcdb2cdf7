"""agentctl verify and Ctrl-C: whatever was begun is cancelled, whenever it is pressed."""

from __future__ import annotations

import os
import signal
from argparse import Namespace
from typing import Any, cast

import pytest

from agent.adapters.agent_client import ApiError, Client
from agent.cli.verify import begin, follow, text_of

RUNNING = {"id": "7", "state": "running", "progress": {}, "error": None}


class Agent:
    """Answers as the agent does; presses Ctrl-C while it is asked for `press`."""

    def __init__(self, press: str, times: int = 1, over: bool = False) -> None:
        self.press, self.times, self.over = press, times, over
        self.asked: list[str] = []

    def call(self, method: str, path: str, body: Any = None) -> Any:
        self.asked.append(path)
        for _ in range(self.times if path.endswith(self.press) else 0):
            os.kill(os.getpid(), signal.SIGINT)
        if path.endswith("cancel") and self.over:
            raise ApiError({"code": "not_found", "message": "cannot find it: it is over", "hint": "", "details": {}})
        return RUNNING

    def get(self, path: str) -> Any:
        return self.call("GET", path)


def verify(agent: Agent) -> None:
    client = cast(Client, agent)
    follow(Namespace(quiet=True, json=False), client, *begin(client, "/v1/deployments/small", {}))


@pytest.mark.parametrize("press", ["verify", "wait=5"], ids=["while it begins", "while it runs"])
def test_it_is_cancelled(press: str, capsys: pytest.CaptureFixture[str]) -> None:
    agent = Agent(press)
    with pytest.raises(KeyboardInterrupt):
        verify(agent)
    assert agent.asked[-1] == "/v1/operations/7/cancel"
    assert "cancelled; nothing of it runs on" in capsys.readouterr().err


def test_pressed_twice_while_it_begins_it_waits_for_nobody() -> None:
    agent = Agent("verify", times=2)
    with pytest.raises(KeyboardInterrupt):
        verify(agent)
    assert agent.asked == ["/v1/deployments/small/verify"]
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)


def test_what_was_just_over_is_said_to_be(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyboardInterrupt):
        verify(Agent("wait=5", over=True))
    assert "not cancelled: cannot find it: it is over" in capsys.readouterr().err


ROW = {"point": "decode c1", "metric": "decode_tok_s", "measured": 95.0, "low": 94.0, "high": 96.0, "repeats": 1,
       "claimed": 100.0, "ratio": 0.95, "dropped": ""}  # fmt: skip
REPORT = {"slug": "small", "at": "2026-11-30T04:00:00.000Z", "plan_id": "p1", "quick": True, "rows": [ROW],
          "left_out": [], "points": []}  # fmt: skip


def test_a_report_shows_whose_each_measurement_is_and_how_the_full_one_is_had() -> None:
    """What the schedule measured in short is not taken for what a person measured in full."""
    before = {"at": "2026-11-01T12:00:00.000Z", "by": "ada (1000)", "quick": False}
    far = ROW | {"point": "decode c1 @200000", "repeats": 3} | before
    shown = text_of(REPORT | {"by": "schedule", "earlier": [far], "last_full": before["at"]}, colours=False)
    newest, earlier = shown.split("\n\n")
    assert "measured 2026-11-30T04:00:00.000Z in short for schedule, plan p1" in newest
    assert "decode c1 @200000" not in newest
    (line,) = (one for one in earlier.splitlines() if one.startswith("decode c1 @200000"))
    assert line.endswith("0.95   2026-11-01T12:00:00.000Z for ada (1000)")
    assert earlier.endswith("in full  2026-11-01T12:00:00.000Z: agentctl verify small --last --full")


def test_a_report_in_full_points_to_no_other() -> None:
    shown = text_of(REPORT | {"quick": False, "by": "", "earlier": [], "last_full": REPORT["at"]}, colours=False)
    assert shown.endswith("measured 2026-11-30T04:00:00.000Z, plan p1")


def test_a_report_of_an_earlier_version_is_shown() -> None:
    """It has neither `by` nor `earlier`."""
    assert text_of(REPORT, colours=False).endswith("measured 2026-11-30T04:00:00.000Z in short, plan p1")
