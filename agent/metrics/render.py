"""What a snapshot shows: every family with its rows, and nothing that was there before."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping

from agent.action.record import State, Supervision, Wear
from agent.metrics import names
from agent.metrics.board import Board
from agent.metrics.bounds import Row, bounded
from agent.metrics.names import Family
from agent.metrics.snapshot import CardFigures, Snapshot
from agent.metrics.text import exposition
from agent.preflight.model import Level
from agent.verdict.kinds import FAULT_KINDS, STALL_KINDS, SUSPECT_REASONS

WAITING = ("memory", "person", "plan", "slow")
ACTED_ON = FAULT_KINDS | frozenset(wear.value for wear in Wear)
"""What something is done about, at once or in a maintenance window."""
READY_STATES = frozenset({State.READY, State.BUSY, State.SUSPECT})


class Exposition:
    """Shows the snapshot that `take` returns, at each scrape: nothing of an earlier one is left."""

    def __init__(self, take: Callable[[], Snapshot]) -> None:
        self._take = take

    def text(self) -> bytes:
        return exposition(shown(self._take()))


def shown(snapshot: Snapshot) -> Iterator[tuple[Family, list[Row]]]:
    """Every family, bounded, and last what the bounds cost."""
    left_out: list[Row] = []
    for family, rows in (*deployment_rows(snapshot), *host_rows(snapshot)):
        few, more = bounded(family, rows)
        left_out += [((family.full,), float(more))] if more else []
        yield family, few
    yield names.LEFT_OUT, left_out


def deployment_rows(snapshot: Snapshot) -> Iterator[tuple[Family, list[Row]]]:
    """Everything that has a `recipe` label."""
    boards = snapshot.boards
    yield names.STATE, [((b.record.slug, s.value), float(b.record.state is s)) for b in boards for s in State]
    yield (
        names.SUPERVISION,
        [((b.record.slug, m.value), float(b.record.supervision is m)) for b in boards for m in Supervision],
    )
    yield names.UP, [((b.record.slug,), float(runs(b))) for b in boards if looked(b)]
    yield names.READY, [((b.record.slug,), float(b.record.state in READY_STATES)) for b in boards]
    yield (
        names.BUDGET,
        [((b.record.slug,), float(max(0, b.plan.watch.budget - len(b.record.restarts)))) for b in boards],
    )
    yield (
        names.RESTART_WAITS,
        [((b.record.slug, word), float(b.record.restart_waits == word)) for b in boards for word in WAITING],
    )
    yield names.STARTUP_S, [((b.record.slug,), b.startup_s) for b in boards if b.startup_s is not None]
    yield names.STARTUP, [row for b in boards for row in startup(b)]
    yield (
        names.PREFLIGHT,
        [((b.record.slug, one.check), float(one.level is Level.PASS)) for b in boards for one in b.findings],
    )
    yield names.BLIND, [((b.record.slug, signal), 1.0) for b in boards if b.verdict for signal in b.verdict.blind]
    known = {board.record.slug for board in boards}
    ratios = [((slug, point), ratio) for (slug, point), ratio in sorted(snapshot.ratios.items()) if slug in known]
    yield names.CLAIM_RATIO, [*ratios]
    comparable = sorted(snapshot.comparable.items())
    yield names.CLAIM_COMPARABLE, [((slug,), float(same)) for slug, same in comparable if slug in known]
    yield names.VERIFIED, [((slug,), at) for slug, at in sorted(snapshot.verified.items()) if slug in known]
    yield names.PROMPT, totals(snapshot, "prompt_tokens")
    yield names.GENERATION, totals(snapshot, "generation_tokens")
    yield from counted_rows(boards)
    yield from figure_rows(boards)


def looked(board: Board) -> bool:
    """Whether it is known if the engine's container runs: there is none, or it was looked at since the start."""
    return board.record.container is None or board.sample is not None


def runs(board: Board) -> bool:
    return board.record.container is not None and board.sample is not None and container_runs(board)


def container_runs(board: Board) -> bool:
    container = board.sample.container if board.sample else None
    return bool(getattr(container, "running", False))


def startup(board: Board) -> list[Row]:
    verdict = board.verdict
    if board.record.state in READY_STATES:
        return [((board.record.slug, "ready"), 1.0)]
    if verdict is None or verdict.phase is None or verdict.progress is None:
        return []
    return [((board.record.slug, verdict.phase), verdict.progress)]


def totals(snapshot: Snapshot, name: str) -> list[Row]:
    known = {board.record.slug for board in snapshot.boards}
    found = {slug: value for (kind, slug), value in snapshot.totals.items() if kind == name and slug in known}
    return [((slug,), found.get(slug, 0.0)) for slug in sorted(known)]


