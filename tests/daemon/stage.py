"""The real fleet, loops and observers on a host in memory: a clock that a test turns, engines that do as they are told.

`Stage` is what outlives an agent: containers, the state on its disk, saved logs, incidents. `Stage.boot` makes an agent
on it, and `Trap` kills it: at the n-th effect, just before it or just after it, everything in memory is gone.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from agent.action import commands
from agent.action.budget import HostBudget
from agent.action.codec import record_from_json
from agent.action.execute import Work
from agent.action.record import Deployment, Held, State
from agent.action.seen import Seen, Survivor
from agent.container.body import LogBounds, spec_for
from agent.container.labels import Identity
from agent.container.port import ContainerSpec
from agent.daemon.fleet import Fleet, Making
from agent.daemon.loop import Loop, Rooms
from agent.daemon.observe import Eyes, Observer
from agent.engines.model import EngineKind, EngineLaunch
from agent.errors import NotFound
from agent.incident.model import Case, Incident
from agent.plan.model import ContainerPlan, ImagePlan, Plan, RecipeRef
from agent.plan.tojson import plan_from_json, to_json
from agent.plan.watch import Span
from agent.preflight.model import Finding
from agent.samples.take import Sources
from tests.action.world import watch
from tests.container.fake import FakeRuntime, FakeWorld
from tests.daemon.engines import Behaviour, StageHost, StageMemory, StageProbe
from tests.daemon.props import Disk, DiskStore, Killed, Trap, TrappedRuntime, TurnedClock

T = TypeVar("T")
IMAGE = "engine:1"
BOOT = "boot-1"


def plan_of(slug: str, plan_id: str, port: int = 8000, **more: Any) -> Plan:
    """A plan of an engine whose windows are short, so that a test turns its clock a few times only."""
    body = {"Image": IMAGE, "Cmd": ["serve", plan_id], "HostConfig": {}}
    quick = watch(stall=40.0, stall_blind=60.0, suspect=20.0, canary_timeout=20.0, jit=0.0, healthy=600.0)
    return Plan(
        plan_id=plan_id,
        recipe=RecipeRef(slug, 1, None, None, "a test"),
        runtime="docker",
        engine=EngineLaunch(EngineKind.VLLM, port=port, health="/health", metrics="/metrics", served_model="m"),
        image=ImagePlan(IMAGE, "local"),
        container=ContainerPlan(slug, None, body),
        requirements=(),
        watch=replace(quick, derived=True, backoff=(10.0,), jit_after_ready=Span(0.0, "test")),
        claims=(), missing=(), unapplied=(), warnings=(), origins={},
        **more,
    )  # fmt: skip


class SteppedLoop(Loop):
    """Turned by the stage instead of by time."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self.over = asyncio.Event()

    async def run(self) -> None:
        await self.over.wait()


@dataclass
class Agent:
    """One life of an agent."""

    fleet: Fleet
    store: DiskStore
    trap: Trap


