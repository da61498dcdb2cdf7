"""The window: samples folded one by one, bounded, with what is older and still matters (pure)."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import replace

from agent.clock import Instant
from agent.container.port import ContainerView, RunState
from agent.engines.model import EngineReading, FailureClass, LogEvent, Phase, Pong
from agent.plan.watch import Watch
from agent.samples.canaries import fold_canaries
from agent.samples.fold import (
    compilers,
    fold_answers,
    fold_clients,
    fold_effort,
    fold_phases,
    fold_ranks,
    reached,
    work_of,
)
from agent.samples.marks import Canaries, Clients, Effort, Marks, XidSeen
from agent.samples.model import Connections, Health, Miss, Missed, Sample, Window

KEPT_S = 1800.0
KEPT_SAMPLES = 4096
KEPT_EACH = 10
"""Failure lines of one class: a start that tries the same again and again must not hide what ended it."""
KEPT_XIDS = 100
STALE_FAILURE_S = 60.0
"""A failure line that the engine outlived for so long was not its end."""
OF_A_START = frozenset(
    {
        FailureClass.BAD_FLAG,
        FailureClass.MODEL_PATH,
        FailureClass.WEIGHTS,
        FailureClass.AUTHENTICATION,
        FailureClass.KV_TOO_SMALL,
        FailureClass.GPU_BUSY,
        FailureClass.NO_CARDS,
        FailureClass.NETWORK,
        FailureClass.START_FAILED,
    }
)
"""What only a start can end with. An engine that has long been ready tells so of a client's wish (a picture that cannot
be fetched, an adapter with broken files), and goes on."""
GAP_PERIODS = 3.0
GAP_S = 45.0
"""So long a tick may take without being taken for a gap in which nobody looked: evidence is gathered for up to 30 s."""
IDLE_POWER = "idle_power_w."
GUARDED = (401, 403)
ABSENT = frozenset({Miss.REFUSED, Miss.TIMEOUT, Miss.BROKEN, Miss.GONE})


class WindowBuilder:
    """Folds one generation's samples. `ready` is given where the agent adopts an engine that was ready before."""

    def __init__(
        self,
        started: Instant,
        watch: Watch,
        *,
        ready: Instant | None = None,
        learned: Mapping[str, float] | None = None,
        scrape_is_ping: bool = False,
        spacing: float = 0.0,
        own: tuple[str, ...] = (),
    ) -> None:
        """`spacing`: seconds between two looks where they were further apart than the watch's period; `own`: the
        data-parallel ranks that were seen to answer to their numbers before."""
        self._watch = watch
        self._gap = max(GAP_PERIODS * max(watch.period.value, spacing), GAP_S)
        self._scrape_is_ping = scrape_is_ping
        self._keep = max(KEPT_S, 2 * (watch.stall_blind.seconds or 0.0))
        self._samples: deque[Sample] = deque(maxlen=KEPT_SAMPLES)
        self._failures: list[tuple[Instant, LogEvent]] = []
        self._outlived: list[tuple[Instant, LogEvent]] = []
        """Those after which the start went on: a cause only where nothing better is found."""
        self._process: float | None = None
        self._oom_first: int | None = None
        power = {
            key.removeprefix(IDLE_POWER): value for key, value in (learned or {}).items() if key.startswith(IDLE_POWER)
        }
        marks = Marks(canaries=Canaries(own=own))
        marks = replace(marks, effort=replace(marks.effort, idle_power=power))
        self._window = Window((), started, ready, learned=dict(learned or {}), marks=marks)

    def add(self, sample: Sample) -> Window:
        """The window with one sample more, which is newer than those before."""
        previous = self._samples[-1] if self._samples else None
        if previous is not None and sample.at - previous.at > self._gap:
            self._forget(sample.at)
            previous = None
        self._samples.append(sample)
        while sample.at - self._samples[0].at > self._keep:
            self._samples.popleft()
        marks = self._marks(previous, sample)
        window = self._window
        phases, phased = fold_phases(window.phases, window.phased, sample)
        if reached(phases) != reached(window.phases):
            marks = replace(marks, effort=replace(marks.effort, advanced=sample.at))
        self._window = replace(
            window,
            samples=tuple(self._samples),
            ready=window.ready or (sample.at if is_ready(sample, window.phases) else None),
            phases=phases,
            phased=phased,
            failures=tuple(event for _, event in (*self._failures, *self._outlived)),
            marks=replace(marks, failed=tuple(at for at, _ in (*self._failures, *self._outlived))),
        )
        return self._window

    def know(self, figures: Mapping[str, float]) -> None:
        """What was learned is known from the next window on, so that it is not learned again."""
        self._window = replace(self._window, learned={**self._window.learned, **figures})

    def _forget(self, at: Instant) -> None:
        """Nobody looked for a while (a suspended host, a busy agent): silence is measured from here on."""
        self._samples.clear()
        marks = self._window.marks
        ranks = {name: replace(mark, progressed=at) for name, mark in marks.ranks.items()}
        still = replace(marks.effort, moved=at, worked=at, stored=at)
        effort = replace(still, wrote=None, spoke=None, jit=None, jit_since=None, hang=None)
        self._window = replace(
            self._window,
            marks=Marks(
                ranks=ranks,
                effort=effort,
                clients=Clients(pooled=marks.clients.pooled),
                canaries=Canaries(own=marks.canaries.own, stray=marks.canaries.stray, excused=at),
                xids=marks.xids,
                oom_kills=marks.oom_kills,
                since=at,
                blind=marks.blind,
            ),
        )

    def _marks(self, previous: Sample | None, sample: Sample) -> Marks:
        before = self._window.marks
        ranks, progressed = before.ranks, False
        if isinstance(sample.scrape, EngineReading):
            ranks = fold_ranks(before.ranks, sample.scrape, self._restarted(sample.scrape), sample.at)
            progressed = any(mark.progressed is sample.at for mark in ranks.values())
        work = work_of(ranks)
        at_rest = is_idle(sample, work) and (work is not None or self._window.ready is not None)
        effort = fold_effort(before.effort, previous, sample, idle=at_rest, progressed=progressed)
        self._note_failures(sample, progressed)
        excused = self._excuses(sample, effort)
        loads = self._loads(sample, effort)
        proved = newest(effort.spoke, *(mark.progressed for mark in ranks.values()))
        canaries = fold_canaries(
            before.canaries, sample, ranks, idle=is_idle(sample, work), proved=proved, excused=excused or loads
        )
        return Marks(
            ranks=ranks,
            clients=fold_clients(before.clients, sample, ranks, canaries.token, self._watch.standing.value),
            answers=fold_answers(before.answers, sample, self._scrape_is_ping),
            canaries=canaries,
            effort=effort,
            xids=self._xids(before, sample),
            oom_kills=self._oom(sample),
            host_oom=before.host_oom or killed_at_exit(previous, sample),
            since=before.since or sample.at,
            excused=sample.at if excused else before.excused,
            blind=sample.scrape.blind if isinstance(sample.scrape, EngineReading) else before.blind,
        )

    def _excuses(self, sample: Sample, effort: Effort) -> bool:
        """Nothing is expected to move now."""
        since = effort.jit_since if compilers(sample) else None
        compiling = since is not None and sample.at - since < self._watch.jit_limit.value
        return compiling or sleeps(sample) or effort.paused is not None

    def _loads(self, sample: Sample, effort: Effort) -> bool:
        """A model is on its way to the cards, as servers do that unload an idle one: no token can be had so long."""
        since = effort.loads_since if effort.loads is sample.at else None
        return since is not None and sample.at - since < self._watch.start_jit.value

    def _restarted(self, reading: EngineReading) -> bool:
        """Another process answers than before."""
        start, known = reading.process_start, self._process
        self._process = start if start is not None else known
        return start is not None and known is not None and start != known

    def _note_failures(self, sample: Sample, progressed: bool) -> None:
        """Keep failure lines until the engine has gone on for a while after them; of many of a class, the first."""
        at, ready = sample.at, self._window.ready
        fresh = [event for event in sample.log if event.failure and not (event.unsure and ready)]
        if ready is None:
            self._outlive(sample)
        elif at - ready >= STALE_FAILURE_S:
            self._outlived = []
            self._failures = [(then, event) for then, event in self._failures if then - ready >= 0]
            fresh = [event for event in fresh if event.failure not in OF_A_START]
        if progressed and ready is not None:
            self._failures = [(then, event) for then, event in self._failures if at - then < STALE_FAILURE_S]
        self._failures = first_of_each([*self._failures, *((at, event) for event in fresh)])

    def _outlive(self, sample: Sample) -> None:
        """A start that comes to its next step, or gets on in one, went on after what was written long before."""
        if any(event.phase is not None and event.failure is None for event in sample.log):
            old = [known for known in self._failures if sample.at - known[0] >= STALE_FAILURE_S]
            self._failures = [known for known in self._failures if known not in old]
            self._outlived = first_of_each([*self._outlived, *old])

    def _xids(self, before: Marks, sample: Sample) -> tuple[XidSeen, ...]:
        fresh = tuple(XidSeen(xid.uuid, xid.number, xid.text, sample.at) for xid in sample.xids)
        return (before.xids + fresh)[-KEPT_XIDS:]

    def _oom(self, sample: Sample) -> int | None:
        """Kills since this generation was first looked at."""
        if sample.oom_kills is None:
            return self._window.marks.oom_kills
        if self._oom_first is None or sample.oom_kills < self._oom_first:
            self._oom_first = sample.oom_kills
        return sample.oom_kills - self._oom_first


