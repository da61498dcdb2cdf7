"""Does every bind's source exist, as a file or a folder as its target expects?

Docker makes a missing source of `-v` itself: as a *folder* that root owns, also where a file was meant, and the engine
then fails on it minutes later. The folder stays, so a later look finds something there.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Any

from agent.host.reading import Unknown
from agent.preflight import download
from agent.preflight.case import Case
from agent.preflight.check import Answer, Check, bad, good, unknown
from agent.preflight.facts import PathFact, PathKind
from agent.preflight.mounts import Bind, binds_of, expected, on_host

ID = "binds"
FILES = (PathKind.FILE, PathKind.SOCKET, PathKind.DEVICE)


@dataclass(frozen=True, slots=True)
class Wrong:
    """A source that is not what it should be."""

    bind: Bind
    found: str
    cure: str


async def look(case: Case) -> Answer:
    binds = binds_of(case.plan)
    wrong: list[Wrong] = []
    unseen: list[str] = []
    for bind in binds:
        fact = await case.facts.path(bind.source)
        if isinstance(fact, Unknown):
            unseen.append(f"{bind.source}: {fact.reason}")
        elif trouble := judge(case, bind, fact.value):
            wrong.append(trouble)
    need = f"{len(binds)} sources, each a file or a folder as its target expects"
    details: dict[str, Any] = {"wrong": [as_json(one) for one in wrong], "unseen": unseen}
    if wrong:
        found = "; ".join(f"{one.bind.source} {one.found}" for one in wrong)
        hint = "; ".join(dict.fromkeys(one.cure for one in wrong))
        return bad(found, need=need, hint=hint, details=details)
    if unseen:
        hint = "let the agent's user look there, or check by hand and deploy with --accept binds"
        return unknown("; ".join(unseen), need=need, hint=hint, details=details)
    return good(f"all {len(binds)} are there", need=need, details=details)


def judge(case: Case, bind: Bind, fact: PathFact) -> Wrong | None:
    want = expected(bind.target) or expected(bind.source)
    if fact.kind is PathKind.NOTHING:
        return Wrong(bind, "does not exist", missing(case, bind, want))
    if want in FILES and fact.kind is PathKind.FOLDER:
        return Wrong(bind, f"is a folder, where {bind.target} is a file", misplaced(bind, fact))
    if want is PathKind.FOLDER and fact.kind is PathKind.FILE:
        return Wrong(bind, f"is a file, where {bind.target} is a folder", f"put a folder at {bind.source}")
    return None


def missing(case: Case, bind: Bind, want: PathKind | None) -> str:
    source = shlex.quote(bind.source)
    if want in FILES:
        return f"put the file {bind.source} there (Docker would make a folder of that name)"
    if command := model_command(case, bind):
        return command
    if not bind.read_only:
        return f"`mkdir -p {source}`"
    return f"put the folder {bind.source} there, or correct the variable that it comes from"


def model_command(case: Case, bind: Bind) -> str:
    """How to fetch the model, where it is this bind that should bring it."""
    model = case.plan.engine.model if case.plan.engine else None
    if model is None or not model.startswith("/") or on_host(model, [bind]) is None:
        return ""
    return download.advice(case.plan, on_host(model, [bind]) or bind.source)


def misplaced(bind: Bind, fact: PathFact) -> str:
    source = shlex.quote(bind.source)
    if fact.entries == 0:
        return f"`rmdir {source}` (Docker makes such a folder where the file was missing), then put the file there"
    return f"put the file at {bind.source}; the folder there holds something, so look before it is moved"


def as_json(one: Wrong) -> dict[str, Any]:
    return {"source": one.bind.source, "target": one.bind.target, "found": one.found, "hint": one.cure}


CHECK = Check(ID, "every mounted path is there", look, lambda c: bool(binds_of(c.plan)), True)
