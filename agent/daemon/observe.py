"""Look at one deployment's engine: sample, window, verdict; and at what is left of it on its way down."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace

import structlog

from agent.action.record import Deployment
from agent.action.release import Proof, members, prove, survivors
from agent.action.seen import Seen
from agent.clock import Instant
from agent.container.port import ContainerView, RunState, Runtime, StopRequest
from agent.daemon.beat import LEAST_S, due_in
from agent.daemon.follow import Follower
from agent.daemon.guard import cancelled
from agent.engines.dialect import Dialect
from agent.engines.model import EngineKind, EngineLaunch, Phase
from agent.engines.registry import dialect_of
from agent.errors import AgentError, RuntimeTrouble
from agent.host.port import SharedMemory
from agent.host.process import Process
from agent.host.reading import Known
from agent.plan.model import Plan
from agent.samples.accept import Applicant, accept
from agent.samples.ask import ask_canary, send_all
from agent.samples.learn import learned
from agent.samples.model import Canary, Connections, Miss, Missed, Sample, Window, Xid
from agent.samples.port import Endpoint
from agent.samples.take import Ping, Sources, Subject, count_connections, take
from agent.samples.window import IDLE_POWER, WindowBuilder
from agent.verdict.accepted import SERVES, hold_back, wants
from agent.verdict.judge import judge
from agent.verdict.model import Verdict

log = structlog.get_logger()
LEARN_EVERY_S = 3600.0
SHARED_EVERY_S = 60.0
LAST_WORDS_S = 5.0
"""How long a judgement of an exit waits for the end of the log, which has its reason."""


@dataclass(frozen=True, slots=True)
class Eyes:
    """Where an observer looks, and what it may ask of the rest."""

    sources: Sources
    runtime: Runtime
    key_of: Callable[[Plan], str | None]
    """The API key that the engine asks for, read when it is needed and kept nowhere."""
    plan_of: Callable[[str], Awaitable[Plan]]
    learned: Callable[[str], Awaitable[Mapping[str, float]]]
    """What this engine measured on this host before, by slug."""
    learn: Callable[[str, Mapping[str, float]], Awaitable[None]]
    """Keeps what it measured now."""
    wake: Callable[[], None]
    shared_memory: SharedMemory
    standing: Callable[[str], str]
    """Whether another deployment `runs`, `leaves` or `rests`."""


class Observer:
    """The eyes of one loop. It holds what is older than one tick: the log's end, the window, a canary under way."""

    def __init__(self, eyes: Eyes, plan: Plan) -> None:
        self._eyes = eyes
        self.plan = plan
        self.verdict: Verdict | None = None
        self.window: Window | None = None
        self.url: str | None = None
        self.startup_s: float | None = None
        self.tree: tuple[Process, ...] = ()
        self._dialect: Dialect = dialect_of(plan.engine.kind if plan.engine else EngineKind.OPENAI)
        self._builder: WindowBuilder | None = None
        self._attended: tuple[str, float | None] | None = None
        """Which container, and which run of it: somebody else may have started it again."""
        self._follower = Follower(eyes.runtime, self._dialect.read_log, eyes.wake)
        self._canary_task: asyncio.Task[None] | None = None
        self._canary: Canary | None = None
        self._trial: asyncio.Task[None] | None = None
        self._shown: tuple[bool, str] | None = None
        self._xids: list[Xid] = []
        self._sampled: Instant | None = None
        self._state: object = None
        self._shared_at: Instant | None = None
        self._learned: Instant | None = None

    @property
    def sample(self) -> Sample | None:
        return self.window.last if self.window else None

    @property
    def endpoint(self) -> Endpoint | None:
        """Where the engine can be asked now."""
        container = self.sample.container if self.sample else None
        return self._endpoint(container) if isinstance(container, ContainerView) else None

    @property
    def log_tail(self) -> tuple[str, ...]:
        """The last lines that the engine wrote, as far as they are kept in memory."""
        return tuple(line.text for line in self._follower.tail.lines)

    async def plan_of(self, plan_id: str) -> Plan:
        return await self._eyes.plan_of(plan_id)

    def standing(self, slug: str) -> str:
        """Where another deployment stands."""
        return self._eyes.standing(slug)

    async def take_plan(self, plan: Plan) -> None:
        """A new plan from the next container on."""
        self.plan = plan
        self._dialect = dialect_of(plan.engine.kind if plan.engine else EngineKind.OPENAI)
        await self._follower.close()
        self._follower = Follower(self._eyes.runtime, self._dialect.read_log, self._eyes.wake)
        self._attended = None

    def note_xid(self, xid: Xid) -> None:
        """The driver reported an Xid on a card of this deployment."""
        self._xids.append(xid)
        self._eyes.wake()

    def due_in(self, now: Instant) -> float:
        """Seconds until the next sample is due."""
        if self._sampled is None:
            return LEAST_S
        return due_in(self._sampled.mono, now.mono, self.plan.watch.period.value)

    async def watch(self, seen: Seen, container: ContainerView | None, record: Deployment) -> Seen:
        """`seen` with a verdict: a fresh sample where one is due or the container has changed, else the last one's."""
        await self._attend(container, record, seen.now)
        state = (container.id, container.state) if container else None
        if self.verdict is None or state != self._state or self.due_in(seen.now) <= LEAST_S or self._urgent():
            self._state = state
            if container is not None and container.state is RunState.EXITED:
                await self._follower.caught_up(LAST_WORDS_S)
            await self._sample(container, record)
        return replace(
            seen,
            verdict=self.verdict,
            shared=await self._shared(record, seen.now),
            canary_out=self._canary_task is not None,
            proved=self._shown is not None and self._shown[0],
            members=members(self.tree),
            clients=self._clients(),
            can_abort=self._aborts(),
            served=self._clients(),
        )

    def _urgent(self) -> bool:
        """Something came in by itself that a verdict is waiting for."""
        told = any(event.failure or event.draining or event.phase is Phase.READY for event in self._follower.tail.fresh)
        if self._shown is not None and self.verdict is not None and self.verdict.phase == "acceptance":
            return True
        return self._canary is not None or bool(self._xids) or told

    async def _attend(self, container: ContainerView | None, record: Deployment, now: Instant) -> None:
        """A new container is a new window and a new log."""
        if container is None or (container.id, container.started_at) == self._attended:
            return
        self._attended = (container.id, container.started_at)
        self.verdict, self.window, self.tree, self._canary = None, None, (), None
        self._learned, self._shared_at = None, None
        wall = container.started_at or record.started_at or now.wall
        started = Instant(mono=now.mono - max(0.0, now.wall - wall), wall=wall)
        self._builder = self._new_window(started, record, now, await self._eyes.learned(record.slug))
        await cancelled(self._canary_task, self._trial)
        self._canary_task, self._trial, self._shown = None, None, None
        self._follower.wanted = self.plan.acceptance.log_lines
        await self._follower.attend(container.id, record.ready_at)

    def _new_window(
        self, started: Instant, record: Deployment, now: Instant, learned: Mapping[str, float]
    ) -> WindowBuilder:
        """An engine that was ready before the agent's own restart is not starting again."""
        ready = None
        if record.ready_at is not None:
            ready = Instant(mono=now.mono - max(0.0, now.wall - record.ready_at), wall=record.ready_at)
        ping = self._dialect.traits.scrape_is_ping
        return WindowBuilder(started, self.plan.watch, ready=ready, learned=learned, scrape_is_ping=ping)

    async def _sample(self, container: ContainerView | None, record: Deployment) -> None:
        view = container if container is not None else Missed(Miss.GONE, "the container is not there any more")
        taken = await take(self._eyes.sources, self._subject(container), view)
        events, lines = self._follower.tail.take()
        sample = replace(
            taken.sample,
            log=events,
            log_lines=lines,
            log_unread=Missed(Miss.BROKEN, self._follower.unread) if self._follower.unread else None,
            xids=tuple(self._xids),
            canary=self._canary,
            canary_out=self._canary_task is not None,
            stop=await self._stop(container, record),
        )
        self._canary, self._xids = None, []
        self._sampled = sample.at
        if taken.tree:
            self.tree = taken.tree
        if self._builder is None:
            self._builder = self._new_window(sample.at, record, sample.at, {})
        self.window = self._builder.add(sample)
        self.verdict = self._accepted(judge(self.window, self.plan.watch, self.plan.engine), record)
        if self.window.ready is not None:
            self.startup_s = self.window.ready.wall - self.window.started.wall
        await self._learn(record.slug, self.window)

    async def _learn(self, slug: str, window: Window) -> None:
        """A start and a prefill at once; idle power, which falls by a little again and again, once an hour."""
        found = learned(window)
        hourly = self._learned is None or window.now - self._learned >= LEARN_EVERY_S
        new = {key: value for key, value in found.items() if hourly or not key.startswith(IDLE_POWER)}
        if hourly:
            self._learned = window.now
        if not new or self._builder is None:
            return
        self._builder.know(new)
        try:
            await self._eyes.learn(slug, new)
        except AgentError as error:  # a full disk costs what was learned, never the look
            log.warning("not_learned", recipe=slug, reason=error.text)

    def _accepted(self, verdict: Verdict, record: Deployment) -> Verdict:
        """Held back until the engine has shown, once in its life, what its profile wants."""
        if record.proved == record.generation or not wants(self.plan.acceptance):
            return verdict
        if (
            verdict.state in SERVES
            and self._trial is None
            and not self._unproven
            and self.endpoint is not None
            and self.plan.engine is not None
        ):
            trial = self._try(self.endpoint, self.plan.engine)
            self._trial = asyncio.create_task(trial, name="acceptance")
        return hold_back(verdict, self._shown, self._unproven)

    async def _try(self, endpoint: Endpoint, engine: EngineLaunch) -> None:
        applicant = Applicant(endpoint, engine, self._dialect.read_metrics, self._follower.tail.unseen)
        found = await accept(self._eyes.sources.probe, applicant, self.plan.acceptance, secrets.token_hex(8))
        if not found.ok and self._unproven:
            self._trial = None  # it is tried again when its log can be read
            return
        self._shown = (found.ok, found.why)
        self._eyes.wake()

    @property
    def _unproven(self) -> str:
        """Why lines of the log that are wanted cannot be told to be there, nor to be missing."""
        return self._follower.unread if self._follower.tail.unseen() else ""

    async def _stop(self, container: ContainerView | None, record: Deployment) -> StopRequest | None:
        """Who asked for the exit, or for the end that the engine prepares: asked soon, since a runtime forgets."""
        draining = self.window is not None and self.window.marks.effort.draining is not None
        ended = container.id if container is not None else record.container
        if ended is None or record.started_at is None or (container is not None and container.running and not draining):
            return None
        try:
            return await self._eyes.runtime.stop_requested(ended, record.started_at)
        except RuntimeTrouble:
            return None

    def _subject(self, container: ContainerView | None) -> Subject:
        endpoint = self._endpoint(container)
        self.url = f"{endpoint.url}/v1" if endpoint else None
        return Subject(
            engine=self.plan.engine,
            endpoint=endpoint,
            uuids=self.plan.gpus,
            read_metrics=self._dialect.read_metrics,
            scrape_timeout_s=self.plan.watch.scrape_timeout.value,
            ping=self._ping(),
            own=sum(task is not None and not task.done() for task in (self._canary_task, self._trial)),
        )

    def _ping(self) -> Ping | None:
        """The scheduler's own questions, once the engine serves."""
        engine = self.plan.engine
        if engine is None or self.window is None or self.window.ready is None:
            return None
        requests = self._dialect.pings(engine)
        timeout = max(self.plan.watch.scrape_timeout.value, 0.8 * self.plan.watch.period.value)
        return Ping(requests, self._dialect.read_pong, timeout) if requests else None

    def _endpoint(self, container: ContainerView | None) -> Endpoint | None:
        if container is None or container.address is None:
            return None
        host, port = container.address
        engine = self.plan.engine
        return Endpoint(host, port, self._eyes.key_of(self.plan), tls=bool(engine and engine.tls))

    def _clients(self) -> int | None:
        connections = self.sample.connections if self.sample else None
        return connections.established if isinstance(connections, Connections) else None

    def _aborts(self) -> tuple[str, ...]:
        if self.plan.engine is None:
            return ()
        aborts = self._dialect.aborts(self.plan.engine)
        return (("narrow",) if aborts.known else ()) + (("everything",) if aborts.everything else ())

    async def abort(self, everything: bool) -> str:
        """Abort what runs; the word for what was tried."""
        if self.plan.engine is not None and self.endpoint is not None:
            aborts = self._dialect.aborts(self.plan.engine)
            orders = aborts.everything if everything else aborts.known
            last = aborts.always_last if everything else ()
            said = await send_all(self._eyes.sources.probe, self.endpoint, orders, last)
            log.info("aborted", recipe=self.plan.recipe.slug, everything=everything, answers=said)
        return "everything" if everything else "narrow"

    def start_canary(self) -> None:
        """Ask for one token beside the loop; the answer comes with a later sample."""
        engine, endpoint = self.plan.engine, self.endpoint
        if self._canary_task is not None or engine is None or endpoint is None:
            return
        self._canary_task = asyncio.create_task(self._ask(endpoint, engine), name="canary")

    async def _ask(self, endpoint: Endpoint, engine: EngineLaunch) -> None:
        try:
            nonce = secrets.token_hex(8)
            asked = self.verdict.canary_timeout_s if self.verdict else None
            timeout = asked or self.plan.watch.canary_timeout.value
            rank = self.verdict.canary_rank if self.verdict else ""
            probe = self._eyes.sources.probe
            self._canary = await ask_canary(probe, endpoint, self._dialect, engine, nonce, timeout, rank)
        finally:
            self._canary_task = None
            self._eyes.wake()

    async def down(self, seen: Seen, record: Deployment, plan: Plan) -> Seen:
        """What a take-down needs to know: clients and processes while it runs, survivors and the release after."""
        container = seen.container
        if container is not None and container.running and container.pid is not None:
            return await self._still_running(seen, container.pid, record)
        if record.takedown is None or (container is None and seen.leftovers):
            return seen
        proof = Proof(
            self._eyes.runtime,
            self._eyes.sources.sockets,
            self._eyes.sources.processes,
            self._eyes.sources.gpus,
            self._eyes.sources.host,
        )
        left = await survivors(proof, record.takedown)
        if container is not None or left:
            return replace(seen, survivors=left)
        unused = await self._eyes.shared_memory.unused(record.shared) if record.shared else None
        swept = unused.value if isinstance(unused, Known) else ()
        return replace(seen, swept=swept, release=await prove(proof, plan, record))

    async def _still_running(self, seen: Seen, pid: int, record: Deployment) -> Seen:
        reading = await self._eyes.sources.processes.tree(pid)
        if isinstance(reading, Known):
            self.tree = reading.value
        connections = await count_connections(self._eyes.sources, self._subject(seen.container), pid)
        clients = connections.established if isinstance(connections, Connections) else None
        self._shared_at = None  # the last chance to see what is its own
        shared = await self._shared(record, seen.now)
        return replace(seen, members=members(self.tree), clients=clients, shared=shared)

    async def _shared(self, record: Deployment, now: Instant) -> tuple[tuple[str, int], ...]:
        """Its own files in the host's /dev/shm, looked for now and then: an engine that is killed leaves them there."""
        before = record.held.files
        due = self._shared_at is None or now - self._shared_at >= SHARED_EVERY_S
        if before is None or not due or not self.tree:
            return ()
        self._shared_at = now
        found = await self._eyes.shared_memory.mapped([process.pid for process in self.tree])
        return tuple(one for one in found.value if one[1] not in before) if isinstance(found, Known) else ()

    async def close(self) -> None:
        await cancelled(self._canary_task, self._trial)
        await self._follower.close()
