"""Streams: nothing is lost or told twice between a stream that broke and the next, and none keeps the agent alive."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.api.conftest import TOKEN, open_rig
from tests.e2e import recipes
from tests.e2e.rig import Rig
from tests.lab.children import free_port

PATIENCE_S = 20.0


class Stream:
    """A server-sent stream, read line by line."""

    def __init__(self, port: int, path: str, last: int | None = None) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
        head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer {TOKEN}\r\n"
        head += f"Last-Event-ID: {last}\r\n" if last is not None else ""
        self._socket.sendall(f"{head}\r\n".encode())
        self._lines = self._socket.makefile("rb")
        assert b" 200 " in self._lines.readline()

    def events(self) -> Iterator[dict[str, Any]]:
        for line in self._lines:
            if line.startswith(b"data: "):
                yield json.loads(line[6:])

    def rest(self) -> bytes:
        """Everything until the other end ends it."""
        return self._lines.read()

    def close(self) -> None:
        self._lines.close()
        self._socket.close()


@contextmanager
def stream(port: int, path: str, last: int | None = None) -> Iterator[Stream]:
    found = Stream(port, path, last)
    try:
        yield found
    finally:
        found.close()


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Rig]:
    rig = open_rig(tmp_path)
    try:
        rig.start()
        rig.publish(recipes.recipe("sim", free_port()), recipes.profile())
        yield rig
    finally:
        rig.close()


def test_a_stream_that_goes_on_tells_each_event_once(own: Rig) -> None:
    """By `after` and by the header that browsers send, over a restart of the agent."""
    seen: list[int] = []
    with stream(own.port, "/v1/events?after=0") as first:
        own.ok("deploy", "sim", "--yes", "-q", "--wait=60")
        for event in first.events():
            seen.append(event["seq"])
            if event["data"].get("to") == "ready":
                break
    own.ok("pause", "sim", "-q")
    own.terminate()
    own.start()
    own.ok("resume", "sim", "-q")
    for path, last in ((f"/v1/events?after={seen[-1]}", None), ("/v1/events", seen[-1])):
        more = list(seen)
        with stream(own.port, path, last) as again:
            for event in again.events():
                more.append(event["seq"])
                if event["data"].get("what") == "resume":
                    break
        everything = [event["seq"] for event in own.api("/v1/events?follow=0&limit=5000")]
        assert more == everything[: len(more)]


def test_a_stream_of_one_deployment_has_no_other(own: Rig) -> None:
    own.publish(recipes.recipe("other", free_port()), recipes.profile())
    with stream(own.port, "/v1/events?slug=other") as found:
        own.ok("deploy", "sim", "--yes", "-q")
        own.ok("deploy", "other", "--yes", "-q")
        assert next(found.events())["slug"] == "other"


def test_an_engines_log_is_followed(own: Rig) -> None:
    own.ok("deploy", "sim", "--yes", "-q", "--wait=60")
    with stream(own.port, "/v1/deployments/sim/logs?follow=1&tail=5") as found:
        own.ok("stop", "sim", "-q")
        assert found.rest(), "it ends with the engine"


def test_open_streams_do_not_keep_the_agent(own: Rig) -> None:
    own.ok("deploy", "sim", "--yes", "-q", "--wait=60")
    paths = ("/v1/events", "/summary", "/v1/deployments/sim/logs?follow=1&tail=1")
    opened = [Stream(own.port, path) for path in paths]
    began = time.monotonic()
    assert own.terminate() == 0
    assert time.monotonic() - began < 8
    for one in opened:
        one.close()
