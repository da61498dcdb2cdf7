"""A small engine made of numbers: scripts change it as time goes on, samples are taken of it, verdicts come out.

No clock, no task, no network: a scenario of a day takes a fraction of a second.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from agent.clock import Instant
from agent.container.port import ContainerView, RunState, StopRequest
from agent.engines.lines import is_echo
from agent.engines.model import EngineKind, EngineLaunch, EngineReading, LogEvent, Pong, RankReading
from agent.engines.registry import dialect_of
from agent.plan.model import Claim
from agent.plan.watch import Watch
from agent.plan.windows import derive
from agent.samples.fold import GAUGES
from agent.samples.model import (
    Activity,
    Canary,
    Connections,
    GpuSample,
    Health,
    Miss,
    Missed,
    Sample,
    Window,
    Xid,
)
from agent.samples.window import WindowBuilder
from agent.verdict.judge import judge
from agent.verdict.model import Judged, Remedy, Verdict

EPOCH = 1_790_000_000.0
CARD = "GPU-1"
IDLE_W = 60.0
BUSY_W = 300.0

PP4 = EngineLaunch(
    EngineKind.VLLM,
    port=8095,
    health="/health",
    metrics="/metrics",
    max_model_len=524288,
    chunk_tokens=8192,
    pipeline_parallel=4,
)
PP4_CLAIMS = (Claim("ttft_ms", 129_000, 1, 524288, False, "performance[0].metrics"),)


def pp4_watch(**overrides: float) -> Watch:
    return derive(PP4, PP4_CLAIMS, {"start_expected": 450.0, **overrides})


@dataclass
class Rank:
    """One scheduler's numbers. `flops` None: the version has no counter of steps."""

    running: float = 0
    waiting: float = 0
    kv: float = 0.0
    prompt: float = 1000.0
    generated: float = 1000.0
    finished: float = 5.0
    held: float | None = None
    asleep: bool = False
    flops: float | None = None
    extra: dict[str, float] = field(default_factory=dict)
    steps: tuple[str, ...] = ()
    gauges: bool = True
    """False: none is exported before its first step, as by vLLM with several API servers."""

    @classmethod
    def untouched(cls) -> Rank:
        """One that has made no step."""
        return cls(prompt=0.0, generated=0.0, finished=0.0, gauges=False)

    def reading(self, name: str) -> RankReading:
        progress = {
            "running": self.running,
            "waiting": self.waiting,
            "kv_usage": self.kv,
            "prompt_tokens": self.prompt,
            "generation_tokens": self.generated,
            "finished": self.finished,
            **self.extra,
        }
        if self.flops is not None:
            progress["flops"] = self.flops
        if not self.gauges:
            progress = {name: value for name, value in progress.items() if name not in GAUGES}
        return RankReading(
            rank=name,
            running=self.running if self.gauges else None,
            waiting=self.waiting if self.gauges else None,
            kv_usage=self.kv if self.gauges else None,
            prompt_tokens=self.prompt,
            generation_tokens=self.generated,
            finished=self.finished,
            held_tokens=self.held,
            asleep=self.asleep,
            progress=progress,
            steps=("flops",) if self.flops is not None else self.steps,
        )


@dataclass
class World:
    """What can be seen of one engine. Scripts change it; nothing in it changes by itself but processor time."""

    ranks: list[Rank] = field(default_factory=lambda: [Rank()])
    clients: int | Missed | None = 0
    close_wait: int = 0
    health: Health | Missed | None = field(default_factory=lambda: Health(200, 0.01))
    scrape: EngineReading | Missed | None = None
    """Instead of what `ranks` say."""
    log_unread: Missed | None = None
    ping: Pong | Missed | None = None
    cores: float = 0.01
    """Processor load of all its processes."""
    processes: bool = True
    compilers: tuple[str, ...] = ()
    stopped: tuple[int, ...] = ()
    stuck: tuple[int, ...] = ()
    load: float | None = 0.0
    power: float | None = IDLE_W
    memory: int | None = 40 << 30
    recovery: int | None = 0
    lost: bool = False
    gpus: Missed | None = None
    io: float = 0.0
    log: list[str | LogEvent] = field(default_factory=list)
    """Lines since the last sample."""
    xids: list[int] = field(default_factory=list)
    state: RunState = RunState.RUNNING
    exit_code: int | None = None
    oom_killed: bool = False
    oom_kills: int | None = 0
    host_oom_kills: int | None = 7
    stop: StopRequest | None = None
    container: Missed | None = None
    hidden: str = ""
    """Why the agent does not see the host's processes and network."""
    process_start: float | None = 1.0
    canary: Callable[[float], float | str | None] = lambda _: 0.2
    """Seconds until a token for a canary asked at that time; None: never; text: the engine's answer without one, with
    the HTTP status that it begins with (404 where it has none)."""
    aimed: Callable[[str, float], float | str | None] | None = None
    """The same for a canary that one rank is to answer, as the plan's engine takes the header; the rank by its name."""
    on_token: Callable[[], None] = lambda: None
    """What a canary's step does to the gauges."""
    cpu: float = 0.0

    @property
    def rank(self) -> Rank:
        return self.ranks[0]

    def exit(self, code: int) -> None:
        self.state, self.exit_code, self.processes = RunState.EXITED, code, False

    def idle(self) -> None:
        self.cores, self.load, self.power = 0.01, 0.0, IDLE_W

    def work(self) -> None:
        self.cores, self.load, self.power = 1.2, 0.97, BUSY_W


