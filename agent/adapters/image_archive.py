"""Archives by their SHA-256: downloaded once, verified, unpacked into objects of git, never into files.

From there on an archive is a source like any other: listed, read, patched and copied by the same code, and a path or a
link in it has no file system to leave.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from agent.adapters.git_process import git
from agent.adapters.git_sources import GitSources, MirrorFailed, held, kept_ref, ready
from agent.adapters.git_tree import GitTree
from agent.image.buildplan import SourceSpec
from agent.image.port import Mode, Say
from agent.image.trouble import SourceMismatch, SourceRefused, SourceUnreachable
from agent.quantity import Bytes

if TYPE_CHECKING:
    import aiohttp

LARGEST = Bytes.gib(2)
"""Unpacked. Wheels of engines have a few hundred MB."""
CHUNK = 1 << 20
WHEN = 946_684_800
"""2000-01-01. A zip, which a wheel is, holds no time before 1980."""
WHOLE = (".whl",)
"""Used as they are, not unpacked."""


@dataclass(frozen=True, slots=True)
class Member:
    """One file or link of an archive."""

    path: str
    mode: Mode
    content: bytes


class AllSources:
    """Git sources and archives behind one port. `folder` is the site's cache."""

    def __init__(self, folder: Path, silence_s: float = 60.0) -> None:
        self._git = GitSources(folder / "git", silence_s)
        self._folder = folder
        self._silence_s = silence_s

    async def fetch(self, spec: SourceSpec, say: Say) -> GitTree:
        if spec.archive is None:
            return await self._git.fetch(spec, say)
        return await self._archive(spec, say)

    async def contains(self, spec: SourceSpec, commit: str, earlier: str, say: Say) -> bool:
        if spec.archive is not None:
            raise SourceRefused(source=spec.said, why="an archive has no history that a commit could be looked for in")
        return await self._git.contains(spec, commit, earlier, say)

    async def _archive(self, spec: SourceSpec, say: Say) -> GitTree:
        home, digest = self._folder / "git" / "archives.git", spec.sha256 or ""
        # the same bytes may be asked for as they are and unpacked
        ref = kept_ref(f"{digest}-whole" if (spec.archive or "").endswith(WHOLE) else digest)
        async with held(home.with_suffix(".lock")):
            await ready(home)
            known = await git(home, "rev-parse", "--verify", "--quiet", ref)
            if not known.ok:
                path = await self._downloaded(spec, digest, say)
                await self._take_in(spec, home, path, ref)
                await asyncio.to_thread(path.unlink)
        return await GitTree.at(home, digest, spec.said, ref)

    async def _downloaded(self, spec: SourceSpec, digest: str, say: Say) -> Path:
        """The file, whole and verified. Raises SourceUnreachable, SourceMismatch."""
        folder = self._folder / "archives"
        try:
            await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
        except OSError as error:
            raise MirrorFailed(folder=folder, why=error.strerror or error) from error
        path = folder / digest
        found = await self._get(spec, path, say)
        if found != digest:
            await asyncio.to_thread(path.unlink)
            raise SourceMismatch(source=spec.said, why=f"its SHA-256 is {found}, the plan says {digest}")
        return path

    async def _get(self, spec: SourceSpec, path: Path, say: Say) -> str:
        import aiohttp

        url = spec.archive or ""
        if urlsplit(url).scheme not in ("http", "https"):
            raise SourceRefused(source=spec.said, why=f"{url!r} is no http or https address")
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=self._silence_s, sock_read=self._silence_s)
        try:
            async with aiohttp.ClientSession(timeout=timeout, trust_env=True) as session, session.get(url) as answer:
                if answer.status != 200:
                    kind = SourceUnreachable if answer.status >= 500 or answer.status == 429 else SourceRefused
                    raise kind(source=spec.said, why=f"its server answers {answer.status} {answer.reason}", url=url)
                return await self._save(spec, answer, path, say)
        except TimeoutError as error:
            why = f"nothing came for {self._silence_s:g} s"
            raise SourceUnreachable(source=spec.said, why=why, url=url) from error
        except (aiohttp.ClientError, OSError) as error:
            raise SourceUnreachable(source=spec.said, why=str(error) or type(error).__name__, url=url) from error

    async def _save(self, spec: SourceSpec, answer: aiohttp.ClientResponse, path: Path, say: Say) -> str:
        """The SHA-256 of what came."""
        digest, done, total = hashlib.sha256(), 0, answer.content_length
        with await asyncio.to_thread(path.open, "wb") as file:
            async for part in answer.content.iter_chunked(CHUNK):
                await asyncio.to_thread(_written, file, part)
                digest.update(part)
                done += len(part)
                of = f" of {Bytes(total)}" if total else ""
                ratio, stage = done / total if total else None, f"fetching {spec.name}"
                say({"text": f"{stage}: {Bytes(done)}{of}", "ratio": ratio, "stage": stage})
        return digest.hexdigest()

    async def _take_in(self, spec: SourceSpec, home: Path, path: Path, ref: str) -> None:
        """As one commit, by git's own importer."""
        name = unquote(urlsplit(spec.archive or "").path).rpartition("/")[2]
        try:
            stream = await asyncio.to_thread(lambda: b"".join(imported(members_of(path, name), ref)))
        except (tarfile.TarError, zipfile.BadZipFile, EOFError, ValueError, OSError, NotImplementedError) as error:
            raise SourceRefused(source=spec.said, why=f"it cannot be unpacked: {error}") from error
        done = await git(home, "fast-import", "--quiet", "--done", stdin=stream)
        if not done.ok:
            raise SourceRefused(source=spec.said, why=f"it cannot be unpacked: {done.words}")


