"""Engines in virtual time: the simulator's own scheduler and books, read by the agent's dialects from their own text.

What `series.py` makes of numbers comes here out of steps: chunks of prefills, decodes, queues, and each engine's habit
of telling some of it late or never.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field

from agent.engines.model import EngineKind, EngineLaunch, EngineReading, Pong
from agent.engines.registry import dialect_of
from tests.lab.simulator import flags, sglang_flags
from tests.lab.simulator.blocks import BlockPool
from tests.lab.simulator.clock import Clock
from tests.lab.simulator.dialect import Dialect, World
from tests.lab.simulator.faults import Board
from tests.lab.simulator.ledger import Books, Ledger, Sequence
from tests.lab.simulator.llamacpp_books import LlamaBooks
from tests.lab.simulator.metrics import EngineMetrics
from tests.lab.simulator.scheduler import Scheduler
from tests.lab.simulator.sequences import Output, Rates, Request, Step
from tests.lab.simulator.settings import Settings
from tests.lab.simulator.sglang import Sglang, SglangLog
from tests.lab.simulator.sglang_books import SglangBooks
from tests.lab.simulator.stats import Tally
from tests.verdict import scenarios as s

SLOTS = 16
PREFILL_TOK_S = 4064.0
DECODE_TOK_S = 0.5
"""Slow, so that a day has few steps."""
LAUNCHES: dict[EngineKind, EngineLaunch] = {
    EngineKind.VLLM: s.PP4,
    EngineKind.SGLANG: s.SGLANG,
    EngineKind.LLAMACPP: s.LLAMA,
}


@dataclass(frozen=True, slots=True)
class Virtual(Clock):
    """A clock that is set."""

    at: list[float] = field(default_factory=lambda: [0.0])

    def now(self) -> float:
        return self.at[0]


class Engine:
    """One engine of a kind; nothing of it moves but by `advance`."""

    def __init__(self, kind: EngineKind) -> None:
        self.launch = LAUNCHES[kind]
        self.kind = kind
        self.clock = Virtual(1.0)
        self._dialect = dialect_of(kind)
        self._books, self._text = BOOKS[kind](self.clock)
        blocks = 4_000_000 // 16
        rates = Rates(PREFILL_TOK_S, DECODE_TOK_S, 0.2, 8192, SLOTS, 16)
        self.scheduler = Scheduler(rates, BlockPool(blocks))
        self.sequences: dict[str, Sequence] = {}
        self.hung = False
        self.heartbeat = 0.0
        self._named = 0
        self._step: Step | None = None
        self._step_end = 0.0
        self._begin()

    def _begin(self) -> None:
        """The request that warms it up, so that every counter is there."""
        name = self.arrive(8, 2)
        self.advance(10.0)
        assert name not in self.sequences

    # -- what clients do ----------------------------------------------------------------------------------------------

    def arrive(self, prompt: int, answer: int) -> str:
        """A request of so many tokens."""
        self._named += 1
        name, now = f"r{self._named}", self.clock.now()
        self.sequences[name] = Sequence(name, 0, prompt, answer, 1, now)
        self.scheduler.add(Request(name, prompt, answer, arrived=now))
        return name

    def leave(self, name: str) -> None:
        """Its client hangs up; the engine notices after the step under way."""
        self.sequences[name].client = False

    def _notice(self) -> None:
        """Between two steps: those whose clients have gone are let go of."""
        for sequence in [one for one in self.sequences.values() if not one.client]:
            del self.sequences[sequence.id]
            if (request := self.scheduler.find(sequence.id)) is not None:
                self.scheduler.drop(request)
                self._books.left(sequence)

    # -- what time does -----------------------------------------------------------------------------------------------

    def advance(self, until: float) -> None:
        """All steps that end by then, unless it hangs."""
        while not self.hung:
            if self._step is None:
                self._notice()
                self._step = self.scheduler.plan(self.clock.now())
                if self._step is None:
                    break
                self._step_end = self.clock.now() + self._step.seconds
            if self._step_end > until:
                break
            self.clock.at[0] = self._step_end
            self.scheduler.finish(self._step, self._step_end)
            self._step = None
            self._publish()
        if not self.hung and self._step is None:
            self.clock.at[0] = until
            self._publish()

    def _publish(self) -> None:
        """As the engine client books it."""
        report, gauges = asdict(self.scheduler.take_report()), self.scheduler.gauges()
        self.heartbeat = self.clock.now()
        self._books.step(0, report)
        self._books.gauges(0, gauges)
        for output in (Output(**raw) for raw in report["outputs"]):
            sequence = self.sequences[output.id]
            self._books.output(sequence, output)
            if output.reason:
                del self.sequences[sequence.id]

    # -- what is seen -------------------------------------------------------------------------------------------------

    @property
    def clients(self) -> list[str]:
        """Requests whose clients are connected."""
        return [one.id for one in self.sequences.values() if one.client]

    @property
    def busy(self) -> bool:
        return bool(self.scheduler.running or self.scheduler.waiting)

    def reading(self) -> EngineReading:
        """Its metrics' text, as the agent reads it."""
        return self._dialect.read_metrics(self._text(self))

    def pong(self, now: float) -> Pong | None:
        """A heartbeat, or an answer of the loop, where the engine has such a thing."""
        if self.kind is EngineKind.SGLANG:
            return Pong(True, age=max(0.0, now - self.heartbeat))
        return Pong(True) if self.kind is EngineKind.LLAMACPP else None

    def token_after(self, now: float) -> float | None:
        """Seconds that a canary waits for its token: behind what is being prefilled, and what waits before it."""
        if self.hung:
            return None
        before = sum(r.missing for r in (*self.scheduler.running, *self.scheduler.waiting) if not r.generated)
        return before / PREFILL_TOK_S + 0.6


Text = Callable[[Engine], str]


_SPREADS = {"vllm:iteration_tokens_total", "vllm:request_prefill_time_seconds"}
"""The histograms that are read; the others would be most of the text."""


def _vllm(clock: Clock) -> tuple[Books, Text]:
    metrics = EngineMetrics(flags.parse(["serve", "m"]), 1)
    shown = [one for one in metrics.families.values() if one.kind != "histogram" or one.name in _SPREADS]
    return Ledger(metrics, Tally(metrics, 1)), lambda _: "".join(
        line for family in shown for line in family.render(created=False)
    )


def _sglang(clock: Clock) -> tuple[Books, Text]:
    launch = sglang_flags.parse(["--model-path", "m", "--enable-metrics"])
    dialect: Dialect = Sglang()
    books = SglangBooks(World(launch, Settings(), clock, Board(), dialect), SglangLog(""))
    return books, lambda _: books.render()


def _llamacpp(clock: Clock) -> tuple[Books, Text]:
    books = LlamaBooks(0)
    return books, lambda engine: books.render(len(engine.scheduler.running), len(engine.scheduler.waiting))


BOOKS: dict[EngineKind, Callable[[Clock], tuple[Books, Text]]] = {
    EngineKind.VLLM: _vllm,
    EngineKind.SGLANG: _sglang,
    EngineKind.LLAMACPP: _llamacpp,
}
