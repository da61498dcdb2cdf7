"""The composition root: what the daemon and the commands use, built from the settings, each part when it is wanted."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from agent.api.wanted import Wanted
from agent.clock import SystemClock
from agent.container.port import Runtime
from agent.errors import AgentError, InvalidInput
from agent.host.port import GpuSource, HostSource, KernelLog, Processes, SharedMemory, Sockets
from agent.incident.veil import Veil
from agent.plan.compile import compile_plan, image_references
from agent.plan.inputs import Inputs, LocalImage
from agent.plan.model import Plan
from agent.plan.secrets import is_secret
from agent.preflight.case import Case, Credit
from agent.preflight.check import Check
from agent.preflight.credit import Running
from agent.preflight.model import Finding
from agent.profile.load import load as load_profile
from agent.profile.load import shipped
from agent.recipe.library import Library
from agent.recipe.model import Recipe
from agent.recipe.read import read_recipe
from agent.recipe.source import Source
from agent.settings.credential import place_of
from agent.settings.model import Settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent.adapters.image_supply import EngineSupply
    from agent.adapters.preflight_facts import HostPorts
    from agent.adapters.preflight_facts_trial import Trials

IMAGE_CHECK = "image.arguments"
"""The check that runs an image's own code, which the site may forbid."""
LINKS = "links.json"
"""Within the state folder: what the cards' links have been seen to do."""


class SecretMissing(InvalidInput):
    """A launch needs a secret that the site does not supply."""

    code = "secret.missing"
    message = "cannot read the secret {name}: {why}"
    hint = "secrets: {{{name}: /path/to/a/file}} in agent.yaml, readable for the agent's user"


class Parts:
    """Adapters by need: a command that asks for the plan alone opens neither Docker nor a database."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.clock = SystemClock()
        self.veil = Veil()

    def take(self, settings: Settings) -> None:
        """Settings that are in force from now on. What holds old ones and nothing else is made anew when wanted."""
        self.settings = settings
        self.__dict__.pop("library", None)

    @cached_property
    def gpus(self) -> GpuSource:
        from agent.adapters.nvml import NvmlGpus

        return NvmlGpus(self.clock)

    @cached_property
    def host(self) -> HostSource:
        from agent.adapters.procfs_host import ProcHost

        return ProcHost(self.clock)

    @cached_property
    def processes(self) -> Processes:
        from agent.adapters.procfs_processes import ProcProcesses

        return ProcProcesses(self.clock)

    @cached_property
    def kernel_log(self) -> KernelLog:
        from agent.adapters.kernel_log import KernelRing

        return KernelRing(self.clock)

    @cached_property
    def shared_memory(self) -> SharedMemory:
        from agent.adapters.procfs_shm import ShmFiles

        return ShmFiles(self.clock)

    @cached_property
    def sockets(self) -> Sockets:
        from agent.adapters.procfs_sockets import ProcSockets

        return ProcSockets(self.clock)

    @cached_property
    def docker(self) -> Runtime:
        from agent.adapters.docker_runtime import DockerRuntime

        return DockerRuntime(self.settings.docker.host, self.settings.docker.timeout_s)

    @cached_property
    def images(self) -> EngineSupply:
        """Where Docker's images come from, and what was found of them."""
        from agent.adapters.image_supply import EngineSupply

        return EngineSupply(self.docker, self.settings)

    @cached_property
    def trials(self) -> Trials:
        """Throw-away containers on the same Engine, for programs that checks try out."""
        from agent.adapters.preflight_facts_trial import Trials

        return Trials(self.settings.docker.host, self.clock, self.settings.docker.timeout_s)

    @cached_property
    def process(self) -> Runtime:
        from agent.adapters.process_runtime import ProcessRuntime
        from agent.adapters.process_start import DOOR, LogRotation

        logs = self.settings.logs
        rotation = LogRotation(int(logs.engine_max_size), logs.engine_max_files)
        return ProcessRuntime(self.settings.paths.state / "processes", rotation, door=DOOR)

    @cached_property
    def library(self) -> Library:
        from agent.adapters.recipe_folder import FolderSource
        from agent.adapters.recipe_pins import DiskPins

        sources: list[Source] = [FolderSource(self.settings.paths.recipes)]
        for name in self.settings.sources:
            if name.startswith(("http://", "https://")):
                from agent.adapters.recipe_http import HttpSource

                sources.append(HttpSource(name, self.settings.fetching.timeout_s))
            else:
                sources.append(FolderSource(Path(name)))
        pins = DiskPins(self.settings.paths.cache / "recipes")
        return Library(sources, pins, self.clock, self.settings.fetching.recheck_s)

    def runtime(self, kind: str) -> Runtime:
        """`docker` or `process`."""
        return self.docker if kind == "docker" else self.process

    def secret(self, plan: Plan, name: str) -> str:
        """A secret's value, read from its file now and said nowhere."""
        file = plan.secrets.get(name)
        if file == "variables" and name in self.settings.variables:
            return self.veil.learn(self.settings.variables[name])
        path = Path(file) if file is not None else self.settings.secrets.get(name)
        if path is None:
            raise SecretMissing(name=name, why="the site names no file for it")
        return self.secret_file(name, path)

    def secret_file(self, name: str, path: Path) -> str:
        """What a file of secrets holds. Raises SecretMissing."""
        try:
            return self.veil.learn(place_of(path, os.environ).read_text().strip())
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or "it is no text"
            raise SecretMissing(name=name, why=f"{path}: {why}") from error

    def learn_secrets(self) -> None:
        """Know every secret of the site from the start: an adopted engine may say one before it is next asked for."""
        for name, path in self.settings.secrets.items():
            with suppress(AgentError):  # whoever needs it says what is wrong with it
                self.secret_file(name, path)
        for name, value in self.settings.variables.items():
            if is_secret(name):
                self.veil.learn(value)

    async def learned(self, slug: str) -> Mapping[str, float]:
        """What this engine measured on this host before; nothing where no agent ran yet, or its state may not be read.

        The daemon's file is opened beside the daemon: SQLite lets both.
        """
        from agent.adapters.sqlite_store import SqliteStore

        path = self.settings.paths.state / "state.db"
        if not os.access(path, os.R_OK | os.W_OK):
            return {}
        store = SqliteStore(path)
        try:
            return await store.learned(slug)
        except AgentError:
            return {}
        finally:
            await store.close()

    async def close(self) -> None:
        """Let go of what was opened; engines run on."""
        for name in ("gpus", "images", "docker", "process", "trials"):
            if name in self.__dict__:
                await self.__dict__[name].close()