@dataclass
class Stage:
    """A host with its disk."""

    folder: Path
    clock: TurnedClock = field(default_factory=TurnedClock)
    disk: Disk = field(default_factory=Disk)
    behaviours: dict[str, Behaviour] = field(default_factory=dict)
    incidents: list[str] = field(default_factory=list)
    refuses: set[str] = field(default_factory=set)
    """Plans whose preflight says no."""
    boot_id: str = BOOT
    trap: Trap = field(default_factory=Trap)
    agent: Agent | None = None
    steps: list[str] = field(default_factory=list)
    held: Callable[[], Held] = Held
    """What is in use before a start."""
    trouble: str = ""
    """What is wrong with the host."""
    host_restarts: int = 100
    live: bool = False
    """Loops turn by themselves, in real time."""
    hangs: set[str] = field(default_factory=set)
    """Deployments whose containers are never created: the call does not come back."""

    def __post_init__(self) -> None:
        self.world = FakeWorld(self.clock, images=[IMAGE])
        self.host = StageHost(self)
        self.shm = StageMemory(self)
        self.most_running = 0
        self.created: list[tuple[str, int]] = []

    # -- an agent's life ----------------------------------------------------------------------------------------------

    async def boot(self) -> Agent:
        """A new agent on what is there."""
        asyncio.get_running_loop().set_exception_handler(all_but_kills)
        store, runtime = DiskStore(self.disk, self.trap), TrappedRuntime(self.world, self.trap, self.hangs)
        fleet = Fleet({"docker": runtime}, store, self.clock, self.boot_id)
        fleet.trouble = lambda _cards, _accepted: self.trouble
        fleet.host_budget = lambda: HostBudget(self.host_restarts)
        self.agent = Agent(fleet, store, self.trap)
        making = Making(loop=partial(self._loop, fleet, store, runtime), plan_to_json=to_json,
                        plan_from_json=plan_from_json)  # fmt: skip
        await fleet.start(making)
        return self.agent

    async def kill(self) -> None:
        """All of its memory is gone; what is left of its tasks can do nothing more."""
        self.trap.dead = True
        await self._end()
        self.trap = Trap()

    async def _end(self) -> None:
        agent, self.agent = self.agent, None
        if agent is None:
            return
        for loop in agent.fleet.loops.values():
            await loop._observer.close()
        await agent.fleet.close()

    async def leave(self) -> None:
        """The agent ends as on SIGTERM."""
        await self._end()

    def _loop(self, fleet: Fleet, store: DiskStore, runtime: FakeRuntime, record: Deployment, plan: Plan) -> Loop:
        slug = record.slug
        host: Any = self.host
        sources = Sources(StageProbe(self), host, host, host, host, self.clock)
        eyes = Eyes(
            sources=sources, runtime=runtime, key_of=lambda _: None, plan_of=fleet.plan_of, learned=store.learned,
            learn=store.learn, wake=lambda: fleet.wake(slug), shared_memory=self.shm, standing=fleet.standing,
        )  # fmt: skip
        observer = Observer(eyes, plan)
        rooms = Rooms(
            runtime=runtime, store=store, clock=self.clock, boot_id=self.boot_id, publish=fleet.publish,
            told=fleet.told, broken=fleet.broken, host_wait=fleet.host_wait,
        )  # fmt: skip
        work = Work(
            runtime=runtime, spec=partial(self._spec, fleet), check=partial(self._check, fleet), image=self._image,
            evidence=self._evidence, abort=observer.abort, kill=self._kill, held=self._held,
            sweep=self.shm.remove,
            make_room=lambda other: fleet.make_room(other, slug), bring_back=fleet.bring_back,
            logs=self.folder / "logs",
        )  # fmt: skip
        return (Loop if self.live else SteppedLoop)(record, plan, observer, work, rooms)

    async def _spec(self, fleet: Fleet, record: Deployment, generation: int) -> ContainerSpec:
        plan = await fleet.plan_of(record.target)
        assert plan.container is not None
        assert plan.engine is not None
        identity = Identity(record.slug, plan.plan_id, generation, plan.engine.port)
        return spec_for(plan.container, identity, LogBounds("1000000", 2), lambda name: name)

    async def _check(self, fleet: Fleet, record: Deployment, seen: Seen) -> tuple[Finding, ...]:
        from agent.preflight.model import Level

        level = Level.FAIL if record.target in self.refuses else Level.PASS
        return (Finding(check="test", level=level, found="this", need="that", origin="a test", hint="mend it"),)

    async def _image(self, record: Deployment) -> None:
        """It is there."""

    async def _evidence(self, case: Case, brief: bool) -> Incident:
        async def write() -> None:
            self.incidents.append(case.id)

        await self.trap.around("evidence", write)
        return Incident(case.id, case.slug, case.kind, case.why, case.at, case.generation, 0.1, {}, {})

    async def _kill(self, survivor: Survivor) -> None:
        async def end() -> None:
            self.host.orphans.pop(survivor.pid, None)

        await self.trap.around("kill", end)

    async def _held(self) -> Held:
        return self.held()

    # -- time ---------------------------------------------------------------------------------------------------------

    async def ask(self, wish: Callable[[Fleet], Awaitable[Any]]) -> None:
        """A client that asks again where it got no answer."""
        while True:
            try:
                agent = self.agent or await self.boot()
                await wish(agent.fleet)
                await breathe()
            except Killed:
                pass
            except NotFound:
                return
            if not self.trap.dead:
                return
            await self.kill()

    async def run(self, until: Callable[[], bool], turns: int = 300) -> None:
        """Turn every loop, and the clock, until it is so; a killed agent is started again."""
        for _ in range(turns):
            if until() and not self.trap.dead:
                return
            await self.turn()
        raise AssertionError(f"not within {turns} turns: {self.told()}")

    async def turn(self) -> None:
        """One tick of every loop."""
        pauses = [10.0]
        try:
            agent = self.agent or await self.boot()
            for loop in list(agent.fleet.loops.values()):
                assert isinstance(loop, SteppedLoop)
                pauses.append(await loop.tick())
                self.steps.append(loop.record.step)
                if loop.gone:
                    loop.over.set()
                self.look()
            await breathe()
        except Killed:
            pass
        if self.trap.dead:
            await self.kill()
        self.clock.mono += max(0.1, min(pauses))

    def look(self) -> None:
        """What must always be so."""
        running = [box.view for box in self.world.boxes.values() if box.view.running]
        slugs = [view.slug for view in running]
        assert len(set(slugs)) == len(slugs), f"two containers of one deployment run: {running}"
        self.most_running = max(self.most_running, len(running))

    # -- what became of it --------------------------------------------------------------------------------------------

    def record(self, slug: str = "demo") -> Deployment | None:
        text = self.disk.records.get(slug)
        return record_from_json(json.loads(text)) if text else None

    def state(self, slug: str = "demo") -> State | None:
        """As the agent tells it, which need not be on disk."""
        if self.agent is not None and (loop := self.agent.fleet.loops.get(slug)) is not None:
            return loop.record.state
        return None

    def runs(self, slug: str = "demo", generation: int | None = None, plan: str | None = None) -> Callable[[], bool]:
        """Ready or busy, in that generation, with that plan."""

        def so() -> bool:
            loop = self.agent.fleet.loops.get(slug) if self.agent else None
            if loop is None or loop.record.state not in (State.READY, State.BUSY) or loop.record.next_plan:
                return False
            return generation in (None, loop.record.generation) and plan in (None, loop.record.plan_id)

        return so

    def creates(self, slug: str = "demo") -> int:
        return sum(call == ("create", slug) for call in self.world.calls)

    def told(self) -> str:
        """For a failure."""
        loops = self.agent.fleet.loops.values() if self.agent else ()
        return "; ".join(f"{one.record.slug} {one.record.state.value}: {one.record.why}" for one in loops)


def all_but_kills(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """A killed agent's tasks end as they are meant to."""
    if not isinstance(context.get("exception"), Killed):
        loop.default_exception_handler(context)


async def breathe() -> None:
    """Let tasks beside the loops go on."""
    for _ in range(8):
        await asyncio.sleep(0)


async def deploy(stage: Stage, plan: Plan, **more: Any) -> None:
    want = commands.Want(plan.recipe.slug, plan.plan_id, **more)
    await stage.ask(lambda fleet: fleet.deploy(plan, want, "a test"))
