"""A real Engine that hangs over one container, over removals, or altogether, in the middle of a stop."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from agent.adapters.agent_client import Client, Target
from tests.e2e import recipes
from tests.e2e.rig import Rig, deployed, wait_for
from tests.lab import holdup, images
from tests.lab.engine import Engine
from tests.lab.procs import stop

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.timeout(150)]
SHORT = {"release": 8}
ANSWER_S = 3
"""How long the agent waits for an answer: a busy machine's Engine takes a second or two."""


@contextmanager
def host(folder: Path, engine: Engine, socket: Path | None = None) -> Iterator[Rig]:
    """A rig that does not wait long for its Engine."""
    rig = Rig(folder, engine)
    rig.site["docker"] = {"host": f"unix://{socket or engine.socket}", "timeout_s": ANSWER_S}
    try:
        rig.start()
        yield rig
    finally:
        rig.close()


def ask(rig: Rig, slug: str, verb: str) -> str:
    """Where the operation is."""
    operation: dict[str, Any] = Client(Target(str(rig.folder / "agent.sock"))).call(
        "POST", f"/v1/deployments/{slug}/{verb}"
    )
    return f"/v1/operations/{operation['id']}"


def full_id(rig: Rig, slug: str) -> str:
    (line,) = rig.containers(slug)
    return line.split()[0]


def test_a_container_that_the_engine_hangs_over_costs_the_others_nothing(simulated: Engine, tmp_path: Path) -> None:
    """Its OCI runtime does not come back: listed, neither inspected nor removed. Bounded, named, never doubled, and
    the restart goes on by itself when the Engine does."""
    with host(tmp_path, simulated) as rig:
        for slug in ("hung", "beside"):
            deployed(rig, slug, SHORT)
        first = full_id(rig, "hung")
        began = time.monotonic()
        with simulated.hanging_over(first):
            where = ask(rig, "hung", "restart")
            rig.until("hung", "quarantined", within=40)
            print(f"named after {time.monotonic() - began:.1f} s: {rig.status('hung')['why']}")
            assert f"Docker gave no answer within {ANSWER_S} s" in rig.status("hung")["why"]
            assert "restart Docker or reboot the host" in rig.status("hung")["why"]
            assert rig.api(where)["state"] == "failed"
            looked = rig.status("beside")["looked"]
            wait_for(lambda: rig.status("beside")["looked"] > looked, "the other loop to turn")
            rig.never("beside", "unobservable", "suspect", "stopping", "dead", seconds=2)
            assert full_id(rig, "hung") == first, "nothing was started beside it"
        healed = time.monotonic()
        rig.until("hung", "ready", within=40, generation=2)
        print(f"ready {time.monotonic() - healed:.1f} s after the Engine came back")
        assert rig.status("beside")["generation"] == 1
        assert rig.status("hung")["restarts"] == 0


@pytest.mark.long
def test_a_removal_that_is_not_answered_is_bounded_named_and_asked_for_again(simulated: Engine, tmp_path: Path) -> None:
    """`docker rm` alone hangs, over a fault: everything else of the Engine answers."""
    with (
        holdup.running(tmp_path / "front.sock", simulated.socket) as front,
        host(tmp_path, simulated, front.path) as rig,
    ):
        for slug in ("hung", "beside"):
            deployed(rig, slug, SHORT)
        first = full_id(rig, "hung")
        front.holds.set()
        os.kill(int(simulated.docker("inspect", "--format", "{{.State.Pid}}", first)), signal.SIGKILL)
        began = time.monotonic()
        rig.until("hung", "quarantined", within=40)
        print(f"named after {time.monotonic() - began:.1f} s, asked {front.held} times: {rig.status('hung')['why']}")
        assert "(docker rm) has not been answered for" in rig.status("hung")["why"]
        assert front.held > 1
        rig.never("beside", "unobservable", "suspect", "stopping", "dead", seconds=2)
        assert full_id(rig, "hung") == first
        front.holds.clear()
        rig.until("hung", "ready", within=40, generation=2)
        wait_for(lambda: len(rig.containers("hung")) == 1, "one container alone")


def test_an_engine_that_is_frozen_in_a_stop_delays_it_and_loses_nothing(own_engine: Engine, tmp_path: Path) -> None:
    """SIGSTOP for longer than a release may take: the one in its stop is named, the one that serves is merely unseen;
    after SIGCONT the stop is finished, and nothing was restarted."""
    images.simulator(own_engine, recipes.IMAGE)
    with host(tmp_path, own_engine) as rig:
        for slug in ("leaves", "stays"):
            deployed(rig, slug, SHORT)
        ask(rig, "leaves", "stop")
        stop(own_engine.pid)
        try:
            rig.until("leaves", "quarantined", within=40)
            print(rig.status("leaves")["why"])
            rig.until("stays", "unobservable", within=20)
        finally:
            os.kill(own_engine.pid, signal.SIGCONT)
        rig.until("leaves", "stopped", within=40)
        rig.until("stays", "ready", within=40, generation=1)
        assert rig.containers("leaves") == []
        assert rig.status("stays")["restarts"] == 0
        assert rig.incidents("stays") == []
