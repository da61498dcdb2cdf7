"""One sample's effect on what is remembered, signal by signal (pure)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from agent.clock import Instant
from agent.engines.model import EngineReading, LogEvent, Phase, Pong, RankReading
from agent.samples.marks import Answers, Clients, Effort, Gauge, RankMark
from agent.samples.model import Activity, Connections, GpuSample, Health, Miss, Missed, Sample

GAUGES = frozenset(
    {"kv_usage", "used_blocks", "running", "waiting", "held", "retracted", "grammar_queue", "decode_lengths"}
)
"""Components of progress that may fall; a fall of any other is an engine that began anew."""

STILL_TOKENS = 4096.0
"""Tokens made a request with the KV gauge at rest that show that it never moves: more than any block holds."""
BUSY_CPU = 0.05
"""Cores that count as work: a waiting engine's polling takes less."""
MOVED_BYTES = 16 << 20
LITTLE_BYTES = 1 << 20
"""What is read or written beside the work: a file that notes each try, and what is less than any load's."""
JIT_BREAK_S = 60.0
"""Compilers come one after the other; a longer pause ends a compilation."""
SETTLED_S = 60.0
"""An engine's last gauges are written so long after its last step: SGLang's every 30 s when it is idle."""
KEPT_PHASES = 100
Steps = tuple[tuple[LogEvent, ...], tuple[Instant, ...]]
BLIND = frozenset({Miss.NOT_ASKED, Miss.UNSUPPORTED, Miss.NO_RIGHTS, Miss.HTTP})
"""Ways of not being scraped that say nothing about the engine's health: there are no metrics to be had."""


def hold(since: Instant | None, holds: bool | None, at: Instant) -> Instant | None:
    """Since when something holds: from now on, as before, no longer; what is unknown changes nothing."""
    if holds is None:
        return since
    return (since or at) if holds else None


# ── ranks ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def fold_ranks(
    before: Mapping[str, RankMark], reading: EngineReading, restarted: bool, at: Instant
) -> dict[str, RankMark]:
    """The ranks after a good scrape. One that this scrape does not name keeps its last state: nothing new was said.
    After a minute beside others that are named it was taken away.

    Of an engine that was started anew only those are left that it names.
    """
    after = {} if restarted and reading.ranks else dict(before)
    for rank in reading.ranks:
        known = None if restarted else before.get(rank.rank)
        after[rank.rank] = replace(fold_rank(known, rank, at), named=at)
    gone = {name for name, mark in after.items() if mark.named is not None and at - mark.named >= SETTLED_S}
    return {name: mark for name, mark in after.items() if name not in gone} if reading.ranks else after


def fold_rank(before: RankMark | None, rank: RankReading, at: Instant) -> RankMark:
    if before is None or fell(before.last, rank):
        gauge = before.gauge if before else Gauge.UNKNOWN
        return RankMark(last=rank, progressed=at, since=at, gauge=gauge)
    moved = dict(before.last.progress) != dict(rank.progress)
    gauge, still = fold_gauge(before, rank)
    return replace(before, last=rank, progressed=at if moved else before.progressed, gauge=gauge, still_tokens=still)


def fell(before: RankReading, now: RankReading) -> bool:
    """A counter went down: the engine restarted by itself, and everything is measured from here on."""
    return any(
        now.progress[name] < value
        for name, value in before.progress.items()
        if name not in GAUGES and name in now.progress
    )


def fold_gauge(before: RankMark, rank: RankReading) -> tuple[Gauge, float]:
    """Whether the KV gauge follows the work, learned while the same requests run."""
    last = before.last
    if before.gauge is Gauge.SHOWN or rank.kv_usage is None or last.kv_usage is None:
        return before.gauge, before.still_tokens
    same = (last.running, last.waiting, last.finished) == (rank.running, rank.waiting, rank.finished)
    if not same or not rank.running:
        return before.gauge, before.still_tokens
    if rank.kv_usage != last.kv_usage:
        return Gauge.SHOWN, 0.0
    made = (rank.generation_tokens or 0.0) - (last.generation_tokens or 0.0)
    still = before.still_tokens + max(0.0, made) / rank.running
    return (Gauge.REFUTED if still >= STILL_TOKENS else before.gauge), still


