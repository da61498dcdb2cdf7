"""From the settings to a fleet whose loops have everything that they need."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from agent.action.budget import HostBudget
from agent.action.execute import Work
from agent.action.record import Deployment, Held
from agent.action.seen import Seen, Survivor
from agent.adapters.http_probe import HttpProbe
from agent.adapters.http_stream import HttpStreams
from agent.adapters.preflight_facts_links import LinkFile
from agent.adapters.procfs_signal import kill_process, send_signal
from agent.adapters.python_stacks import stacks
from agent.adapters.sqlite_store import SqliteStore
from agent.container.body import SECRET, LogBounds, spec_for
from agent.container.labels import Identity
from agent.container.port import ContainerSpec
from agent.daemon.desk import DaemonDesk, Offices
from agent.daemon.drill import Drills
from agent.daemon.drill import Means as DrillMeans
from agent.daemon.evidence import Means as WitnessMeans
from agent.daemon.evidence import Witnesses
from agent.daemon.fleet import Fleet, Making
from agent.daemon.hostlock import keep_host
from agent.daemon.hostwatch import HostWatch
from agent.daemon.limits import limits_for
from agent.daemon.linkwatch import LinkWatch
from agent.daemon.livewatch import LiveWatch
from agent.daemon.loop import Loop, Rooms, running_of
from agent.daemon.mounts import allowed_mounts
from agent.daemon.newimage import parser_takes_it
from agent.daemon.notify import Notifier, notifier_for
from agent.daemon.observe import Eyes, Observer
from agent.daemon.recipes import document_of, keep_document
from agent.daemon.site import SiteState
from agent.daemon.verification import Means, Verifier
from agent.daemon.wearwatch import WearWatch, upkeep
from agent.daemon.windows import Windows
from agent.engines.api_key import api_key_of
from agent.errors import Refused
from agent.host.gpu import Gpu
from agent.host.model import Host
from agent.host.reading import Known, Reading, value_of
from agent.image.ensure import ensure, to_run
from agent.incident.model import Case, Incident
from agent.metrics.board import Board
from agent.metrics.render import Exposition
from agent.metrics.snapshot import Snapshot, Totals
from agent.metrics.trail import Trails
from agent.plan.model import ContainerPlan, Plan
from agent.plan.tojson import plan_from_json, to_json
from agent.preflight.credit import Running
from agent.preflight.model import Finding
from agent.quantity import Bytes
from agent.samples.take import Sources
from agent.version import VERSION
from agent.wiring import LINKS, Parts, Planner, check


@dataclass(slots=True)
class Daemon:
    """Everything that runs, and what it is made of."""

    parts: Parts
    store: SqliteStore
    fleet: Fleet
    watch: HostWatch
    desk: DaemonDesk
    probe: HttpProbe
    site: SiteState
    verifier: Verifier
    live: LiveWatch
    drills: Drills
    notifier: Notifier

    async def close(self) -> None:
        """Leave engines running, let go of everything else."""
        await self.drills.close()
        await self.verifier.close()
        await self.fleet.close()
        await self.probe.close()
        await self.parts.close()
        await self.store.close()


async def assemble(parts: Parts) -> Daemon:
    """Build the daemon; loops begin with `Fleet.start`."""
    paths = parts.settings.paths
    store = SqliteStore(paths.state / "state.db", owner=True)
    runtimes = {kind: parts.runtime(kind) for kind in kinds(parts)}
    boot = (await parts.host.facts()).boot_id
    fleet = Fleet(runtimes, store, parts.clock, boot.value if isinstance(boot, Known) else "")
    probe = HttpProbe()
    watch = HostWatch(parts.gpus, parts.host, runtimes, parts.clock, fleet.xid)
    watch.on_cards = LinkWatch(LinkFile(paths.state / LINKS, parts.clock), parts.clock).see
    watch.watched = {"state": str(paths.state), "cache": str(paths.cache)}
    snapshots = Snapshots(fleet, watch)
    fleet.trouble, fleet.forgive, watch.on_trouble = watch.trouble, watch.forgive, fleet.beware
    fleet.window = lambda wall: Windows(parts.settings.maintenance).closed(wall)
    fleet.host_budget = lambda: HostBudget(parts.settings.budget.host_restarts)
    exposition = Exposition(snapshots.take)
    site = SiteState()
    verifier = Verifier(
        Means(
            fleet=fleet,
            store=store,
            clock=parts.clock,
            probe=probe,
            streams=HttpStreams(),
            limits=lambda plan: limits_for(plan, parts.gpus),
            folder=paths.state / "verify",
        )
    )
    drills = Drills(DrillMeans(fleet, store, parts.clock, probe, parts.processes, send_signal))
    live = LiveWatch(fleet, parts.gpus, parts.processes, parts.clock)
    wear = WearWatch(lambda: parts.settings.maintenance, lambda: watch.memory_available, live.mendable)
    fleet.worn, fleet.upkeep = wear.worn, lambda wall: upkeep(parts.settings.maintenance, wall)
    snapshots.also = wear.see
    fleet.on_board = snapshots.see
    snapshots.comparable = lambda: live.comparable
    snapshots.verified = lambda slug: verifier.last(slug).at
    snapshots.ratios = lambda: {**verifier.ratios, **live.ratios}
    notifier = notifier_for(parts, fleet, store, watch.collectors)
    offices = Offices(
        fleet=fleet,
        store=store,
        clock=parts.clock,
        runtimes=runtimes,
        planned=Planner(parts).plan,
        newest=Planner(parts).newest,
        plan_json=to_json,
        exposition=exposition.text,
        snapshot=snapshots.take,
        host=lambda: host_json(parts),
        settings=lambda: parts.settings,
        site=site.to_json,
        veil=parts.veil,
        keep_document=partial(keep_document, paths),
        verifier=verifier,
        drills=drills,
        notifier=notifier,
        incidents=paths.state / "incidents",
        logs=paths.state / "logs",
    )
    return Daemon(parts, store, fleet, watch, DaemonDesk(offices), probe, site, verifier, live, drills, notifier)


def kinds(parts: Parts) -> tuple[str, ...]:
    """The runtimes that this site may use."""
    chosen = parts.settings.runtime
    return ("docker", "process") if chosen == "auto" else (chosen,)


class Snapshots:
    """What the exposition is made from, out of what loops and host watch last saw."""

    def __init__(self, fleet: Fleet, watch: HostWatch) -> None:
        self._fleet = fleet
        self._watch = watch
        self._totals = Totals()
        self._trails = Trails()
        self.ratios: Callable[[], Mapping[tuple[str, str], float]] = dict
        """(slug, point) → measured ÷ claimed, as last verified and of traffic now."""
        self.comparable: Callable[[], Mapping[str, bool]] = dict
        """Slug → whether its claims are known to be of cards like those here."""
        self.verified: Callable[[str], float | None] = lambda _: None
        """When a deployment's plan was last verified."""
        self.also: Callable[[Board], None] = lambda _: None
        """Sees every board too."""

    def see(self, board: Board) -> None:
        """Count on from an engine's own counters, at every board."""
        figures: Mapping[str, Any] = board.verdict.figures if board.verdict else {}
        for name in ("prompt_tokens", "generation_tokens"):
            self._totals.see(name, board.record.slug, figures.get(name))
        self._trails.see(board)
        self.also(board)

    def take(self) -> Snapshot:
        """Everything last seen; what is gone leaves no series behind."""
        boards = tuple(self._fleet.boards[slug] for slug in sorted(self._fleet.boards))
        slugs = {board.record.slug for board in boards}
        self._totals.keep(slugs)
        return Snapshot(
            version=VERSION,
            boards=boards,
            totals=self._totals.values,
            ratios={key: value for key, value in self.ratios().items() if key[0] in slugs},
            comparable=self.comparable(),
            verified={slug: at for slug in slugs if (at := self.verified(slug)) is not None},
            trails=self._trails.of(slugs),
            cards=self._watch.cards(),
            memory_available=self._watch.memory_available,
            driver_skew=self._watch.driver_skew,
            folders=self._watch.folders,
            collectors=self._watch.collectors,
            tick_s=self._fleet.tick_s,
        )


