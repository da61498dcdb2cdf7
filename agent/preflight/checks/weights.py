"""Are the weights there, whole, and readable by the engine? Headers are read, never the data.

A download that broke off leaves `*.incomplete` and a folder that looks finished (tt-inference-server#4986).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from agent.host.reading import Known, Unknown
from agent.preflight import download, exl3, gguf, shards
from agent.preflight.case import Case
from agent.preflight.check import Answer, Check, bad, good, unknown
from agent.preflight.facts import PathFact, PathKind
from agent.preflight.mounts import astray, binds_of, on_host
from agent.quantity import Bytes

ID = "weights"
AGAIN = "fetch the folder again: hf download goes on where it stopped, and checks sizes"
NAMED = 5
HUB_CACHE = ".cache/huggingface/download"
DATA = (".safetensors", ".gguf", ".bin", ".pt", ".pth")


async def look(case: Case) -> Answer:
    path = place(case) or ""
    fact = await case.facts.path(path)
    if isinstance(fact, Unknown):
        return unknown(f"{path}: {fact.reason}")
    if fact.value.kind is PathKind.NOTHING:
        hint = download.advice(case.plan, path) or f"put the model at {path}, or correct the variable that names it"
        return bad(f"{path} does not exist", need="the model's files", hint=hint)
    files = await case.facts.folder(path) if fact.value.kind is PathKind.FOLDER else await alone(case, fact.value)
    if isinstance(files, Unknown):
        return unknown(f"{path}: {files.reason}")
    return await judge(case, path, files.value)


async def judge(case: Case, path: str, files: Sequence[PathFact]) -> Answer:
    wanted = [one for one in files if one.path.endswith(DATA)]
    troubles = [*await unfinished(case, path, files), *await lacking(case, path, files)]
    answers = await asyncio.gather(*(whole(case, one) for one in wanted))
    troubles += [answer for answer in answers if isinstance(answer, str)]
    pack, odd = await packed(case, path, files)
    troubles += odd
    unread = [answer.reason for answer in answers if isinstance(answer, Unknown)]
    troubles += await unseen(case, path, wanted)
    if not wanted and not troubles:
        troubles = [f"{path} holds no weights ({', '.join(DATA)})"]
    details: dict[str, Any] = {"path": path, "files": len(wanted), "bytes": Bytes(sum(one.size for one in wanted))}
    details |= {"pack": pack} if pack else {}
    if troubles:
        hint = download.advice(case.plan, path) or AGAIN
        return bad(brief(troubles), need="every file whole", hint=hint, details=details | {"troubles": troubles})
    if unread:
        return unknown(brief(unread), need="every file whole", details=details)
    return good(f"{len(wanted)} whole files, {details['bytes']}, in {path}", details=details)


def brief(troubles: Sequence[str]) -> str:
    more = f"; and {len(troubles) - NAMED} more" if len(troubles) > NAMED else ""
    return "; ".join(troubles[:NAMED]) + more


async def alone(case: Case, file: PathFact) -> Known[tuple[PathFact, ...]] | Unknown:
    """A model that is one file, with the other parts where it is split."""
    folder = await case.facts.folder(parent(file.path))
    if isinstance(folder, Unknown):
        return folder
    names = {name_of(one): one for one in folder.value}
    parts = [name for name in names if shards.same_split(name_of(file), name)]
    return Known(tuple(names[name] for name in sorted({*parts, name_of(file)} & set(names))), folder.at)


async def unfinished(case: Case, path: str, files: Sequence[PathFact]) -> list[str]:
    """What a download left half done, beside the files or in the Hub's folder for it."""
    cache = await case.facts.folder(f"{path}/{HUB_CACHE}")
    beside = [*files, *(cache.value if isinstance(cache, Known) else ())]
    return [f"{name_of(one)} is an unfinished download" for one in beside if one.path.endswith(".incomplete")]


async def lacking(case: Case, path: str, files: Sequence[PathFact]) -> list[str]:
    """Files that the index or the split names promise."""
    names = {name_of(one) for one in files}
    absent = set(shards.missing_parts(names))
    if shards.INDEX in names:
        index = await case.facts.start_of(f"{path}/{shards.INDEX}", shards.MOST_HEADER)
        try:
            absent |= shards.shards_in(index.value) - names if isinstance(index, Known) else set()
        except shards.BadShard as error:
            return [f"{shards.INDEX} {error}"]
    return [f"{name} is missing" for name in sorted(absent)]


