"""The runtime for hosts without a container engine: engines as plain processes, each under a small wrapper.

Records are files under the state folder, so a new agent finds what an old one started; what runs is known by pid, start
time and boot id. See `process_stub` for the wrapper and why there is one.
"""

from __future__ import annotations

import asyncio
import platform
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from signal import SIGKILL, Signals
from typing import Any, TypeVar

from agent.adapters import process_follow as following
from agent.adapters import process_log as engine_log
from agent.adapters import process_records as records
from agent.adapters import process_start as starting
from agent.adapters import process_table as processes
from agent.adapters.process_errors import (
    NoUnit,
    ProcessFailed,
    ProcessGone,
    ProcessNameTaken,
    ProcessRejected,
    ProcessStillRuns,
    ProcessTimeout,
)
from agent.adapters.process_follow import Change
from agent.adapters.process_records import Damaged, Record
from agent.adapters.process_start import DoorShut, LogRotation
from agent.adapters.process_view import family_of, view_of
from agent.adapters.runtime_threads import Threads
from agent.adapters.together import Together
from agent.clock import timestamp
from agent.container.port import (
    ContainerSpec,
    ContainerView,
    ImageFacts,
    LogLine,
    PullProgress,
    RunState,
    RuntimeFacts,
    StopRequest,
)
from agent.container.process_launch import process_launch, process_problems
from agent.errors import RuntimeTrouble
from agent.logger import logger

Result = TypeVar("Result")

WATCH_S = 1.0  # between looks at the records for events
SETTLED_NS = 1_000_000_000
"""A folder's time may stand still for a kernel's tick while files come: it counts once the folder has been at rest."""
KILL_ROUNDS = 20
"""KILL is sent again while new members of the tree appear, so often at most."""