async def host_json(parts: Parts) -> Mapping[str, Any]:
    """`GET /v1/host`."""
    facts, memory = await parts.host.facts(), await parts.host.memory()
    driver, gpus = await parts.gpus.driver(), await parts.gpus.read()
    return Host(at=parts.clock.now(), facts=facts, memory=memory, driver=driver, gpus=gpus).to_json()


class LoopMaker:
    """Makes the loop of one deployment: its observer, and the effects of its steps."""

    def __init__(self, daemon: Daemon) -> None:
        self._of = daemon

    def making(self) -> Making:
        return Making(loop=self.loop, plan_to_json=to_json, plan_from_json=plan_from_json)

    def loop(self, record: Deployment, plan: Plan) -> Loop:
        parts, fleet = self._of.parts, self._of.fleet
        runtime = parts.runtime(plan.runtime)
        slug = record.slug
        sources = Sources(self._of.probe, parts.sockets, parts.processes, parts.gpus, parts.host, parts.clock)
        eyes = Eyes(
            sources=sources,
            runtime=runtime,
            key_of=self._key_of,
            plan_of=fleet.plan_of,
            learned=self._of.store.learned,
            learn=self._of.store.learn,
            wake=lambda: fleet.wake(slug),
            shared_memory=parts.shared_memory,
            standing=fleet.standing,
        )
        observer = Observer(eyes, plan)
        rooms = Rooms(
            runtime=runtime,
            store=self._of.store,
            clock=parts.clock,
            boot_id=fleet.boot_id,
            publish=fleet.publish,
            told=fleet.told,
            broken=fleet.broken,
            host_wait=fleet.host_wait,
            window=fleet.window,
            upkeep=fleet.upkeep,
            worn=fleet.worn,
        )
        work = DeploymentWork(self._of, observer, slug)
        return Loop(record, plan, observer, work.work(), rooms)

    def _key_of(self, plan: Plan) -> str | None:
        """The key that the engine asks for, where its launch names one."""
        word = api_key_of(plan.container.body) if plan.container else None
        if word is None or not word.startswith(SECRET):
            return word
        return self._of.parts.secret(plan, word.removeprefix(SECRET))


