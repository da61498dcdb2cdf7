"""One fault after the other, each as a client or the kernel brings it, and what ends it."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass

from tests.e2e import traffic
from tests.e2e.rig import Rig, wait_for

FAULTY = frozenset({"stalled", "zombie", "dead"})
FIND_S, MEND_S = 45.0, 60.0


@dataclass(frozen=True)
class Target:
    """The deployment that the faults meet."""

    rig: Rig
    slug: str
    port: int

    @property
    def last_event(self) -> int:
        return max((event["seq"] for event in self.rig.events(self.slug)), default=0)


@dataclass(frozen=True)
class Mended:
    """Seconds until the fault was named, and until the engine served again."""

    found_s: float
    ready_s: float


def stall(on: Target) -> None:
    """The loop hangs with a client waiting; the client goes once that is seen."""
    with traffic.client(on.port):
        on.rig.until(on.slug, "busy")
        traffic.fault(on.port, "stall")
        on.rig.until(on.slug, *FAULTY, within=FIND_S)


def zombie(on: Target) -> None:
    """A client goes, and its request stays."""
    traffic.fault(on.port, "zombie_held")
    with traffic.client(on.port):
        on.rig.until(on.slug, "busy")


def exit_0(on: Target) -> None:
    """The server ends as if it had been asked to."""
    traffic.fault(on.port, "exit", "0")


def kill_core(on: Target) -> None:
    """The core is killed, as the kernel does it; the server ends with 0 seconds later."""
    if on.rig.engine is None:
        os.kill(traffic.cores(on.port)[0], signal.SIGKILL)
    else:  # its pid is one of the container's own namespace
        traffic.fault(on.port, "exit0")


ENGINE_FAULTS: dict[str, Callable[[Target], None]] = {
    "stall": stall,
    "zombie": zombie,
    "exit 0": exit_0,
    "core killed": kill_core,
}


def met(on: Target, fault: Callable[[Target], None]) -> Mended:
    """Brings the fault, and waits until the agent has named it and the engine serves again."""
    after, began = on.last_event, time.monotonic()
    fault(on)
    wait_for(lambda: FAULTY.intersection(on.rig.path(on.slug, after)), "the fault to be named", within=FIND_S)
    found = time.monotonic() - began
    wait_for(lambda: serves(on), "the engine to serve again", within=MEND_S)
    if "zombie" in on.rig.path(on.slug, after):
        traffic.fault(on.port, "clear")  # an abort may have mended it without a restart
    return Mended(found, time.monotonic() - began)


def serves(on: Target) -> bool:
    return on.rig.status(on.slug)["state"] == "ready" and traffic.get(on.port, "/health")[0] == 200


def agent_killed(on: Target) -> Mended:
    """The agent dies and is started again: it takes the engine up as it is."""
    before, began = on.rig.status(on.slug), time.monotonic()
    on.rig.kill()
    on.rig.start()
    wait_for(lambda: serves(on), "the engine to be taken up", within=MEND_S)
    after = on.rig.status(on.slug)
    if after["container"] != before["container"]:
        raise AssertionError(f"the agent came back to another engine: {before['container']} → {after['container']}")
    return Mended(0.0, time.monotonic() - began)