def newest(*instants: Instant | None) -> Instant | None:
    return max((one for one in instants if one is not None), key=lambda one: one.mono, default=None)


def first_of_each(failures: list[tuple[Instant, LogEvent]]) -> list[tuple[Instant, LogEvent]]:
    """The first lines of every class, in their order."""
    seen: Counter[FailureClass | None] = Counter()
    kept = []
    for at, event in failures:
        seen[event.failure] += 1
        if seen[event.failure] <= KEPT_EACH:
            kept.append((at, event))
    return kept


def killed_at_exit(previous: Sample | None, sample: Sample) -> bool:
    """The host's counter rose between the last look at a running container and the first at an ended one."""
    if previous is None or not runs(previous) or runs(sample):
        return False
    before, now = previous.host_oom_kills, sample.host_oom_kills
    return before is not None and now is not None and now > before


def runs(sample: Sample) -> bool:
    return isinstance(sample.container, ContainerView) and sample.container.running


def sleeps(sample: Sample) -> bool:
    """By its own word, or by the runtime's."""
    if isinstance(sample.container, ContainerView) and sample.container.state is RunState.PAUSED:
        return True
    if isinstance(sample.ping, Pong) and sample.ping.asleep:
        return True
    return isinstance(sample.scrape, EngineReading) and any(rank.asleep for rank in sample.scrape.ranks)


def is_idle(sample: Sample, work: float | None) -> bool:
    """Nothing runs by the engine's own word, or, where it has none, nobody is connected."""
    if work is not None:
        return work == 0
    return isinstance(sample.connections, Connections) and sample.connections.established == 0


def is_ready(sample: Sample, phases: tuple[LogEvent, ...]) -> bool:
    """The engine serves: its health path says 200, or asks for a key that is not known here; where it is not asked, or
    is no path of this server's, its metrics or its log say so."""
    if isinstance(sample.health, Health) and sample.health.status in (200, *GUARDED):
        return True
    if isinstance(sample.health, Health) and sample.health.status >= 500:
        return False
    if isinstance(sample.health, Missed) and sample.health.kind in ABSENT:
        return False
    if isinstance(sample.scrape, EngineReading) and sample.scrape.ranks:
        return True
    if isinstance(sample.scrape, Missed) and sample.scrape.kind in ABSENT:
        return False
    return any(event.phase is Phase.READY for event in (*phases, *sample.log))
