"""What the rules look at: a window, its watch and the engine's launch, with the questions that several rules ask."""

from __future__ import annotations

from dataclasses import dataclass

from agent.clock import Instant
from agent.container.port import ContainerView
from agent.engines.model import EngineLaunch, EngineReading, Traits
from agent.engines.registry import dialect_of
from agent.plan.watch import Watch
from agent.samples.fold import BLIND, compilers, work_of
from agent.samples.marks import Marks, RankMark
from agent.samples.model import Connections, Missed, Sample, Window

JIT_PAUSE_S = 60.0
"""Compilers come one after the other; so long after the last one a compilation may still be under way."""


@dataclass(frozen=True, slots=True)
class Case:
    """One thing to judge. Pure data; every time is the window's own."""

    window: Window
    watch: Watch
    engine: EngineLaunch | None = None

    @property
    def last(self) -> Sample:
        return self.window.last

    @property
    def marks(self) -> Marks:
        return self.window.marks

    @property
    def now(self) -> Instant:
        return self.window.now

    @property
    def traits(self) -> Traits:
        return Traits() if self.engine is None else dialect_of(self.engine.kind).traits

    @property
    def container(self) -> ContainerView | None:
        """The container, None where it could not be looked at."""
        container = self.last.container
        return None if isinstance(container, Missed) else container

    def since(self, instant: Instant | None) -> float:
        """Seconds since then; minus infinity for what has not begun, so that no comparison with a window holds."""
        return float("-inf") if instant is None else self.now - instant

    @property
    def age(self) -> float:
        """Seconds since the container was started."""
        return self.now - self.window.started

    # ── the engine's own word ─────────────────────────────────────────────────────────────────────────────────────

    @property
    def blind(self) -> bool:
        """There are no metrics to be had, so what runs is not known."""
        scrape = self.last.scrape
        if isinstance(scrape, Missed):
            return scrape.kind in BLIND
        return not scrape.ranks and not self.marks.ranks

    @property
    def scraped(self) -> bool:
        """This sample's metrics were read."""
        return isinstance(self.last.scrape, EngineReading)

    @property
    def work(self) -> float | None:
        """Requests in the schedulers by the last good scrape, the agent's own canary taken off; None: not known."""
        work = None if self.blind else work_of(self.marks.ranks)
        return work if work is None or not self.last.canary_out else max(0.0, work - 1.0)

    @property
    def clients(self) -> int | None:
        """Established connections now; None: not known."""
        connections = self.last.connections
        return connections.established if isinstance(connections, Connections) else None

    @property
    def clients_trusted(self) -> bool:
        """No connection means no client: not where responses run in the background by design."""
        return self.engine is None or not self.engine.clientless_work

    @property
    def alive(self) -> Instant | None:
        """When the engine last proved to be alive: progress, a canary's token, a line that only its loop writes."""
        proofs = (self.marks.progressed, self.marks.canaries.token, self.marks.effort.spoke, self.window.ready)
        known = [proof for proof in (*proofs, self.marks.since) if proof is not None]
        return max(known, key=lambda instant: instant.mono) if known else None

    def quiet_since(self, mark: RankMark) -> Instant:
        """Since when a rank's silence counts: its last progress, or the end of what excused it."""
        excused = self.marks.excused
        return excused if excused is not None and excused.mono > mark.progressed.mono else mark.progressed

    def silence(self, mark: RankMark) -> float:
        """Seconds that a rank was silent without an excuse."""
        return self.now - self.quiet_since(mark)

    @property
    def silent(self) -> tuple[str, RankMark, float] | None:
        """The rank with work that has been silent for longest, by name, with its seconds."""
        working = [(name, mark) for name, mark in self.marks.ranks.items() if mark.last.work]
        if not working:
            return None
        name, mark = max(working, key=lambda entry: self.silence(entry[1]))
        return name, mark, self.silence(mark)

    # ── canaries ──────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def may_ask(self) -> bool:
        """A canary could be sent now: none is under way, and the engine did not just refuse the question."""
        canaries = self.marks.canaries
        if canaries.out is not None or self.last.canary_out or self.engine is None or self.engine.port is None:
            return False
        return not canaries.unfit or self.since(canaries.ended) >= self.watch.canary_idle.value

    def struck_since(self, instant: Instant) -> bool:
        """A canary that was asked after this instant came back without a token."""
        canaries = self.marks.canaries
        return canaries.struck is not None and canaries.struck.mono - canaries.struck_after >= instant.mono

    # ── compilers ─────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def compiling(self) -> bool:
        """Compilers are at work, and not for longer than that excuses anything.

        A compiler among the processes says so by itself. A line of the log says so for a while only, and only until
        the engine has moved after it: whatever was compiled was used by then, and a later silence has another reason.
        """
        effort = self.marks.effort
        if self.since(effort.jit_since) >= self.watch.jit_limit.value:
            return False
        if compilers(self.last):
            return True
        if effort.jit is None or self.now - effort.jit > JIT_PAUSE_S:
            return False
        moved = self.moved
        return moved is None or moved.mono <= effort.jit.mono

    @property
    def moved(self) -> Instant | None:
        """The last progress of the rank that is silent for longest; where none has work, the last sign of life."""
        silent = None if self.blind else self.silent
        return silent[1].progressed if silent is not None else self.alive