def counted_rows(boards: tuple[Board, ...]) -> Iterator[tuple[Family, list[Row]]]:
    """Counters that the record keeps; each exists at 0 from the first moment, so that an alert sees the first one."""
    kept = [(board.record.slug, by_counter(board.record.counts)) for board in boards]
    for family, name, known in (
        (names.SUSPECTS, "suspects", SUSPECT_REASONS),
        (names.STALLS, "stalls", STALL_KINDS),
        (names.RESTARTS, "restarts", ACTED_ON),
        (names.WOULD, "would", ACTED_ON),
        (names.INCIDENTS, "incidents", ACTED_ON),
    ):
        yield family, [row for slug, found in kept for row in counts(slug, found.get(name, {}), known)]


def by_counter(kept: Mapping[str, int]) -> dict[str, dict[str, int]]:
    """`COUNTER.KIND` → count, as counter → kind → count."""
    found: dict[str, dict[str, int]] = {}
    for key, count in kept.items():
        name, _, kind = key.partition(".")
        found.setdefault(name, {})[kind] = count
    return found


def counts(slug: str, found: Mapping[str, int], known: Collection[str]) -> list[Row]:
    return [((slug, kind), float(found.get(kind, 0))) for kind in sorted({*known, *found})]


def figure_rows(boards: tuple[Board, ...]) -> Iterator[tuple[Family, list[Row]]]:
    """Figures of the last verdict; what is not known has no series, and never a zero."""
    for family, key in (
        (names.RUNNING, "requests_running"),
        (names.WAITING, "requests_waiting"),
        (names.CLIENTS, "client_connections"),
        (names.ZOMBIES, "zombie_requests"),
        (names.ZOMBIE_KV, "zombie_kv_tokens"),
        (names.DECODE, "decode_tokens_per_second"),
        (names.KV_USAGE, "kv_cache_usage_ratio"),
        (names.ACCEPTANCE, "spec_decode_acceptance_ratio"),
    ):
        yield family, [((b.record.slug,), value) for b in boards if (value := figure(b, key)) is not None]
    yield names.PROGRESS, [row for board in boards for row in progress(board)]


def figure(board: Board, key: str) -> float | None:
    value = board.verdict.figures.get(key) if board.verdict else None
    return float(value) if isinstance(value, int | float) else None


def progress(board: Board) -> list[Row]:
    ranks = board.verdict.figures.get("seconds_since_progress") if board.verdict else None
    if not isinstance(ranks, dict):
        return []
    return [((board.record.slug, str(rank)), float(value)) for rank, value in ranks.items() if value is not None]


def host_rows(snapshot: Snapshot) -> Iterator[tuple[Family, list[Row]]]:
    """The host and its cards."""
    yield names.BUILD_INFO, [((snapshot.version,), 1.0)]
    for family, read in CARD_FAMILIES:
        yield family, [((c.gpu, c.uuid), float(value)) for c in snapshot.cards if (value := read(c)) is not None]
    yield (
        names.GPU_XID,
        [((c.gpu, c.uuid, str(xid)), float(count)) for c in snapshot.cards for xid, count in sorted(c.xids.items())],
    )
    yield names.HOST_MEMORY, single(snapshot.memory_available)
    yield names.DRIVER_SKEW, single(snapshot.driver_skew)
    folders = sorted(snapshot.folders.items())
    yield names.DISK_FREE, [((name,), one.available) for name, one in folders]
    yield names.DISK_TOTAL, [((name,), one.total) for name, one in folders]
    yield names.COLLECTOR_OK, [((name,), float(one.success)) for name, one in sorted(snapshot.collectors.items())]
    yield names.COLLECTOR_S, [((name,), one.seconds) for name, one in sorted(snapshot.collectors.items())]
    yield names.TICK, single(snapshot.tick_s)


CARD_FAMILIES: tuple[tuple[Family, Callable[[CardFigures], float | None]], ...] = (
    (names.GPU_USED, lambda card: card.memory_used),
    (names.GPU_TOTAL, lambda card: card.memory_total),
    (names.GPU_UTIL, lambda card: card.utilization),
    (names.GPU_POWER, lambda card: card.power_w),
    (names.GPU_TEMP, lambda card: card.temperature_c),
    (names.GPU_WIDTH, lambda card: card.pcie_width),
    (names.GPU_GENERATION, lambda card: card.pcie_generation),
    (names.GPU_WIDTH_MAX, lambda card: card.pcie_width_max),
    (names.GPU_GENERATION_MAX, lambda card: card.pcie_generation_max),
    (names.GPU_LOST, lambda card: float(card.lost)),
    (names.GPU_HELD, lambda card: card.throttled),
)


def single(value: float | None) -> list[Row]:
    return [] if value is None else [((), float(value))]
