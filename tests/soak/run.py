"""A daemon under faults for a while: what each fault cost, and what the agent held after it."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.rig import Rig, deployed, running
from tests.lab.engine import Engine
from tests.soak.faults import ENGINE_FAULTS, Mended, Target, agent_killed, met
from tests.soak.holding import Holding, holding

SLUG = "soaked"
SETTLE_S = 2.0
UNLIMITED = {"restarts": 100_000, "host_restarts": 100_000}


@dataclass(frozen=True)
class Round:
    """One fault, `minute` minutes after the begin."""

    minute: float
    fault: str
    mended: Mended
    held: Holding


Say = Callable[[Round], None]


def soak(folder: Path, minutes: float, every_s: float, say: Say, engine: Engine | None = None) -> list[Round]:
    """A fault every so many seconds; the agent itself is killed in the middle, so that each half shows its growth.

    `engine`: the lab's, with the simulator's image; None for plain processes.

    The first round of every kind comes before anything is compared: what is made once is no leak.
    """
    with running(folder, engine) as rig:
        rig.site["budget"] = UNLIMITED
        rig.terminate()
        rig.start()
        on = Target(rig, SLUG, deployed(rig, SLUG))
        try:
            for fault in ENGINE_FAULTS.values():
                met(on, fault)
            return list(rounds(on, minutes * 60.0, every_s, say))
        except AssertionError as error:
            raise AssertionError(f"{error}\n{rig.report()}") from error


def rounds(on: Target, seconds: float, every_s: float, say: Say) -> Iterator[Round]:
    began = time.monotonic()
    killed = False
    for name in itertools.cycle(ENGINE_FAULTS):
        passed = time.monotonic() - began
        if passed >= seconds:
            return
        if not killed and passed >= seconds / 2:
            killed = True
            mended = agent_killed(on)
            for fault in ENGINE_FAULTS.values():  # as at the begin: what is made once is no leak
                met(on, fault)
            yield told(Round(passed / 60, "agent killed", mended, after(on.rig)), say)
        started = time.monotonic()
        mended = met(on, ENGINE_FAULTS[name])
        yield told(Round(passed / 60, name, mended, after(on.rig)), say)
        time.sleep(max(0.0, every_s - (time.monotonic() - started)))


def told(one: Round, say: Say) -> Round:
    say(one)
    return one


def after(rig: Rig) -> Holding:
    """Once what a fault set going has ended."""
    time.sleep(SETTLE_S)
    return holding(rig, SLUG)
