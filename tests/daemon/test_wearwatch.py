"""What the engines' processes hold, container by container, against what is left to take."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agent.action.record import State, Wear
from agent.clock import Instant
from agent.daemon.wearwatch import WearWatch, limit_of, upkeep
from agent.metrics.board import Board
from agent.plan.model import ContainerPlan, Plan
from agent.samples.model import Activity, Miss, Missed, Sample
from agent.settings.model import Maintenance
from tests.metrics.boards import board

GIB = 1 << 30
SITE = Maintenance(windows=("0 3 * * sun",), settled_s=600.0)


def plan_with(memory: int | None) -> Plan:
    host: dict[str, Any] = {} if memory is None else {"Memory": memory}
    return replace(board("small").plan, container=ContainerPlan("small", None, {"HostConfig": host}))


class Host:
    """One deployment whose memory a test sets, and what the host has left."""

    def __init__(self, left: float | None = 100.0 * GIB, slow: str = "", memory: int | None = None) -> None:
        self.left = left
        self.plan = plan_with(memory)
        self.watch = WearWatch(lambda: SITE, lambda: self.left, lambda _slug, _generation: slow)
        self.mono = 0.0
        self.last: Board = board("small", State.READY)

    def serve(self, hours: float, held: float, grows: float = 0.0, container: str = "c1", **more: Any) -> None:
        """So long, holding so many GiB at first and `grows` more each hour; a look every five minutes, seen twice."""
        for number in range(int(hours * 12)):
            own = int((held + grows * number / 12) * GIB)
            sample = Sample(
                Instant(self.mono, self.mono),
                Missed(Miss.GONE, ""),
                Missed(Miss.GONE, ""),
                activity=Activity(2, 1.0, own_bytes=own),
            )
            shown = board("small", State.READY)
            record = replace(shown.record, container=container, **{"ready_at": 1.0, **more})
            self.last = replace(shown, record=record, sample=sample, plan=self.plan)
            self.watch.see(self.last)
            self.watch.see(self.last)
            self.mono += 300.0

    @property
    def worn(self) -> list[Wear]:
        return [one.kind for one in self.watch.worn(self.last.record, self.plan)]


@pytest.mark.parametrize(
    ("left", "memory", "expect"),
    [
        pytest.param(100.0 * GIB, None, [Wear.MEMORY], id="the host's"),
        pytest.param(10_000.0 * GIB, None, [], id="more than it could ever take"),
        pytest.param(10_000.0 * GIB, 64 * GIB, [Wear.MEMORY], id="its container's limit"),
        pytest.param(100.0 * GIB, 10_000 * GIB, [Wear.MEMORY], id="a limit beyond the host's"),
        pytest.param(None, 64 * GIB, [], id="not known"),
    ],
)
def test_growth_is_held_against_what_may_still_be_taken(
    left: float | None, memory: int | None, expect: list[Wear]
) -> None:
    host = Host(left, memory=memory)
    host.serve(80, 20.0, grows=0.5)
    assert host.worn == expect


def test_a_new_container_is_measured_anew() -> None:
    """What the one before it held is no measure, and no wear of its own."""
    host = Host()
    host.serve(80, 20.0, grows=0.5)
    host.serve(2, 20.0, container="c2")
    assert host.worn == []
    host.serve(80, 20.0, grows=0.5, container="c2")
    assert host.worn == [Wear.MEMORY]


def test_an_engine_that_starts_or_is_not_seen_is_not_measured() -> None:
    host = Host()
    host.serve(80, 20.0, grows=0.5, ready_at=None)
    assert host.worn == []


def test_slowness_comes_first() -> None:
    host = Host(slow="decodes 0.40 of what is claimed")
    host.serve(80, 20.0, grows=0.5)
    assert host.worn == [Wear.SLOW, Wear.MEMORY]


@pytest.mark.parametrize(("memory", "limit"), [(None, None), (0, None), (64 * GIB, 64.0 * GIB)])
def test_a_limit_is_the_launches_own(memory: int | None, limit: float | None) -> None:
    assert limit_of(plan_with(memory)) == limit


def test_without_windows_nothing_may_be_done() -> None:
    assert not upkeep(Maintenance(), 1_796_526_000.0).windows
    assert upkeep(SITE, 1_796_526_000.0).restart_for == {"slow", "memory"}
