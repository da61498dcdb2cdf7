"""agentctl verify and Ctrl-C: whatever was begun is cancelled, whenever it is pressed."""

from __future__ import annotations

import os
import signal
from argparse import Namespace
from typing import Any, cast

import pytest

from agent.adapters.agent_client import ApiError, Client
from agent.cli.verify import begin, follow

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
