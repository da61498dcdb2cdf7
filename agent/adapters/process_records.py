"""The files of the process runtime: one folder for each process, each file whole or not at all."""

from __future__ import annotations

import json
import os
import re
import shutil
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent.adapters.process_table import Group, Mark
from agent.container.labels import Identity, identity_of
from agent.container.port import ContainerSpec
from agent.container.process_launch import ProcessLaunch
from agent.container.secrets import without_secrets

RUN_MARK = "RECIPE_AGENT_RUN"
"""Variable that every process of an engine inherits; its value is the record's id."""

FORM = 1
"""Version of `record.json`."""


_ASK = re.compile(r"(\d+\.\d{6}) ([A-Z0-9]+)")


class Damaged(ValueError):
    """A file that is torn or not ours; the text says which and why."""


@dataclass(frozen=True, slots=True)
class Record:
    """What was created. `argv` and `body` are without secrets."""

    folder: Path
    id: str
    name: str
    identity: Identity
    created_at: float
    argv: tuple[str, ...]
    cwd: str
    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Started:
    """The engine, its wrapper, and the boot that both belong to."""

    main: Mark
    wrapper: Mark
    boot: str
    at: float
    group: Group | None = None
    """The control group that is this engine's alone; None where it shares one."""


@dataclass(frozen=True, slots=True)
class Exited:
    """How the engine ended: code as Docker counts it, the signal that ended it or 0."""

    code: int
    signal: int
    at: float
    oom_kills: int | None = None
    """How many of its processes the kernel ended for memory; None where nobody counts."""


def create(root: Path, spec: ContainerSpec, launch: ProcessLaunch, base: Mapping[str, str], at: float) -> Record:
    """Write the folder of a new process aside and move it into place. `base` is the environment to start from."""
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    record_id = uuid.uuid4().hex
    aside = root / f".new-{record_id}"
    aside.mkdir(mode=0o700)
    document = {
        "form": FORM,
        "id": record_id,
        "name": spec.name,
        "created_at": at,
        "argv": list(launch.argv),
        "cwd": launch.cwd or "/",
        "body": dict(spec.body),
    }
    write_json(aside / "record.json", without_secrets(document, spec.body))
    _write_words(aside / "argv", launch.argv)
    env = {**base, **launch.env, RUN_MARK: record_id}
    _write_words(aside / "environ", (f"{name}={value}" for name, value in env.items()))
    folder = root / record_id
    aside.rename(folder)
    return read(folder)


def read(folder: Path) -> Record:
    """A record by its folder. Raises Damaged, and FileNotFoundError where there is none."""
    document = read_json(folder / "record.json")
    try:
        identity = identity_of(document["body"].get("Labels"))
        if document["form"] != FORM or identity is None or document["id"] != folder.name:
            raise Damaged(f"{folder / 'record.json'}: not a record of this runtime")
        return Record(
            folder=folder,
            id=document["id"],
            name=document["name"],
            identity=identity,
            created_at=float(document["created_at"]),
            argv=tuple(document["argv"]),
            cwd=document["cwd"],
            body=document["body"],
        )
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise Damaged(f"{folder / 'record.json'}: {error or type(error).__name__}") from error


def folders(root: Path) -> Iterator[Path]:
    """The folders of all records; what is half made or half removed is left out."""
    try:
        found = sorted(root.iterdir())
    except FileNotFoundError:
        return
    yield from (folder for folder in found if not folder.name.startswith("."))