def work_of(ranks: Mapping[str, RankMark]) -> float | None:
    """Requests in all schedulers, None where no rank says."""
    known = [mark.last.work for mark in ranks.values() if mark.last.work is not None and not mark.last.echo]
    return sum(known) if known else None


def counted_of(ranks: Mapping[str, RankMark]) -> float | None:
    """Requests that the schedulers count as running or waiting, None where no rank says."""
    known = [mark.last.counted for mark in ranks.values() if mark.last.counted is not None and not mark.last.echo]
    return sum(known) if known else None


# ── clients ───────────────────────────────────────────────────────────────────────────────────────────────────────


def fold_clients(
    before: Clients, sample: Sample, ranks: Mapping[str, RankMark], token: Instant | None, standing_s: float
) -> Clients:
    """Connections against requests. The agent's own canary is no connection here, and no request either.

    Tokens that are held are no request: SGLang holds those of a session between two of its requests, and those of a
    finished prefill until another server has taken them.
    `token`: when a canary was last answered; requests that are gone after it, with nobody connected, were never there.
    """
    at, work, counted = sample.at, work_of(ranks), counted_of(ranks)
    before = replace(before, detached=detached(before.detached, sample, counted), stale_gauge=None)
    if not isinstance(sample.connections, Connections) or not isinstance(sample.scrape, EngineReading):
        return before
    clients = sample.connections.established
    own = 1.0 if sample.canary_out else 0.0
    requests = None if counted is None else max(0.0, counted - own)
    standing = hold(before.standing, work is not None and work <= own and clients > 0, at)
    since = before.clientless
    stale = since is not None and requests == 0 and clients == 0 and token is not None and token - since >= 0
    return Clients(
        clientless=hold(since, requests is not None and requests > 0 and clients == 0, at),
        outnumbered=hold(before.outnumbered, requests is not None and requests > clients > 0, at),
        standing=standing,
        pooled=clients > 0 and (before.pooled or (standing is not None and at - standing >= standing_s)),
        detached=before.detached,
        stale_gauge=at if stale else None,
    )


def detached(before: Instant | None, sample: Sample, counted: float | None) -> Instant | None:
    """Gauges lag behind the log: that nothing runs is believed once they have settled."""
    if any(event.detached for event in sample.log):
        return sample.at
    over = isinstance(sample.scrape, EngineReading) and counted == 0
    return None if over and before is not None and sample.at - before > SETTLED_S else before


# ── answers ───────────────────────────────────────────────────────────────────────────────────────────────────────


def fold_answers(before: Answers, sample: Sample, scrape_is_ping: bool) -> Answers:
    at, scrape, health = sample.at, sample.scrape, sample.health
    failing = isinstance(scrape, Missed) and scrape.kind not in BLIND
    refused = isinstance(scrape, Missed) and scrape.kind is Miss.REFUSED
    after = replace(
        before,
        scraped=before.scraped if isinstance(scrape, Missed) else at,
        failing=hold(before.failing, failing, at),
        refused=hold(before.refused, refused or health_refused(sample), at),
        unhealthy=hold(before.unhealthy, health.status >= 500 if isinstance(health, Health) else None, at),
        health_lost=hold(before.health_lost, None if health is None else isinstance(health, Missed), at),
    )
    alive, age = ping_of(sample, scrape_is_ping)
    if alive is None:
        return after
    return replace(
        after,
        ping_lost=hold(before.ping_lost, not alive, at),
        ping_misses=0 if alive else before.ping_misses + 1,
        ping_ok=at if alive else before.ping_ok,
        heartbeat=age if alive else before.heartbeat,
    )


def health_refused(sample: Sample) -> bool:
    """An engine without metrics, whose port refuses the health path or the loop's ping."""
    blind = isinstance(sample.scrape, Missed) and sample.scrape.kind in BLIND
    return blind and any(
        isinstance(look, Missed) and look.kind is Miss.REFUSED for look in (sample.health, sample.ping)
    )