Script = Callable[[World, float], None]


@dataclass
class Tick:
    """One verdict at its time (seconds of the scenario)."""

    at: float
    verdict: Verdict
    window: Window


@dataclass
class Series:
    """A scenario: a script over a world, sampled every period of its watch."""

    script: Script
    seconds: float
    watch: Watch = field(default_factory=pp4_watch)
    engine: EngineLaunch = PP4
    world: Callable[[], World] = World
    ready_since: float | None = 3600.0
    """Seconds before the scenario's start; None: it starts with the container."""
    learned: Mapping[str, float] = field(default_factory=lambda: {f"idle_power_w.{CARD}": IDLE_W})
    period: float | None = None
    blackout: tuple[float, float] | None = None
    """From when to when nobody looked."""

    def play(self) -> list[Tick]:
        player = self.player()
        while player.at <= self.seconds:
            if self.blackout is not None and self.blackout[0] <= player.at < self.blackout[1]:
                player.skip()
            else:
                player.look(self.script)
        return player.ticks

    def player(self) -> Player:
        """It at its beginning."""
        return Player(self.watch, self.engine, self.world(), self.ready_since, self.learned, self.period)


class Player:
    """A window over a world, look by look; the loop's part is played with it: canaries are asked, one at a time."""

    def __init__(
        self,
        watch: Watch,
        engine: EngineLaunch,
        world: World,
        ready_since: float | None,
        learned: Mapping[str, float],
        period: float | None = None,
    ) -> None:
        self.watch, self.engine, self.world = watch, engine, world
        self.at = 0.0
        self.wall_shift = 0.0
        """Seconds that somebody has set the wall clock forward."""
        self.ticks: list[Tick] = []
        self.period = period or watch.period.value
        self._canaries = Canaries(watch)
        self._dialect = dialect_of(engine.kind)
        ready = None if ready_since is None else instant(-ready_since)
        self._builder = WindowBuilder(
            ready or instant(0.0),
            watch,
            ready=ready,
            learned=learned,
            scrape_is_ping=self._dialect.traits.scrape_is_ping,
        )

    def skip(self) -> None:
        """Nobody looks."""
        self.at += self.period

    def look(self, script: Script) -> Tick:
        """The script at this moment, one sample, its verdict."""
        world, at = self.world, self.at
        script(world, at)
        world.cpu += world.cores * self.period
        answer = self._canaries.ended(world, at)
        sample = sample_of(
            world, instant(at, self.wall_shift), answer, self._canaries.under_way, self._dialect.read_log
        )
        window = self._builder.add(sample)
        verdict = judge(window, self.watch, self.engine)
        tick = Tick(at, verdict, window)
        self.ticks.append(tick)
        if verdict.wants_canary and not self._canaries.under_way:
            rank = verdict.canary_rank if self._dialect.traits.aims else ""
            self._canaries.ask(world, at, verdict.canary_timeout_s, rank)
        self.at += self.period
        return tick


