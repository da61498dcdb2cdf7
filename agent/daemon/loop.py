"""The reconcile loop of one deployment: observe, judge, decide, run one step, publish, look again."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import structlog

from agent.action.adopt import adopt
from agent.action.decide import decide
from agent.action.execute import Work, execute
from agent.action.model import (
    AskCanary,
    Create,
    Forget,
    Nothing,
    Preflight,
    PrepareImage,
    Released,
    Settle,
    Start,
    Step,
    Stuck,
    Wait,
)
from agent.action.record import RESTING, Deployment, State
from agent.action.release import members
from agent.action.seen import Seen, Upkeep, Worn
from agent.action.store import Event, Store, StoreTrouble
from agent.action.transition import Outcome, failed, finish, intend, look
from agent.clock import Clock
from agent.container.port import ContainerView, Runtime
from agent.daemon.observe import Observer
from agent.engines.model import EngineReading
from agent.errors import AgentError, RuntimeTrouble
from agent.metrics.board import Board, Refusal
from agent.plan.model import Plan
from agent.preflight.credit import Running
from agent.preflight.model import Finding
from agent.preflight.ports import published
from agent.samples.model import Xid
from agent.samples.port import Endpoint
from agent.verdict.model import Verdict

log = structlog.get_logger()

DOWN_PERIOD_S = 0.5
STUCK_PERIOD_S = 5.0
"""Between two looks at what hangs in the runtime."""
RETRY_S = 2.0
RESTING_PERIOD_S = 30.0
LEVELS = {
    **dict.fromkeys((State.STALLED, State.ZOMBIE, State.DEAD, State.UNOBSERVABLE), "warning"),
    **dict.fromkeys((State.FAILED, State.QUARANTINED), "error"),
}
"""How loud a state comes: `journalctl -p warning` has what went wrong, `-p err` what waits for a person."""
WORD_ONLY = (Nothing, Settle, Stuck, Released, Wait, Forget)
"""Steps that change the record alone: dropped when a person asked for something else meanwhile."""


@dataclass(frozen=True, slots=True)
class Rooms:
    """What all loops of a host share."""

    runtime: Runtime
    store: Store
    clock: Clock
    boot_id: str
    publish: Callable[[Board], None]
    told: Callable[[Event], None]
    broken: Callable[[Plan, Deployment], str] = lambda _plan, _record: ""
    """What is wrong with the host or the plan's cards that no start can mend; empty for nothing."""
    window: Callable[[float], str] = lambda _: ""
    """Empty while a maintenance window is open, else when the next one opens."""
    upkeep: Callable[[float], Upkeep] = lambda _: Upkeep()
    """What the site lets be done in its maintenance windows, at this time."""
    worn: Callable[[Deployment, Plan], tuple[Worn, ...]] = lambda _record, _plan: ()
    """What has become worse of the engine that runs, and may be mended by a new start."""
    host_wait: Callable[[], float] = lambda: 0.0
    """Seconds until the restarts of all deployments together allow one more."""


def running_of(container: ContainerView, plan: Plan, processes: tuple[tuple[int, int], ...]) -> Running:
    """A running container with its processes and ports."""
    pids = frozenset(pid for pid, _ in processes)
    return Running(container.id, container.name, pids, frozenset(port.number for port in published(plan)))