def ping_of(sample: Sample, scrape_is_ping: bool) -> tuple[bool | None, float | None]:
    """Whether the scheduler's loop answered (None: was not asked, or cannot be), and its heartbeat's age."""
    ping = sample.ping
    if isinstance(ping, Pong):
        return ping.alive, ping.age
    if isinstance(ping, Missed):
        return (False if ping.kind is Miss.TIMEOUT else None), None
    if scrape_is_ping and isinstance(sample.scrape, EngineReading):
        return True, None
    if scrape_is_ping and isinstance(sample.scrape, Missed) and sample.scrape.kind is Miss.TIMEOUT:
        return False, None
    return None, None


# ── effort ────────────────────────────────────────────────────────────────────────────────────────────────────────


def fold_effort(before: Effort, previous: Sample | None, sample: Sample, idle: bool, progressed: bool) -> Effort:
    """Log, disk, processor, memory and power: what says "at work" without the engine's own word.

    That a compiler is there moves nothing: one that waits for a lock, or for a disk that hangs, is there for ever. Its
    work is the processor's, and one that comes or goes is a step.
    """
    at = sample.at
    wrote = sample.log_lines > sum(1 for event in sample.log if event.hang)
    compiles = any(event.jit for event in sample.log) or bool(compilers(sample))
    loading = loads(previous, sample)
    stored = stores(previous, sample)
    worked = stored or computes(previous, sample)
    return replace(
        before,
        moved=at if wrote or worked or (previous is not None and read_more(previous, sample)) else before.moved,
        worked=at if worked else before.worked,
        stored=at if stored else before.stored,
        waited=at if isinstance(sample.activity, Activity) and sample.activity.uninterruptible else before.waited,
        wrote=at if wrote else before.wrote,
        spoke=at if any(event.progress for event in sample.log) or stepped(before, sample) else before.spoke,
        position=position_of(sample) or before.position,
        jit=at if compiles else before.jit,
        jit_since=spell(before.jit, before.jit_since, compiles, at),
        loads=at if loading else before.loads,
        loads_since=spell(before.loads, before.loads_since, loading, at),
        hang=at if any(event.hang for event in sample.log) else before.hang,
        draining=before.draining or (at if any(event.draining for event in sample.log) else None),
        paused=paused(before.paused, sample, progressed),
        idle_power=least_power(before.idle_power, sample) if idle else before.idle_power,
    )


def paused(before: Instant | None, sample: Sample, progressed: bool) -> Instant | None:
    """The last word of the log counts, until something moves though the gauges have long settled: then the word that
    it may go on was missed."""
    told = [event.paused for event in sample.log if event.paused is not None]
    if told:
        return sample.at if told[-1] else None
    return None if progressed and before is not None and sample.at - before > SETTLED_S else before


def spell(last: Instant | None, since: Instant | None, holds: bool, at: Instant) -> Instant | None:
    """Since when something goes on that may pause: compilers come one after the other."""
    recent = last is not None and at - last <= JIT_BREAK_S
    if holds:
        return since if recent and since is not None else at
    return since if recent else None


def position_of(sample: Sample) -> str | None:
    return sample.ping.position if isinstance(sample.ping, Pong) else None


def stepped(before: Effort, sample: Sample) -> bool:
    """Requests stand elsewhere than they stood, by the scheduler's own answer."""
    now = position_of(sample)
    return now is not None and before.position is not None and now != before.position


def loads(previous: Sample | None, sample: Sample) -> bool:
    """Weights are on their way: much is read from disk, or a card's memory fills."""
    if previous is None:
        return False
    first, second = previous.activity, sample.activity
    if isinstance(first, Activity) and isinstance(second, Activity):
        before, now = first.io_bytes, second.io_bytes
        if before is not None and now is not None and now - before >= MOVED_BYTES:
            return True
    return any(grown >= MOVED_BYTES for grown in memory_grown(previous, sample))


def compilers(sample: Sample) -> tuple[str, ...]:
    return sample.activity.compilers if isinstance(sample.activity, Activity) else ()