class DeploymentWork:
    """The effects of one deployment's steps."""

    def __init__(self, daemon: Daemon, observer: Observer, slug: str) -> None:
        self._of = daemon
        self._observer = observer
        self._slug = slug

    def work(self) -> Work:
        parts = self._of.parts
        return Work(
            runtime=parts.runtime(self._observer.plan.runtime),
            spec=self._spec,
            check=self._check,
            image=self._image,
            evidence=self._evidence,
            abort=self._observer.abort,
            kill=self._kill,
            held=self._held,
            sweep=parts.shared_memory.remove,
            make_room=lambda slug: self._of.fleet.make_room(slug, self._slug),
            bring_back=self._of.fleet.bring_back,
            logs=parts.settings.paths.state / "logs",
        )

    async def _target(self, record: Deployment) -> Plan:
        return await self._of.fleet.plan_of(record.target)

    async def _spec(self, record: Deployment, generation: int) -> ContainerSpec:
        plan = await self._target(record)
        container = await self._container(plan)
        await allowed_mounts(plan)
        await keep_host(self._of.parts.settings.paths.state / "hosts", plan.plan_id, await host_json(self._of.parts))
        logs = self._of.parts.settings.logs
        identity = Identity(record.slug, plan.plan_id, generation, plan.engine.port if plan.engine else None)
        bounds = LogBounds(str(int(logs.engine_max_size)), logs.engine_max_files)
        return spec_for(container, identity, bounds, partial(self._of.parts.secret, plan))

    async def _container(self, plan: Plan) -> ContainerPlan:
        """With the image that was made sure of: a built one has its own name, a moved tag goes by its digest."""
        container = plan.container
        if container is None:
            raise Refused(
                why="the plan has no container", advice=f"agentctl plan {plan.recipe.slug} says what it misses"
            )
        image = await to_run(plan, self._of.parts.images.locks) if plan.runtime == "docker" else None
        return container if image is None else replace(container, body={**container.body, "Image": image})

    async def _check(self, record: Deployment, seen: Seen) -> tuple[Finding, ...]:
        plan = await self._target(record)
        return await check(self._of.parts, plan, self._running(record, seen))

    def _running(self, record: Deployment, seen: Seen) -> Running | None:
        """What will be gone before the start: the deployment's own container, or the one that makes room for it."""
        if record.replaces is not None and (loop := self._of.fleet.loops.get(record.replaces)) is not None:
            return loop.running()
        if seen.container is None or not seen.container.running:
            return None
        return running_of(seen.container, self._observer.plan, seen.members)

    async def _image(self, record: Deployment) -> None:
        plan = await self._target(record)
        if plan.runtime == "docker":
            parts = self._of.parts
            report = self._of.fleet.loop(self._slug).report
            came = plan.image is None or await parts.docker.image(plan.image.reference) is None
            await ensure(plan, parts.runtime(plan.runtime), report, parts.images.supply)
            if came:
                await parser_takes_it(parts, plan, record.accepted)

    async def _evidence(self, case: Case, brief: bool) -> Incident:
        parts = self._of.parts
        plan = self._observer.plan
        means = WitnessMeans(
            runtime=parts.runtime(plan.runtime),
            probe=self._of.probe,
            gpus=parts.gpus,
            host=parts.host,
            processes=parts.processes,
            sockets=parts.sockets,
            kernel=parts.kernel_log,
            stacks=stacks,
            recipe=partial(document_of, parts.settings.paths, plan.recipe),
            veil=parts.veil,
        )
        shelf = parts.settings.paths.state / "incidents"
        witnesses = Witnesses(means, self._observer)
        return await witnesses.keep(shelf, case, to_json(plan), parts.clock, brief=brief)

    async def _kill(self, survivor: Survivor) -> None:
        kill_process(survivor.pid, survivor.start_time)

    async def _held(self) -> Held:
        """What of the host is in use just before a start."""
        parts = self._of.parts
        cards = value_of(await parts.gpus.read()) or ()
        used = {gpu.uuid: int(gpu.memory_used.value) for gpu in cards if isinstance(gpu.memory_used, Known)}
        memory = value_of(await parts.host.memory())
        return Held(
            cards=used,
            owned={gpu.uuid: had for gpu in cards if (had := owned(gpu)) is not None},
            host=size(memory.available) if memory else None,
            anonymous=size(memory.anonymous) if memory else None,
            shared=size(memory.shared) if memory else None,
            files=value_of(await parts.shared_memory.files()) if self._shares_memory() else None,
        )

    def _shares_memory(self) -> bool:
        """Whether the engine has the host's own /dev/shm; a container's private one goes with it."""
        plan = self._observer.plan
        host = plan.container.body.get("HostConfig") or {} if plan.container else {}
        return plan.runtime == "process" or host.get("IpcMode") == "host"


def owned(gpu: Gpu) -> int | None:
    """Memory of a card that processes have; None where one of them, or the card, does not say."""
    processes = value_of(gpu.processes)
    each = [size(one.memory) for one in processes] if processes is not None else [None]
    return None if None in each else sum(one for one in each if one is not None)


def size(reading: Reading[Bytes]) -> int | None:
    value = value_of(reading)
    return int(value) if value is not None else None