class Loop:
    """One deployment. Persons' wishes come in through `change`, everything else by looking."""

    def __init__(self, record: Deployment, plan: Plan, observer: Observer, work: Work, rooms: Rooms) -> None:
        self.record = record
        self.plan = plan
        self.gone = False
        self._observer = observer
        self._work = work
        self._rooms = rooms
        self._wake = asyncio.Event()
        self._asked = asyncio.Event()
        self._wishes = 0
        self._looked: float | None = None
        self._progress: Mapping[str, Any] = {}
        self._took: float | None = None
        self._findings: tuple[Finding, ...] = ()
        self._refused: Refusal | None = None
        self._unsaved: str | None = None
        """Why the record is newer than what is on disk."""

    def wake(self) -> None:
        """Look again soon."""
        self._wake.set()

    def note_xid(self, xid: Xid) -> None:
        """The driver reported an Xid on a card of this deployment."""
        self._observer.note_xid(xid)

    def running(self) -> Running | None:
        """The container that runs, as preflight credits it."""
        sample = self._observer.sample
        container = sample.container if sample else None
        if not isinstance(container, ContainerView) or not container.running:
            return None
        return running_of(container, self.plan, members(self._observer.tree))

    @property
    def endpoint(self) -> Endpoint | None:
        """Where the engine can be asked now."""
        return self._observer.endpoint

    @property
    def container(self) -> ContainerView | None:
        """The container of the last look."""
        container = self._observer.sample.container if self._observer.sample else None
        return container if isinstance(container, ContainerView) else None

    @property
    def verdict(self) -> Verdict | None:
        """Of the last look."""
        return self._observer.verdict

    @property
    def sampled(self) -> float | None:
        """When the engine was last looked at, seconds since the epoch."""
        return self._observer.sample.at.wall if self._observer.sample else None

    @property
    def kv_tokens(self) -> float | None:
        """Capacity of the KV cache by the engine's own word, None where it has not said."""
        scrape = self._observer.sample.scrape if self._observer.sample else None
        return scrape.kv_tokens if isinstance(scrape, EngineReading) else None

    def report(self, progress: Mapping[str, Any]) -> None:
        """Progress of the step that runs, for whoever watches."""
        self._progress = progress
        self._publish(None)

    async def change(self, wish: Callable[[Deployment], Deployment]) -> Deployment:
        """Apply what a person asked. It is on disk when this returns; a long step gives way to it."""
        before, wished = self.record, wish(self.record)
        self.record = wished
        self._refused = None
        self._wishes += 1
        self._asked.set()
        try:
            await self._rooms.store.save(wished)
        except StoreTrouble:
            if self.record is wished:  # what a kill would forget is not accepted
                self.record = before
            raise
        self.wake()
        return self.record

    async def run(self) -> None:
        """Tick until the deployment is forgotten."""
        while not self.gone:
            started = asyncio.get_running_loop().time()
            pause = await self.tick()
            self._took = asyncio.get_running_loop().time() - started
            if pause > 0:
                await self._sleep(pause)

    async def _sleep(self, pause: float) -> None:
        try:
            async with asyncio.timeout(pause):
                await self._wake.wait()
        except TimeoutError:
            return

    async def tick(self) -> float:
        """One look and one step; the seconds until the next look."""
        self._wake.clear()
        self._asked.clear()
        before = self.record
        seen = await self._look()
        wishes = self._wishes
        step = decide(self.record, seen)
        self._publish(seen)
        await self._save(intend(self.record, step, seen))
        try:
            outcome = await self._do(step, seen)
        except RuntimeTrouble as error:
            await self._save(failed(self.record, step, error.text))
            await self._tell(before, replace(step, why=f"{step.why}: {error.text}"), seen)
            return RETRY_S
        if outcome is None or (isinstance(step, WORD_ONLY) and wishes != self._wishes):
            return 0.0
        await self._finish(step, outcome, seen)
        await self._tell(before, replace(step, why=f"{step.why}; {outcome.note}") if outcome.note else step, seen)
        return self._pause(step, seen)

    async def _look(self) -> Seen:
        """Everything that the decision may use, gathered first."""
        now = self._rooms.clock.now()
        seen = Seen(now=now, watch=self.plan.watch, boot_id=self._rooms.boot_id)
        try:
            views = await self._rooms.runtime.list(self.record.slug)
        except RuntimeTrouble as error:
            seen = replace(seen, unreachable=error.text)
            await self._save(look(self.record, seen, 0.0))
            return seen
        adopted = adopt(self.record, views, self._rooms.boot_id, now.wall)
        await self._save(adopted.record)
        if adopted.note:
            await self._event("container", adopted.note, {})
        seen = replace(seen, container=adopted.container, leftovers=adopted.leftovers)
        seen = await self._see_more(seen, adopted.container)
        before = self.record.restart_waits
        await self._save(look(self.record, seen, self._elapsed(now.mono)))
        if self.record.wearing is not None and self.record.restart_waits not in ("", before, "plan", "person"):
            waits = f"{self.record.wearing.why}, so a restart waits: {seen.window}"
            await self._event("wear", waits, {"reason": self.record.restart_waits})
        return seen

    async def _see_more(self, seen: Seen, container: ContainerView | None) -> Seen:
        """The engine where it should run, what is left of it where it is taken down."""
        rooms = self._rooms
        broken, window = rooms.broken(self.plan, self.record), rooms.window(seen.now.wall)
        seen = replace(seen, broken=broken, window=window, host_wait=rooms.host_wait())
        if self.record.replaces is not None:
            seen = replace(seen, other=self._observer.standing(self.record.replaces))
        if self.record.takedown is not None:
            return await self._observer.down(seen, self.record, self.plan)
        if self.record.started_at is None or (self.record.state in RESTING and container is None):
            return seen
        upkeep, worn = rooms.upkeep(seen.now.wall), rooms.worn(self.record, self.plan)
        seen = replace(seen, upkeep=upkeep, worn=worn)
        return await self._observer.watch(seen, container, self.record)

    def _elapsed(self, mono: float) -> float:
        """Seconds since the last look, bounded: a suspended host proves nothing about the time it slept."""
        last, self._looked = self._looked, mono
        if last is None:
            return 0.0
        return min(mono - last, 3 * self.plan.watch.period.value)

    async def _do(self, step: Step, seen: Seen) -> Outcome | None:
        """Run the step; None where a person's wish came before the end of one that can be dropped."""
        if isinstance(step, AskCanary):
            self._observer.start_canary()
            return Outcome()
        work = asyncio.ensure_future(execute(step, self.record, seen, self._work))
        if not isinstance(step, Preflight | PrepareImage):
            return await work
        asked = asyncio.ensure_future(self._asked.wait())
        try:
            await asyncio.wait({work, asked}, return_when=asyncio.FIRST_COMPLETED)
            return await work if work.done() else None
        finally:
            for task in (work, asked):
                task.cancel()
            await asyncio.gather(work, asked, return_exceptions=True)
            self._progress = {}

    async def _finish(self, step: Step, outcome: Outcome, seen: Seen) -> None:
        self._note(step, outcome)
        record = finish(self.record, step, outcome, seen, jitter=random.random() * 0.1)  # noqa: S311
        never_ran = outcome.refused is not None and record.generation == 0
        if isinstance(step, Forget) or never_ran:
            self.record = record
            await self._forget(seen)
            return
        if record.plan_id != self.plan.plan_id:
            await self._change_plan(record.plan_id)
        await self._save(record)

    def _note(self, step: Step, outcome: Outcome) -> None:
        """Findings and refusals stay on the board until the next preparation."""
        if isinstance(step, Preflight | PrepareImage | Create | Start):
            self._refused = None
        if isinstance(step, Preflight):
            self._findings = outcome.findings
        if outcome.refused is not None:
            error = outcome.error or {"code": "refused", "message": outcome.refused, "hint": "", "details": {}}
            self._refused = Refusal(self.record.target, error)

    async def _forget(self, seen: Seen) -> None:
        """The deployment is no more: asked for by a person, or refused before it ever ran."""
        self.gone = True
        self._publish(seen)
        await self._observer.close()
        await self._rooms.store.forget(self.record.slug)

    async def _change_plan(self, plan_id: str) -> None:
        self.plan = await self._observer.plan_of(plan_id)
        await self._observer.take_plan(self.plan)

    async def _save(self, record: Deployment) -> None:
        """To disk, where it differs in more than what can be seen again.

        A disk that is full must not keep a dead engine dead: the loop goes on with what it has in memory, says so, and
        writes it at the first tick at which it can. What a kill would lose then is found again by the labels, all but
        the count of restarts.
        """
        worth = replace(record, healthy_s=0.0, why="", step="") != replace(self.record, healthy_s=0.0, why="", step="")
        proven = int(record.healthy_s // 60) != int(self.record.healthy_s // 60)
        self.record = record
        if not (worth or proven or self._unsaved):
            return
        try:
            await self._rooms.store.save(record)
        except StoreTrouble as error:
            if self._unsaved is None:
                log.warning("state_not_written", recipe=record.slug, reason=error.text)
            self._unsaved = error.text
        else:
            self._unsaved = None

    async def _tell(self, before: Deployment, step: Step, seen: Seen) -> None:
        """The sentence of this tick: to the log, the events and the board."""
        if self._unsaved is not None:
            step = replace(step, why=f"{step.why} (not on disk: {self._unsaved})")
        self.record = replace(self.record, step=step.why)
        self._publish(seen)
        quiet = isinstance(step, Nothing | Wait) and step.why == before.step
        moved = self.record.state is not before.state
        if quiet and not moved:
            return
        fields = {"recipe": self.record.slug, "state": self.record.state.value, "step": type(step).__name__}
        # a question in peace, of which an idle engine with many ranks is asked thousands a day, is no event
        peace = isinstance(step, AskCanary) and self.record.state in (State.READY, State.BUSY)
        least = "debug" if isinstance(step, Nothing) or peace else "info"
        level = LEVELS.get(self.record.state, "info") if moved else least
        getattr(log, level)("tick", **fields, why=step.why)
        if moved:
            told = {"from": before.state.value, "to": self.record.state.value}
            await self._event("state", self.record.why, told, self.record.since)
        if not isinstance(step, Nothing | Wait) and not peace:
            await self._event("step", step.why, {"step": type(step).__name__})

    async def _event(self, kind: str, text: str, data: Mapping[str, Any], at: float | None = None) -> None:
        """`at`: when it happened, where that is not now; a state is told only after the step that it called for."""
        when = at if at is not None else self._rooms.clock.now().wall
        event = Event(at=when, slug=self.record.slug, kind=kind, text=text, data=data)
        try:
            self._rooms.told(await self._rooms.store.add_event(event))
        except AgentError as error:  # a full disk costs the event, never the act
            log.warning("event_lost", recipe=self.record.slug, text=text, reason=error.text)

    def _publish(self, seen: Seen | None) -> None:
        verdict = seen.verdict if seen else self._observer.verdict
        self._rooms.publish(
            Board(
                record=self.record,
                plan=self.plan,
                runtime=self._rooms.runtime.kind,
                at=self._rooms.clock.now().wall,
                endpoint=self._observer.url,
                verdict=verdict,
                sample=self._observer.sample,
                findings=self._findings,
                refused=self._refused,
                progress=self._progress,
                startup_s=self._observer.startup_s,
                tick_s=self._took,
            )
        )

    def _pause(self, step: Step, seen: Seen) -> float:
        """When to look again: at once after a step that did something."""
        period = self.plan.watch.period.value
        match step:
            case Wait(until=until):
                return max(0.05, min(until - seen.now.mono, period))
            case Nothing() | Stuck() if self.record.takedown is not None and self.record.takedown.stuck:
                return min(STUCK_PERIOD_S, period)
            case Nothing() | AskCanary() | Settle() if self.record.takedown is not None:
                return min(DOWN_PERIOD_S, period)
            case Nothing() | Settle() if self.record.state in RESTING and seen.container is None:
                return max(period, RESTING_PERIOD_S)
            case Nothing() | AskCanary() | Settle():
                return self._observer.due_in(self._rooms.clock.now()) if self.record.started_at is not None else period
            case _:
                return 0.0
