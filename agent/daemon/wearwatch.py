"""What has become worse of the engines that serve, and may be mended by a new start."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from agent.action.record import Deployment, Wear
from agent.action.seen import Upkeep, Worn
from agent.daemon.windows import Windows
from agent.metrics.board import Board
from agent.plan.model import Plan
from agent.samples.model import Activity
from agent.settings.model import Maintenance
from agent.verdict.model import Judged
from agent.verify.creep import Growth, creeping, grow

SERVES = frozenset({Judged.READY, Judged.BUSY, Judged.SUSPECT})


@dataclass(frozen=True, slots=True)
class Run:
    """One container's life: what it held, and when its last sample was taken."""

    container: str
    looked: float
    growth: Growth | None


class WearWatch:
    """Memory by the boards that are published, slowness by whoever holds traffic against the claims (`slow`)."""

    def __init__(
        self,
        site: Callable[[], Maintenance],
        available: Callable[[], float | None],
        slow: Callable[[str, int], str],
    ) -> None:
        self._site = site
        self._available = available
        self._slow = slow
        self._runs: dict[str, Run] = {}

    def see(self, board: Board) -> None:
        """Take what the engine's processes hold, once a sample, while it serves."""
        record, sample, verdict = board.record, board.sample, board.verdict
        if record.container is None or record.ready_at is None or sample is None or verdict is None:
            return
        run = self._run(record)
        new = run is None or run.looked != sample.at.mono
        if verdict.state not in SERVES or not new or not isinstance(sample.activity, Activity):
            return
        before = run.growth if run is not None else None
        site = self._site()
        growth = grow(before, sample.activity.own_bytes, sample.at.mono, site.settled_s, site.memory_span_s)
        self._runs[record.slug] = Run(record.container, sample.at.mono, growth)

    def worn(self, record: Deployment, plan: Plan) -> tuple[Worn, ...]:
        """What the engine that runs suffers from now."""
        run = self._run(record)
        growth = run.growth if run is not None else None
        memory = creeping(growth, self._left(growth, plan), self._site().memory_growth)
        found = ((Wear.SLOW, self._slow(record.slug, record.generation)), (Wear.MEMORY, memory))
        return tuple(Worn(kind, why) for kind, why in found if why)

    def _run(self, record: Deployment) -> Run | None:
        """Of the container that runs; what an earlier one held is no measure."""
        run = self._runs.get(record.slug)
        return run if run is not None and run.container == record.container else None

    def _left(self, growth: Growth | None, plan: Plan) -> float | None:
        """What it may still take: of the host, or of its container's own limit where that is less."""
        host, limit = self._available(), limit_of(plan)
        if host is None or growth is None or limit is None:
            return host
        return max(0.0, min(host, limit - growth.low))


def limit_of(plan: Plan) -> float | None:
    """Bytes that its container may take (`--memory`), None for no limit."""
    body = plan.container.body if plan.container else {}
    limit = (body.get("HostConfig") or {}).get("Memory")
    return float(limit) if isinstance(limit, int) and limit > 0 else None


def upkeep(site: Maintenance, wall: float) -> Upkeep:
    """What may be done at this time; seconds since the epoch."""
    windows = Windows(site)
    return Upkeep(
        windows=windows.any,
        opened=windows.opened(wall),
        restart_for=frozenset(site.restart_for),
        settled_s=site.settled_s,
        drain_s=site.drain_s,
    )
