"""Are the weights, bit by bit, what their source stated? Reads all of them: minutes, and asked for with `--hash` alone.

A shard of the right size and the wrong content loads without a word (vllm-project/vllm#53537).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from agent.host.reading import Known, Unknown
from agent.preflight import download, pins
from agent.preflight.case import Case
from agent.preflight.check import Answer, Check, bad, good, unknown
from agent.preflight.checks import weights
from agent.preflight.facts import PathFact, PathKind
from agent.preflight.pins import Pin
from agent.quantity import counted

ID = "weights.hash"
HOURS_S = 6 * 3600.0
MOST_TEXT = 1 << 20
AT_ONCE = 2
"""Files at a time: enough for a disk's queue, and no more cores than a serving host can spare."""
UNSTATED = (
    "nothing here states what they should be: `hf download` keeps it beside the files, or put a SHA256SUMS there "
    "(`sha256sum *.safetensors > SHA256SUMS` on the host that made them)"
)


async def look(case: Case) -> Answer:
    path = weights.place(case) or ""
    fact = await case.facts.path(path)
    if isinstance(fact, Unknown):
        return unknown(f"{path}: {fact.reason}")
    alone = fact.value.kind is not PathKind.FOLDER
    files = await weights.alone(case, fact.value) if alone else await case.facts.folder(path)
    if isinstance(files, Unknown):
        return unknown(f"{path}: {files.reason}")
    wanted = [one for one in files.value if one.path.endswith(weights.DATA)]
    stated = await pinned(case, weights.parent(path) if alone else path, wanted)
    if not stated:
        return unknown(f"{counted(len(wanted), 'file')} in {path}, and no hash of any", hint=UNSTATED)
    return await judge(case, path, wanted, stated)


async def judge(case: Case, path: str, files: Sequence[PathFact], stated: Mapping[str, Pin]) -> Answer:
    places = asyncio.Semaphore(AT_ONCE)

    async def hashed(file: PathFact) -> str | Unknown:
        async with places:
            reading = await case.facts.sha256(file.path)
            return reading.value if isinstance(reading, Known) else reading

    known = [file for file in files if file.path in stated]
    found = dict(zip((file.path for file in known), await asyncio.gather(*map(hashed, known)), strict=True))
    details: dict[str, Any] = {"path": path, "sha256": {one: str(value) for one, value in found.items()}}
    if unread := [value.reason for value in found.values() if isinstance(value, Unknown)]:
        return unknown(weights.brief(unread), details=details)
    differing = [one for one, value in found.items() if value != stated[one].sha256]
    wrong = [f"{one} is not what was stated ({stated[one].origin})" for one in differing]
    if wrong or (wrong := other_revision(case, stated)):
        hint = download.advice(case.plan, path) or weights.AGAIN
        return bad(weights.brief(wrong), need="the bytes of the pin", hint=hint, details=details)
    rest = len(files) - len(known)
    said = f"{counted(len(known), 'file is what its', 'files are what their')} source stated"
    said += f"; of {rest} nothing is stated" if rest else ""
    return good(said, details=details)


def other_revision(case: Case, stated: Mapping[str, Pin]) -> list[str]:
    """Whether they are of another commit than the one that the recipe pins."""
    need = case.need(download.ID)
    _, at, revision = str(need.need).partition("@") if need else ("", "", "")
    commits = sorted({one.commit for one in stated.values() if one.commit})
    others = [commit for commit in commits if at and not commit.startswith(revision)]
    return [f"they are of commit {commit}, where {revision} is pinned" for commit in others]


async def pinned(case: Case, folder: str, files: Sequence[PathFact]) -> dict[str, Pin]:
    """Path of each file that has one → its pin."""
    text = await read(case, f"{folder}/{pins.SUMS}")
    sums = pins.of_sums(text) if text else {}
    found = {}
    for file in files:
        name = weights.name_of(file)
        metadata = await read(case, f"{folder}/{weights.HUB_CACHE}/{name}.metadata")
        if one := sums.get(name) or (pins.of_metadata(metadata) if metadata else None) or pins.of_blob(file.real):
            found[file.path] = one
    return found


async def read(case: Case, path: str) -> str | None:
    start = await case.facts.start_of(path, MOST_TEXT)
    return start.value.decode(errors="replace") if isinstance(start, Known) else None


CHECK = Check(
    ID, "the weights are what was pinned", look, lambda c: weights.place(c) is not None, True, deadline_s=HOURS_S
)
