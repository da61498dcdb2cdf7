"""What a record and the process table say together."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import replace

from agent.adapters import process_records as records
from agent.adapters import process_table as processes
from agent.adapters.process_records import Exited, Record, Started
from agent.adapters.process_table import Mark, Process
from agent.container.port import ContainerView, RunState

STATUS_S = 1.0
"""How long the wrapper may take to note the end of an engine before the end is told without its status."""


def view_of(record: Record) -> ContainerView:
    """Raises Damaged where a file of the record is torn."""
    created = ContainerView(
        id=record.id,
        name=record.name,
        slug=record.identity.slug,
        plan_id=record.identity.plan_id,
        generation=record.identity.generation,
        state=RunState.CREATED,
        error=records.text(record, "failed"),
    )
    started = records.started(record)
    return created if started is None else _of_started(record, started, replace(created, started_at=started.at))


def _of_started(record: Record, started: Started, view: ContainerView) -> ContainerView:
    if _runs(started):
        port = record.identity.port
        address = ("127.0.0.1", port) if port is not None else None
        return replace(view, state=RunState.RUNNING, pid=started.main.pid, address=address)
    exited = _status(record, started)
    if exited is None:
        return replace(view, state=RunState.EXITED, error=_why_unknown(started))
    killed = bool(exited.oom_kills)
    return replace(view, state=RunState.EXITED, exit_code=exited.code, finished_at=exited.at, oom_killed=killed)


def _runs(started: Started) -> bool:
    return started.boot == processes.boot_id() and processes.alive(started.main)


def _status(record: Record, started: Started) -> Exited | None:
    """How it ended; the wrapper notes it a moment after the end."""
    until = time.monotonic() + STATUS_S
    while True:
        kept = started.boot == processes.boot_id() and processes.alive(started.wrapper)
        exited = records.exited(record)
        if exited is not None or not kept or time.monotonic() > until:
            return exited
        time.sleep(STATUS_S / 50)


def _why_unknown(started: Started) -> str:
    if started.boot != processes.boot_id():
        return "the host was started again"
    if processes.alive(started.wrapper):
        return "it has ended, and its wrapper has not noted how"
    return "it has ended, and nobody knows how: its wrapper was ended before it"


def family_of(
    record: Record, known: Iterable[Mark], everyone: Mapping[int, Process] | None = None
) -> tuple[Process, ...]:
    """Every living process of it, its wrapper left out. `everyone`: the process table, where it has just been read.

    Where it has a control group of its own, whatever is in there is its. Else, with the wrapper alive, all of them
    descend from it (it is a subreaper). Without it they are looked for below the engine, in its session while the
    engine holds that number, among those seen before, and by what they inherited.
    """
    started = records.started(record)
    if started is None or started.boot != processes.boot_id():
        return ()
    everyone = processes.table() if everyone is None else everyone
    members = {mark for mark in (started.main, started.wrapper, *known) if _lives(everyone, mark)}
    sessions = {started.main.pid} if started.main in members else set()
    inside = processes.members(started.group) if started.group is not None else ()
    members |= {everyone[pid].mark for pid in inside if pid in everyone}
    if started.wrapper not in members:
        entry, output = f"{records.RUN_MARK}={record.id}".encode(), str(record.folder / "log")
        members |= {found.mark for found in everyone.values() if processes.belongs(found.mark.pid, entry, output)}
    found = processes.family(members, sessions, everyone)
    return tuple(member for member in found if member.mark != started.wrapper)


def _lives(everyone: Mapping[int, Process], mark: Mark) -> bool:
    found = everyone.get(mark.pid)
    return found is not None and found.mark == mark and not found.ended
