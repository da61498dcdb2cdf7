"""A fault on file stays there until the engine is seen healthy: else its evidence would be gathered for ever."""

from __future__ import annotations

import pytest

from agent.action.decide import decide
from agent.action.model import SaveEvidence, Stop
from agent.action.record import Deployment, Fault, State
from agent.action.seen import Seen
from agent.action.transition import look
from agent.clock import Instant
from agent.container.port import ContainerView, RunState
from agent.verdict.model import Judged, Remedy, Verdict
from tests.action.world import fault, watch

HELD = Fault("busy", "nothing moves", Remedy.RESTART, 10.0, incident="i1")
VIEW = ContainerView("c", "n", "s", "p", 1, RunState.RUNNING, pid=1)


def record() -> Deployment:
    return Deployment("s", "p", state=State.STALLED, generation=1, started_at=1.0, fault=HELD, imaged="p", checked="p")


def seen(verdict: Verdict) -> Seen:
    return Seen(Instant(20.0, 20.0), watch(), "boot", container=VIEW, verdict=verdict)


@pytest.mark.parametrize("state", [Judged.SUSPECT, Judged.UNOBSERVABLE])
def test_a_look_that_is_not_sure_keeps_it_and_the_next_sure_one_acts(state: Judged) -> None:
    after = look(record(), seen(Verdict(state, "cannot look")), 10.0)
    assert after.fault == HELD
    assert isinstance(decide(after, seen(fault("busy"))), Stop)


@pytest.mark.parametrize("state", [Judged.READY, Judged.BUSY, Judged.ASLEEP])
def test_a_healthy_look_ends_it_and_the_next_one_is_a_new_fault(state: Judged) -> None:
    after = look(record(), seen(Verdict(state, "well")), 10.0)
    assert after.fault is None
    assert isinstance(decide(after, seen(fault("busy"))), SaveEvidence)