class Planner:
    """Recipe, profiles, site and host become a plan; the daemon and the commands use the same one."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def recipe(self, wanted: Wanted) -> tuple[Recipe, tuple[str, ...]]:
        """The document, and what should be said of where it came from."""
        if wanted.document is not None:
            return read_recipe(wanted.document, wanted.source or "a document"), ()
        found = await self._parts.library.get(wanted.slug or "")
        return found.recipe, found.notes

    async def newest(self, slug: str, sets: Mapping[str, str]) -> Plan:
        """The plan of the newest revision, which is pinned in place of the older one."""
        await self._parts.library.fetch(slug)
        return await self.plan(Wanted(slug=slug, sets=sets))

    async def plan(self, wanted: Wanted) -> Plan:
        """The whole plan of it, for this host as it is now."""
        recipe, notes = await self.recipe(wanted)
        settings = self._parts.settings
        gpus = await self._parts.gpus.read()
        inputs = Inputs(
            recipe=recipe,
            settings=settings,
            shipped=await asyncio.to_thread(shipped, recipe.slug),
            site=await asyncio.to_thread(load_profile, settings.paths.profiles, recipe.slug),
            sets=wanted.sets,
            gpus=gpus,
            runtimes=await self._runtimes(),
            notes=notes,
            learned=await self._parts.learned(recipe.slug),
        )
        return compile_plan(replace(inputs, images=await self._images(inputs)))

    async def _runtimes(self) -> frozenset[str]:
        """Which runtimes answer here; asked only where the site leaves the choice."""
        if self._parts.settings.runtime != "auto":
            return frozenset({self._parts.settings.runtime})
        try:
            await self._parts.docker.facts()
        except AgentError:
            return frozenset({"process"})
        return frozenset({"docker", "process"})

    async def _images(self, inputs: Inputs) -> dict[str, LocalImage | None] | None:
        """What of the launch's images is here: one of the launch's own name is used as it is. None: nobody can say."""
        if inputs.runtimes is not None and "docker" not in inputs.runtimes:
            return None
        found: dict[str, LocalImage | None] = {}
        try:
            for reference in image_references(inputs):
                facts = await self._parts.docker.image(reference)
                found[reference] = LocalImage(facts.id, facts.entrypoint, facts.command) if facts else None
        except AgentError:
            return None
        return found


def container_engine(parts: Parts) -> tuple[Runtime | None, str]:
    """The container engine; None with the reason where there is none that can be asked from here."""
    host = parts.settings.docker.host
    if not host.startswith("unix://"):
        why = "which is not this host: its processes and cards cannot be watched from here"
        return None, f"docker.host is {host}, {why}"
    return parts.docker, ""


def host_ports(parts: Parts, runtime: Runtime | None, why_none: str = "") -> HostPorts:
    """What facts of this host are gathered from."""
    from agent.adapters.preflight_facts import HostPorts

    return HostPorts(
        clock=parts.clock,
        gpus=parts.gpus,
        host=parts.host,
        processes=parts.processes,
        sockets=parts.sockets,
        runtime=runtime,
        why_none=why_none,
        elsewhere=not parts.settings.docker.host.startswith("unix://"),
        docker_socket=parts.settings.docker.host.removeprefix("unix://"),
        trials=parts.trials,
        links=parts.settings.paths.state / LINKS,
    )


async def check(
    parts: Parts, plan: Plan, running: Running | None = None, checks: Collection[Check] | None = None
) -> tuple[Finding, ...]:
    """The preflight checks of a plan on this host, all of the usual ones where none are named.

    What `running` holds itself is credited.
    """
    from agent.adapters.preflight_facts import GatheredFacts
    from agent.preflight.catalogue import CHECKS
    from agent.preflight.credit import credit_for
    from agent.preflight.run import run, without

    runtime, why_none = container_engine(parts) if plan.runtime == "docker" else (parts.process, "")
    facts = GatheredFacts(host_ports(parts, runtime, why_none))
    refused = () if parts.settings.policy.image_checks else (IMAGE_CHECK,)
    try:
        credit = await credit_for(facts, running) if running is not None else Credit()
        return await run(Case(plan, facts, credit), without(checks or CHECKS, refused))
    finally:
        await facts.close()