def started(record: Record) -> Started | None:
    """Raises Damaged."""
    document = optional(record.folder / "started")
    if document is None:
        return None
    try:
        return Started(
            main=Mark(int(document["pid"]), int(document["start"])),
            wrapper=Mark(int(document["wrapper"]), int(document["wrapper_start"])),
            boot=str(document["boot"]),
            at=float(document["at"]),
            group=_group(document),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise Damaged(f"{record.folder / 'started'}: {error}") from error


def _group(document: Mapping[str, Any]) -> Group | None:
    """Records of agents that knew no units of engines have none."""
    folder = document.get("group")
    return Group(Path(folder), int(document["group_inode"])) if folder else None


def exited(record: Record) -> Exited | None:
    """Raises Damaged."""
    document = optional(record.folder / "exited")
    if document is None:
        return None
    try:
        oom = document.get("oom_kills")
        kills = None if oom is None else int(oom)
        return Exited(int(document["code"]), int(document["signal"]), float(document["at"]), kills)
    except (KeyError, TypeError, ValueError) as error:
        raise Damaged(f"{record.folder / 'exited'}: {error}") from error


def marks(record: Record) -> tuple[bool, ...]:
    """What there is to see of it: started, ended, failed, asked to stop."""
    return tuple((record.folder / name).exists() for name in ("started", "exited", "failed", "asked"))


def text(record: Record, name: str) -> str:
    """A small text file of the folder, empty where there is none."""
    try:
        return (record.folder / name).read_text(encoding="utf-8", errors="replace").strip()
    except FileNotFoundError:
        return ""


def environment(record: Record) -> dict[str, str]:
    """What the engine's environment will be; there until it is started, since it may hold secrets."""
    pairs = (entry.partition("=") for entry in _given(record, "environ"))
    return {name: value for name, _, value in pairs}


def command(record: Record) -> tuple[str, ...]:
    """The command line as it will be run; there until it is started, since it may hold secrets."""
    return tuple(_given(record, "argv"))


def note_failure(record: Record, why: str) -> None:
    """Remember why it could not be started; the wrapper does the same."""
    aside = record.folder / "failed.new"
    aside.write_text(f"{why}\n", encoding="utf-8")
    aside.rename(record.folder / "failed")


def note_ask(record: Record, at: float, signal_name: str) -> None:
    """Remember that a stop was asked of this runtime; the wrapper does the same for signals sent to it.

    Where the disk is full nobody is told of it later, but an engine can be ended.
    """
    with suppress(OSError):
        handle = os.open(record.folder / "asked", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        with os.fdopen(handle, "wb", buffering=0) as file:
            file.write(f"{at:.6f} {signal_name}\n".encode())


def asks(record: Record) -> list[tuple[float, str]]:
    """The stops that were asked, oldest first; a torn line is left out."""
    found = (_ASK.fullmatch(line) for line in text(record, "asked").splitlines())
    return [(float(ask[1]), ask[2]) for ask in found if ask]


def remove(record: Record) -> None:
    """Free the name at once, then delete; what a crash leaves half deleted has no name."""
    gone = record.folder.with_name(f".gone-{record.id}")
    record.folder.rename(gone)
    shutil.rmtree(gone)


def sweep(root: Path) -> None:
    """Delete what crashes left half made or half removed."""
    for leftover in (*root.glob(".new-*"), *root.glob(".gone-*")):
        shutil.rmtree(leftover, ignore_errors=True)


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    """Whole, on the disk, or not at all."""
    aside = path.with_name(f"{path.name}.new")
    with aside.open("w", encoding="utf-8") as file:
        json.dump(document, file, ensure_ascii=False)
        file.flush()
        os.fsync(file.fileno())
    aside.rename(path)


def read_json(path: Path) -> dict[str, Any]:
    """Raises Damaged, and FileNotFoundError where there is none."""
    try:
        document = json.loads(path.read_bytes())
    except ValueError as error:
        raise Damaged(f"{path}: {error}") from error
    if not isinstance(document, dict):
        raise Damaged(f"{path}: not an object")
    return document


def optional(path: Path) -> dict[str, Any] | None:
    """Raises Damaged; None where there is no such file."""
    try:
        return read_json(path)
    except FileNotFoundError:
        return None


def _given(record: Record, name: str) -> list[str]:
    """Raises Damaged once a wrapper has taken it, for an agent that was ended meanwhile, or has died of it."""
    try:
        return _read_words(record.folder / name)
    except FileNotFoundError as error:
        why = "it was being started, and what became of that is not noted; if that lasts, agentctl restart"
        raise Damaged(f"{record.name}: {why}") from error


def _read_words(path: Path) -> list[str]:
    return [os.fsdecode(word) for word in path.read_bytes().split(b"\0")[:-1]]


def _write_words(path: Path, words: Iterable[str]) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.writelines(os.fsencode(word) + b"\0" for word in words)