class Canaries:
    """What the loop does about `wants_canary`: one request at a time, its answer in a later sample."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.pending: tuple[float, float | str | None, float, str] | None = None
        """Asked when, answered how, its time-out, of which rank."""
        self.asked: list[float] = []

    @property
    def under_way(self) -> bool:
        return self.pending is not None

    def ask(self, world: World, at: float, timeout: float | None, rank: str = "") -> None:
        self.asked.append(at)
        takes = world.aimed(rank, at) if rank and world.aimed is not None else world.canary(at)
        self.pending = (at, takes, timeout or self.watch.canary_timeout.value, rank)

    def ended(self, world: World, at: float) -> Canary | None:
        if self.pending is None:
            return None
        asked, takes, timeout, rank = self.pending
        if isinstance(takes, str):
            self.pending = None
            return Canary(False, 0.1, takes, status=int(takes[:3]) if takes[:3].isdecimal() else 404, rank=rank)
        if takes is not None and takes <= timeout and at >= asked + takes:
            self.pending = None
            world.on_token()
            return Canary(True, takes, "one token", status=200, rank=rank)
        if at >= asked + timeout:
            self.pending = None
            return Canary(False, timeout, "no answer", timed_out=True, rank=rank)
        return None


def instant(at: float, wall_shift: float = 0.0) -> Instant:
    return Instant(mono=10_000.0 + at, wall=EPOCH + at + wall_shift)


def sample_of(
    world: World,
    at: Instant,
    answer: Canary | None,
    out: bool,
    read_log: Callable[[str], LogEvent | None],
) -> Sample:
    running = world.state is RunState.RUNNING and world.container is None
    lines, xids = list(world.log), list(world.xids)
    world.log.clear()
    world.xids.clear()
    events = [line if isinstance(line, LogEvent) else read_log(line) for line in lines]
    return Sample(
        at=at,
        container=world.container or view(world),
        scrape=scrape_of(world) if running else Missed(Miss.GONE, "the container does not run"),
        health=world.health if running else None,
        ping=world.ping if running else None,
        connections=connections_of(world) if running else None,
        activity=activity_of(world) if running else None,
        gpus=gpus_of(world),
        log=tuple(event for event in events if event is not None),
        log_lines=sum(1 for line in lines if isinstance(line, LogEvent) or not is_echo(line)),
        log_unread=world.log_unread,
        xids=tuple(Xid(CARD, number) for number in xids),
        canary=answer,
        canary_out=out,
        stop=world.stop,
        oom_kills=world.oom_kills if running else None,
        host_oom_kills=world.host_oom_kills,
    )


def view(world: World) -> ContainerView:
    return ContainerView(
        id="c1",
        name="engine",
        slug="engine",
        plan_id="p1",
        generation=1,
        state=world.state,
        pid=77 if world.state is RunState.RUNNING and not world.hidden else None,
        hidden=world.hidden if world.state is RunState.RUNNING else "",
        exit_code=world.exit_code,
        oom_killed=world.oom_killed,
    )


def scrape_of(world: World) -> EngineReading | Missed:
    if world.scrape is not None:
        return world.scrape
    ranks = tuple(rank.reading(str(index)) for index, rank in enumerate(world.ranks))
    return EngineReading(ranks=ranks, process_start=world.process_start, kv_tokens=600_000.0)


def connections_of(world: World) -> Connections | Missed | None:
    return Connections(world.clients, world.close_wait) if isinstance(world.clients, int) else world.clients


def activity_of(world: World) -> Activity | None:
    if not world.processes:
        return None
    return Activity(3, world.cpu, world.io, world.stuck, world.stopped, world.compilers)


def gpus_of(world: World) -> tuple[GpuSample, ...] | Missed:
    if world.gpus is not None:
        return world.gpus
    return (GpuSample(CARD, world.load, world.power, world.memory, 50.0, world.recovery, world.lost),)


# ── what a scenario is asked ──────────────────────────────────────────────────────────────────────────────────────


def faults(ticks: list[Tick]) -> list[Tick]:
    """Ticks whose verdict would act."""
    return [tick for tick in ticks if tick.verdict.remedy is not Remedy.NONE]


def first_fault(ticks: list[Tick]) -> Tick | None:
    return next(iter(faults(ticks)), None)


def states(ticks: list[Tick]) -> list[Judged]:
    """The states in the order in which they came, each once in a row."""
    found: list[Judged] = []
    for tick in ticks:
        if not found or found[-1] is not tick.verdict.state:
            found.append(tick.verdict.state)
    return found


def timeline(ticks: list[Tick]) -> str:
    """For a failure's message: every change of state, with its sentence."""
    lines, last = [], None
    for tick in ticks:
        if tick.verdict.state is not last:
            lines.append(f"{tick.at:8.0f} s  {tick.verdict.state:12} {tick.verdict.why}")
            last = tick.verdict.state
    return "\n".join(lines)