def _written(file: IO[bytes], part: bytes) -> None:
    """A disk that is full is no fault of the server's."""
    try:
        file.write(part)
    except OSError as error:
        raise MirrorFailed(folder=Path(file.name).parent, why=error.strerror or error) from error


def members_of(path: Path, name: str) -> list[Member]:
    """What an archive holds, below its one top folder where it has one. Raises ValueError and the archives' errors."""
    if name.endswith(WHOLE):
        return [Member(checked(name), Mode.FILE, path.read_bytes())]
    read = from_zip if zipfile.is_zipfile(path) else from_tar
    members = list(bounded(read(path)))
    tops = {member.path.partition("/")[0] for member in members}
    if len(tops) == 1 and all("/" in member.path for member in members):
        return [Member(member.path.partition("/")[2], member.mode, member.content) for member in members]
    return members


def from_tar(path: Path) -> Iterator[Member]:
    """Files and symbolic links; a hard link is the file that it names."""
    with tarfile.open(path) as archive:
        for info in archive:
            if info.issym():
                yield Member(checked(info.name), Mode.LINK, info.linkname.encode())
            elif info.isreg() or info.islnk():
                file = archive.extractfile(info)
                mode = Mode.EXECUTABLE if info.mode & 0o100 else Mode.FILE
                yield Member(checked(info.name), mode, file.read() if file is not None else b"")
            elif not info.isdir():
                raise ValueError(f"{info.name} is neither a file, a folder nor a link")


def from_zip(path: Path) -> Iterator[Member]:
    """As `from_tar`; the unix mode stands in the upper half of the attributes."""
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            if info.is_dir():
                continue
            kind = info.external_attr >> 16
            mode = Mode.LINK if kind & 0o170000 == 0o120000 else Mode.EXECUTABLE if kind & 0o100 else Mode.FILE
            yield Member(checked(info.filename), mode, archive.read(info))


def bounded(members: Iterator[Member]) -> Iterator[Member]:
    """Raises ValueError beyond what anybody ships."""
    total = 0
    for member in members:
        total += len(member.content)
        if total > LARGEST:
            raise ValueError(f"it has more than {LARGEST} unpacked")
        yield member


def checked(path: str) -> str:
    """A path below the archive's own root. Raises ValueError."""
    clean = path.removeprefix("./")
    parts = clean.split("/")
    if not clean or clean.startswith("/") or "\\" in clean or any(part in ("", ".", "..", ".git") for part in parts):
        raise ValueError(f"{path!r} would leave its place")
    return clean


def imported(members: list[Member], ref: str) -> Iterator[bytes]:
    """A stream for `git fast-import`: one commit with these files."""
    yield f"commit {ref}\ncommitter recipe-agent <> {WHEN} +0000\ndata 0\n".encode()
    for member in members:
        yield f"M {member.mode.value} inline {_quoted(member.path)}\ndata {len(member.content)}\n".encode()
        yield member.content + b"\n"
    yield b"done\n"


def _quoted(path: str) -> str:
    """In C's way, which takes every name."""
    escaped = re.sub(r'(["\\])', r"\\\1", path).replace("\n", "\\n")
    return f'"{escaped}"'