class ProcessRuntime:
    """Engines as plain processes. `root` is the folder of its records; `door`: systemd's, to units of their own."""

    kind = "process"
    lags = False  # it goes by the files themselves

    def __init__(self, root: Path, rotation: LogRotation, timeout_s: float = 30.0, door: Path | None = None) -> None:
        self._root = root
        self._door = door
        self._rotation = rotation
        self._timeout = timeout_s
        self._threads = Threads("process-runtime")
        self._one_creates = threading.Lock()
        self._wrappers: set[int] = set()
        self._seen: dict[str, frozenset[processes.Mark]] = {}
        self._damaged: set[str] = set()
        self._known: dict[str, tuple[tuple[int, int], Record]] = {}
        """Records by folder, each with inode and time of its file, which is written once."""
        self._marked: dict[str, tuple[int, int, tuple[bool, ...]]] = {}
        """By record: the time of its folder, when it was looked into (both ns), and what was there."""
        self._together = Together(self._lists)

    async def facts(self) -> RuntimeFacts:
        return RuntimeFacts(name=self.kind, version=platform.release(), root_dir=str(self._root))

    async def list(self, slug: str | None = None) -> tuple[ContainerView, ...]:
        return await self._together.ask(slug)

    async def _lists(self, slugs: tuple[str | None, ...]) -> Mapping[str | None, tuple[ContainerView, ...]]:
        """For all deployments that look at this moment: the records and the process table are read once."""

        def look() -> Mapping[str | None, tuple[ContainerView, ...]]:
            wanted = [record for record in self._records() if None in slugs or record.identity.slug in slugs]
            views = self._views(wanted)
            return {slug: tuple(view for view in views if slug in (None, view.slug)) for slug in slugs}

        return await self._call("list processes", look)

    async def view(self, container_id: str) -> ContainerView | None:
        return await self._call("look at a process", lambda: self._if_there(container_id, self._view))

    async def inspect(self, container_id: str) -> Mapping[str, Any] | None:
        return await self._call("inspect a process", lambda: self._if_there(container_id, self._inspect))

    async def create(self, spec: ContainerSpec) -> str:
        return await self._call(f"create {spec.name}", lambda: self._create(spec))

    async def start(self, container_id: str) -> None:
        await self._call("start a process", lambda: self._start(self._there(container_id, "start it")))

    async def signal(self, container_id: str, name: str) -> None:
        number = Signals[f"SIG{name.removeprefix('SIG')}"]
        await self._call(
            f"send {name}", lambda: self._if_there(container_id, lambda record: self._send(record, number))
        )

    async def remove(self, container_id: str) -> None:
        await self._call("remove a process", lambda: self._if_there(container_id, self._remove))

    async def follow(self, container_id: str, since: float | None) -> AsyncIterator[LogLine]:
        def first(record: Record) -> int:
            return engine_log.offset_after(record.folder, since)

        offset = await self._call("follow a log", partial(self._if_there, container_id, first))
        change = Change(self._root / container_id)
        try:
            while offset is not None:
                change.note()
                look = partial(self._if_there, container_id, partial(following.read, offset=offset))
                found = await self._call("follow a log", look)
                if found is None:
                    return
                batch, engine = found
                for line in batch.lines:
                    if since is None or line.at is None or line.at > since:
                        yield line
                if batch.at == offset:
                    if batch.last:
                        return
                    change.listen(engine)
                    await change.wait()
                offset = batch.at
        finally:
            change.close()

    async def tail(self, container_id: str, lines: int) -> tuple[LogLine, ...]:
        read = await self._call(
            "read a log",
            lambda: self._if_there(container_id, lambda record: engine_log.last_lines(record.folder, lines)),
        )
        return read or ()

    async def save_log(self, container_id: str, path: Path) -> int:
        record = await self._call("save a log", lambda: self._there(container_id, "save its log"))
        return await self._call("save a log", lambda: engine_log.save(record.folder, path))

    async def stop_requested(self, container_id: str, since: float) -> StopRequest | None:
        return await self._call(
            "ask for stops", lambda: self._if_there(container_id, lambda record: _last_stop(record, since))
        )

    async def name_holder(self, name: str) -> ContainerView | str | None:
        return await self._call("look for a name", lambda: self._named(name))

    async def image(self, reference: str) -> ImageFacts | None:
        """Plain processes have no images."""
        return None

    def pull(self, reference: str) -> AsyncIterator[PullProgress]:
        raise ProcessRejected(action=f"pull {reference}", why="plain processes have no images")

    async def events(self) -> AsyncIterator[str]:
        """Slugs whose records changed: created, started, ended, asked to stop."""
        known = await self._call("watch processes", self._marks)
        while True:
            await asyncio.sleep(WATCH_S)
            now = await self._call("watch processes", self._marks)
            for slug in {slug for (slug, _), _ in known.items() ^ now.items()}:
                yield slug
            known = now

    async def close(self) -> None:
        """Nothing to end: what runs goes on, and threads end by themselves."""

    async def _call(self, action: str, call: Callable[[], Result]) -> Result:
        """Run in a thread, with foreign exceptions translated."""
        try:
            return await self._threads.run(call, self._timeout)
        except RuntimeTrouble:
            raise
        except TimeoutError as error:
            raise ProcessTimeout(action=action, seconds=self._timeout) from error
        except Damaged as error:
            raise ProcessFailed(action=action, why=str(error)) from error
        except OSError as error:
            raise ProcessFailed(action=action, why=f"{error.filename or ''} {error.strerror}".strip()) from error

    def _records(self) -> tuple[Record, ...]:
        """All records; one that is torn or foreign is named once and left alone."""
        found = []
        for folder in records.folders(self._root):
            try:
                found.append(self._record(folder))
            except FileNotFoundError:
                continue  # removed meanwhile
            except (Damaged, OSError) as error:
                if folder.name not in self._damaged:
                    self._damaged.add(folder.name)
                    logger().warning("process record is not readable", folder=str(folder), why=str(error))
        return tuple(found)

    def _record(self, folder: Path) -> Record:
        """As `records.read`, which is not asked again for a file that has not changed."""
        status = (folder / "record.json").stat()
        sign = (status.st_ino, status.st_mtime_ns)
        known = self._known.get(folder.name)
        if known is None or known[0] != sign:
            known = self._known[folder.name] = (sign, records.read(folder))
        return known[1]

    def _if_there(self, container_id: str, use: Callable[[Record], Result]) -> Result | None:
        """`use` of a record, None where there is none (any more)."""
        if not container_id or "/" in container_id or container_id.startswith("."):
            return None
        try:
            return use(self._record(self._root / container_id))
        except (FileNotFoundError, NotADirectoryError):
            if (self._root / container_id).is_dir():
                raise
            return None

    def _there(self, container_id: str, action: str) -> Record:
        record = self._if_there(container_id, lambda record: record)
        if record is None:
            raise ProcessGone(action=action, container=container_id)
        return record

    def _view(self, record: Record) -> ContainerView:
        return self._views((record,))[0]

    def _views(self, wanted: Sequence[Record]) -> tuple[ContainerView, ...]:
        self._wrappers -= {pid for pid in tuple(self._wrappers) if starting.reap(pid)}
        views = tuple(view_of(record) for record in wanted)
        everyone = processes.table() if any(view.running for view in views) else {}
        for record, view in zip(wanted, views, strict=True):
            if view.running:
                self._family(record, everyone)
        return views

    def _family(
        self, record: Record, everyone: Mapping[int, processes.Process] | None = None
    ) -> tuple[processes.Process, ...]:
        """Every living process of it; remembered, since one that left the session may lose its parent as well."""
        members = family_of(record, self._seen.get(record.id, frozenset()), everyone)
        self._seen[record.id] = frozenset(member.mark for member in members)
        return members

    def _named(self, name: str) -> ContainerView | None:
        return next((self._view(record) for record in self._records() if record.name == name), None)

    def _create(self, spec: ContainerSpec) -> str:
        action = f"create {spec.name}"
        if problems := process_problems(spec.body):
            raise ProcessRejected(action=action, why="; ".join(problems))
        launch = process_launch(spec.body)
        with self._one_creates:
            records.sweep(self._root)
            if holder := self._named(spec.name):
                raise ProcessNameTaken(
                    action=action, name=spec.name, generation=holder.generation, state=holder.state.value
                )
            return records.create(self._root, spec, launch, starting.base_environment(), time.time()).id

    def _start(self, record: Record) -> None:
        action = f"start {record.name}"
        view = view_of(record)
        if view.state is not RunState.CREATED or view.error:
            why = f"it was started before ({view.error or view.state})"
            raise ProcessRejected(action=action, why=why, advice="each start is a new generation: create the next one")
        env = records.environment(record)
        if problem := starting.start_problem(records.command(record), env, record.cwd):
            records.note_failure(record, problem)
            raise ProcessRejected(action=action, why=problem, advice="see the launch's command line and PATH")
        try:
            child = starting.start(record, self._rotation, self._timeout * 0.8, self._door)
        except DoorShut as error:
            raise NoUnit(action=action, why=str(error)) from error
        self._wrappers |= {child} if child is not None else set()
        if failure := records.text(record, "failed"):
            raise ProcessRejected(action=action, why=failure, advice="see the launch's command line and PATH")
        if records.started(record) is None:
            why = records.text(record, "wrapper.log") or starting.silence(record)
            raise ProcessFailed(action=action, why=why)

    def _send(self, record: Record, number: Signals) -> None:
        """To the first process alone, as Docker does; KILL to the whole tree, which in a container dies with it."""
        started = records.started(record)
        if started is None or started.boot != processes.boot_id():
            return
        records.note_ask(record, time.time(), number.name.removeprefix("SIG"))
        processes.send(started.main, number)
        if number is SIGKILL:
            self._kill_tree(record)

    def _kill_tree(self, record: Record) -> None:
        """KILL all of it, again while new ones appear; what is in state D stays and is named by `remove`."""
        hit: set[processes.Mark] = set()
        for _ in range(KILL_ROUNDS):
            fresh = {member.mark for member in self._family(record)} - hit
            if not fresh:
                return
            for mark in fresh:
                processes.send(mark, SIGKILL)
            hit |= fresh

    def _remove(self, record: Record) -> None:
        action = f"remove {record.name}"
        if view_of(record).running:
            raise ProcessStillRuns(action=action, why="it runs", advice="stop it first")
        if left := self._family(record):
            names = ", ".join(f"{item.name} (pid {item.mark.pid}, state {item.state})" for item in left)
            raise ProcessStillRuns(action=action, why=f"processes of it live on: {names}")
        records.remove(record)
        self._seen.pop(record.id, None)
        self._known.pop(record.id, None)
        self._marked.pop(record.id, None)

    def _inspect(self, record: Record) -> Mapping[str, Any]:
        """In the form of Docker's GET /containers/ID/json, with what there is beyond it under `Process`."""
        view = self._view(record)
        state = {
            "Status": view.state.value,
            "Running": view.running,
            "Pid": view.pid or 0,
            "ExitCode": view.exit_code,
            "Error": view.error,
            "StartedAt": timestamp(view.started_at) if view.started_at is not None else None,
            "FinishedAt": timestamp(view.finished_at) if view.finished_at is not None else None,
        }
        host = dict(record.body.get("HostConfig") or {}) | {"NetworkMode": "host"}
        return {
            "Id": record.id,
            "Name": f"/{record.name}",
            "Created": timestamp(record.created_at),
            "State": state,
            "Config": {key: value for key, value in record.body.items() if key != "HostConfig"},
            "HostConfig": host,
            "Process": self._beyond(record),
        }

    def _beyond(self, record: Record) -> Mapping[str, Any]:
        """What only this runtime has: command line, its unit, signals asked for, the tree as it is now."""
        started = records.started(record)
        return {
            "Argv": list(record.argv),
            "WorkingDir": record.cwd,
            "Started": records.optional(record.folder / "started"),
            "Exited": records.optional(record.folder / "exited"),
            "Asked": [{"At": timestamp(at), "Signal": name} for at, name in records.asks(record)],
            "Wrapper": records.text(record, "wrapper.log"),
            "Unit": started.group.unit if started is not None and started.group is not None else None,
            "Tree": [
                {"Pid": member.mark.pid, "Name": member.name, "State": member.state, "Parent": member.parent}
                for member in self._family(record)
            ],
        }

    def _marks(self) -> dict[tuple[str, str], tuple[bool, ...]]:
        """By slug and record, what there is to see of it; a folder in which no file came or went is not looked into."""
        now, found = time.time_ns(), {}
        for record in self._records():
            try:
                changed = record.folder.stat().st_mtime_ns
            except OSError:
                continue  # removed meanwhile
            known = self._marked.get(record.id)
            if known is None or known[0] != changed or changed > known[1] - SETTLED_NS:
                known = self._marked[record.id] = (changed, now, records.marks(record))
            found[(record.identity.slug, record.id)] = known[2]
        return found


def _last_stop(record: Record, since: float) -> StopRequest | None:
    """The last stop noted; a first process that died of TERM, INT or HUP was signalled by somebody as well."""
    asked = [StopRequest(at, name) for at, name in records.asks(record) if at >= since and name in _STOPS]
    exited = records.exited(record)
    if not asked and exited is not None and exited.at >= since and exited.signal:
        name = Signals(exited.signal).name.removeprefix("SIG")
        # Not KILL: that is how the kernel ends a process when memory is short.
        if name in ("TERM", "INT", "HUP"):
            return StopRequest(exited.at, name)
    return asked[-1] if asked else None


_STOPS = frozenset({"TERM", "INT", "HUP", "QUIT", "KILL"})
