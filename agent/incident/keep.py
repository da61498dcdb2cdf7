"""Gather the evidence of one incident in parallel, under one deadline, into a folder that appears whole."""

from __future__ import annotations

import asyncio
import json
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent.errors import AgentError
from agent.incident.model import Case, Gather, Incident
from agent.incident.redact import redact, redact_text

DEADLINE_S = 30.0
LARGEST_PIECE = 32 << 20
LARGEST_INCIDENT = 96 << 20


@dataclass(frozen=True, slots=True)
class Piece:
    """One file of evidence, or why there is none."""

    name: str
    data: bytes | None
    missing: str = ""


async def keep(
    shelf: Path,
    case: Case,
    sources: Mapping[str, Gather],
    deadline_s: float = DEADLINE_S,
    hide: Callable[[str], str] = str,
) -> Incident:
    """Gather `sources` (file name → how to get it) and write them. What fails or is late is named, not waited for.

    `hide` takes known secrets out of a text; what merely looks like one goes anyway.
    """
    started = time.monotonic()
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(gather(name, source, deadline_s, hide)) for name, source in sources.items()]
    pieces = fitting([task.result() for task in tasks])
    incident = Incident(
        id=case.id,
        slug=case.slug,
        kind=case.kind,
        why=redact_text(hide(case.why)),
        at=case.at,
        generation=case.generation,
        seconds=time.monotonic() - started,
        evidence={piece.name: len(piece.data) for piece in pieces if piece.data is not None},
        missing={piece.name: piece.missing for piece in pieces if piece.data is None},
    )
    await asyncio.to_thread(write, shelf, case, incident, pieces)
    return incident


async def gather(name: str, source: Gather, deadline_s: float, hide: Callable[[str], str] = str) -> Piece:
    """One piece. A source that breaks must not cost the others, whatever it raises of the family."""
    try:
        async with asyncio.timeout(deadline_s):
            return await asyncio.to_thread(clean, name, await source(), hide)
    except TimeoutError:
        return Piece(name, None, f"not to be had within {deadline_s:.0f} s")
    except (AgentError, OSError, ValueError) as error:
        return Piece(name, None, redact_text(hide(str(error) or type(error).__name__)))


def fitting(pieces: list[Piece]) -> list[Piece]:
    """All of them as far as one incident may hold; the smaller ones first, since the largest is the most repetitive."""
    room, kept = LARGEST_INCIDENT, set()
    for piece in sorted(pieces, key=lambda one: len(one.data or b"")):
        if piece.data is not None and len(piece.data) <= room:
            kept.add(piece.name)
            room -= len(piece.data)
    left_out = f"left out: with its {{}} bytes the incident would be larger than {LARGEST_INCIDENT}"
    return [
        one if one.data is None or one.name in kept else Piece(one.name, None, left_out.format(len(one.data)))
        for one in pieces
    ]


def clean(name: str, raw: str | bytes, hide: Callable[[str], str] = str) -> Piece:
    """Without secrets, and no larger than a piece may be: the end is kept, since that is where things broke."""
    text = raw if isinstance(raw, str) else raw.decode("utf-8", "replace")
    if name.endswith(".json"):
        data = json.dumps(redact(hidden(json.loads(text), hide)), indent=1).encode()
        too_large = f"its {len(data)} bytes are more than a piece may have, and half of it would be no JSON"
        return Piece(name, data) if len(data) <= LARGEST_PIECE else Piece(name, None, too_large)
    if name.endswith(".jsonl"):  # value by value, so that every line stays JSON
        lines = [json.dumps(redact(hidden(json.loads(line), hide))) for line in text.splitlines() if line.strip()]
        return Piece(name, "\n".join(newest(lines)).encode())
    return Piece(name, redact_text(hide(text[-LARGEST_PIECE:])).encode()[-LARGEST_PIECE:])


def hidden(value: Any, hide: Callable[[str], str]) -> Any:
    """JSON with every text in it through `hide`: cut out of the document as a whole, a secret would break its form."""
    if isinstance(value, str):
        return hide(value)
    if isinstance(value, Mapping):
        return {key: hidden(item, hide) for key, item in value.items()}
    return [hidden(item, hide) for item in value] if isinstance(value, list) else value


def newest(lines: list[str]) -> list[str]:
    """The first line, which is a recording's head, and of the others as many of the last as fit."""
    if not lines:
        return []
    room, kept = LARGEST_PIECE - len(lines[0].encode()), list[str]()
    for line in reversed(lines[1:]):
        room -= len(line.encode()) + 1
        if room < 0:
            break
        kept.append(line)
    return [lines[0], *reversed(kept)]


def write(shelf: Path, case: Case, incident: Incident, pieces: list[Piece]) -> None:
    """The folder under a name of its own, then renamed: an incident is there whole or not at all."""
    partial, final = shelf / f".{case.id}.partial", shelf / case.id
    shelf.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(mode=0o750)
    for piece in pieces:
        if piece.data is not None:
            (partial / piece.name).write_bytes(piece.data)
    summary = {**incident.to_json(), "verdict": redact(dict(case.verdict)), "plan_id": case.plan_id}
    (partial / "incident.json").write_text(json.dumps(summary, indent=1))
    if final.exists():
        shutil.rmtree(final)
    partial.rename(final)