def computes(previous: Sample | None, sample: Sample) -> bool:
    """The processor was busy between two samples, or other compilers are at work than before."""
    cores = None if previous is None else cpu_cores(previous, sample)
    return (cores is not None and cores >= BUSY_CPU) or (
        previous is not None and compilers(previous) != compilers(sample)
    )


def stores(previous: Sample | None, sample: Sample) -> bool:
    """The disk, the cards' memory or its own moved by more than a little between two samples. The first one begins
    anew, and so does the first after some in which that could not be seen: it may have moved all the time."""
    if previous is None or (disk_of(previous) is None and disk_of(sample) is not None):
        return True
    return read_more(previous, sample, LITTLE_BYTES) or memory_moved(previous, sample)


def cpu_cores(previous: Sample, sample: Sample) -> float | None:
    """Cores that the container's processes used on average between two samples; None where it cannot be told."""
    first, second = previous.activity, sample.activity
    seconds = sample.at - previous.at
    if not isinstance(first, Activity) or not isinstance(second, Activity) or seconds <= 0:
        return None
    used = second.cpu_seconds - first.cpu_seconds
    return None if used < 0 else used / seconds


def read_more(previous: Sample, sample: Sample, least: float = 1.0) -> bool:
    before, now = disk_of(previous), disk_of(sample)
    return before is not None and now is not None and now - before >= least


def disk_of(sample: Sample) -> float | None:
    """Bytes of storage, None where they cannot be told."""
    return sample.activity.io_bytes if isinstance(sample.activity, Activity) else None


def memory_moved(previous: Sample, sample: Sample) -> bool:
    return any(abs(grown) >= MOVED_BYTES for grown in (*memory_grown(previous, sample), own_grown(previous, sample)))


def own_grown(previous: Sample, sample: Sample) -> int:
    """Bytes by which its own memory grew; 0 where it cannot be told."""
    first, second = previous.activity, sample.activity
    if not isinstance(first, Activity) or not isinstance(second, Activity):
        return 0
    known = first.own_bytes is not None and second.own_bytes is not None
    return (second.own_bytes or 0) - (first.own_bytes or 0) if known else 0


def memory_grown(previous: Sample, sample: Sample) -> Iterator[int]:
    """Bytes by which each card's memory grew, of those that tell."""
    first = {gpu.uuid: gpu.memory_used for gpu in cards(previous)}
    for gpu in cards(sample):
        before = first.get(gpu.uuid)
        if gpu.memory_used is not None and before is not None:
            yield gpu.memory_used - before


def cards(sample: Sample) -> tuple[GpuSample, ...]:
    return sample.gpus if isinstance(sample.gpus, tuple) else ()


def least_power(before: Mapping[str, float], sample: Sample) -> dict[str, float]:
    seen = {gpu.uuid: gpu.power_w for gpu in cards(sample) if gpu.power_w is not None}
    return {**before, **{uuid: min(power, before.get(uuid, power)) for uuid, power in seen.items()}}


# ── log ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def fold_phases(before: tuple[LogEvent, ...], begun: tuple[Instant, ...], fresh: Sample) -> Steps:
    """The newest line of each step in the order in which the steps came, and when each began."""
    phases, times = list(before), list(begun)
    for event in (furthest(phases, event) for event in fresh.log):
        if event.phase is None:
            continue
        if phases and phases[-1].phase is event.phase:
            phases[-1] = event
        else:
            phases.append(event)
            times.append(fresh.at)
    return tuple(phases[-KEPT_PHASES:]), tuple(times[-KEPT_PHASES:])


def furthest(known: Sequence[LogEvent], event: LogEvent) -> LogEvent:
    """A step's percent never falls: ranks tell theirs one after the other, a draft model is loaded after its target,
    and graphs are captured for one kind of batch after the other, each from 0 % on."""
    told = [one.ratio for one in (*known, event) if one.phase is event.phase and one.ratio is not None]
    return replace(event, ratio=max(told)) if told else event


def reached(phases: Sequence[LogEvent]) -> dict[Phase | None, float | None]:
    """The steps of a start with the percent that each has come to."""
    return {event.phase: event.ratio for event in phases}