async def packed(case: Case, path: str, files: Sequence[PathFact]) -> tuple[str, list[str]]:
    """Which pack config.json says this is (`exl3, 2 bits`), and what of it is not so."""
    names = {name_of(one) for one in files}
    tensors = [one for one in files if one.path.endswith(".safetensors")]
    if exl3.CONFIG not in names:
        return "", []
    config = await case.facts.start_of(f"{path}/{exl3.CONFIG}", exl3.MOST_CONFIG)
    stated = exl3.stated(config.value) if isinstance(config, Known) else None
    if stated is None or stated.method != exl3.METHOD:
        return str(stated or ""), []
    for file in tensors:
        header = await header_of(case, file)
        if not isinstance(header, bytes) or exl3.has_packed(header):
            return str(stated), []
    return str(stated), [f"{exl3.CONFIG} says {stated}, and no file holds a tensor of that form"] if tensors else []


async def header_of(case: Case, file: PathFact) -> bytes | str | Unknown:
    """A safetensors file's JSON header; what is wrong with it, or why it cannot be read."""
    try:
        start = await case.facts.start_of(file.path, shards.LENGTH_BYTES)
        if isinstance(start, Unknown):
            return start
        header = await case.facts.start_of(file.path, shards.header_length(start.value), shards.LENGTH_BYTES)
    except shards.BadShard as error:
        return f"{name_of(file)} {error}"
    return header if isinstance(header, Unknown) else header.value


async def whole(case: Case, file: PathFact) -> str | Unknown | None:
    """What is wrong with a file by its header and size; None when nothing is, or when its form tells nothing."""
    if not file.size:
        return f"{name_of(file)} is empty"
    if file.path.endswith(".gguf"):
        return await whole_gguf(case, file)
    return await whole_safetensors(case, file) if file.path.endswith(".safetensors") else None


async def whole_gguf(case: Case, file: PathFact) -> str | Unknown | None:
    """Read in growing pieces: a header holds the vocabulary, which nobody knows the length of before."""
    length = gguf.FIRST_READ
    while True:
        start = await case.facts.start_of(file.path, length)
        if isinstance(start, Unknown):
            return start
        try:
            size = await asyncio.to_thread(gguf.size_of, start.value)
        except shards.BadShard as error:
            return f"{name_of(file)} {error}"
        except gguf.Short:
            if len(start.value) < length:
                return f"{name_of(file)} ends within its header"
            if length >= gguf.MOST_HEADER:
                return Unknown(f"{name_of(file)} has a header of more than {Bytes(gguf.MOST_HEADER)}")
            length *= 8
            continue
        if file.size < size.least:
            return f"{name_of(file)} has {file.size:d} bytes of {'' if size.exact else 'at least '}{size.least}"
        return None


async def whole_safetensors(case: Case, file: PathFact) -> str | Unknown | None:
    header = await header_of(case, file)
    if not isinstance(header, bytes):
        return header
    start = await case.facts.start_of(file.path, shards.LENGTH_BYTES)
    if isinstance(start, Unknown):
        return start
    try:
        size = shards.full_size(header, shards.header_length(start.value))
    except shards.BadShard as error:
        return f"{name_of(file)} {error}"
    return None if file.size == size else f"{name_of(file)} has {file.size:d} bytes of {size}"


async def unseen(case: Case, path: str, files: Sequence[PathFact]) -> list[str]:
    """Links that lead where the container does not see, and files that its user may not read."""
    binds = binds_of(case.plan)
    folder = await case.facts.path(path)
    sources = [await case.facts.path(bind.source) for bind in binds]
    reals = {one.value.path: one.value.real for one in sources if isinstance(one, Known)}
    links = [folder.value, *files] if isinstance(folder, Known) else list(files)
    strays = [f"{one.path} is a link to {one.link}, which the container does not see" for one in links]
    return [
        *(said for one, said in zip(links, strays, strict=True) if case.in_container and astray(one, binds, reals)),
        *(said for one in files if (said := forbidden(case, one))),
    ]


def forbidden(case: Case, file: PathFact) -> str | None:
    user = str(case.body.get("User") or "").partition(":")[0]
    if user.isdecimal() and int(user) not in (0, file.uid) and not file.mode & 0o044:
        return f"{name_of(file)} may not be read by the container's user {user} (mode {file.mode:o})"
    return None


def place(case: Case) -> str | None:
    """Where the model lies on the host; None for a name on a hub, or a path within the image."""
    path = case.plan.engine.model if case.plan.engine else None
    if path is None or not path.startswith("/"):
        return None
    return on_host(path, binds_of(case.plan)) if case.in_container else path


def name_of(file: PathFact) -> str:
    return file.path.rpartition("/")[2]


def parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"


CHECK = Check(ID, "the weights are there and whole", look, lambda c: place(c) is not None, True, deadline_s=30.0)
