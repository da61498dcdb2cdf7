"""Build contexts as tar files: the same sources and steps give the same bytes, on any host and at any time."""

from __future__ import annotations

import asyncio
import hashlib
import io
import tarfile
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO

from agent.image.dockerfile import Content, Dockerfile
from agent.image.place import Placed, check_link, placed
from agent.image.port import Context, Mode, Tree
from agent.image.trouble import ImageError, SourceRefused

LFS = b"version https://git-lfs.github.com/spec/"
WHEN = 946_684_800
"""For files that are of no source."""


class CannotWrite(ImageError):
    """A context or an image cannot be written."""

    code = "image.cannot_write"
    message = "cannot write below {folder}: {why}"
    hint = "free room there; paths.cache in agent.yaml says where build contexts are written"


class TarContexts:
    """Contexts on the disk of `folder`, each gone after its build."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @asynccontextmanager
    async def assembled(self, dockerfile: Dockerfile, trees: Mapping[tuple[str, int], Tree]) -> AsyncIterator[Context]:
        try:
            file = await asyncio.to_thread(self._nameless)
        except OSError as error:
            raise CannotWrite(folder=self._folder, why=error.strerror or error) from error
        with file:
            yield await self._write(file, dockerfile, trees)

    def _nameless(self) -> IO[bytes]:
        """A file without a name: a killed agent leaves nothing behind."""
        self._folder.mkdir(parents=True, exist_ok=True)
        return tempfile.TemporaryFile(dir=self._folder)

    async def _write(self, file: IO[bytes], dockerfile: Dockerfile, trees: Mapping[tuple[str, int], Tree]) -> Context:
        try:
            with tarfile.open(fileobj=file, mode="w") as archive:
                writing = _Writing(archive)
                await writing.text("Dockerfile", dockerfile.text)
                for name, text in dockerfile.texts.items():
                    await writing.text(name, text)
                for content in dockerfile.contents:
                    await writing.content(content, trees[content.source, content.revision])
            file.seek(0)
        except OSError as error:
            raise CannotWrite(folder=self._folder, why=error.strerror or error) from error
        return Context(file, writing.files, tuple(writing.notes))


class _Writing:
    """One archive that grows."""

    def __init__(self, archive: tarfile.TarFile) -> None:
        self.files: dict[str, str] = {}
        self.notes: list[str] = []
        self._archive = archive
        self._folders: set[str] = set()

    async def text(self, path: str, text: str) -> None:
        await self._add(path, text.encode(), 0o644, WHEN)

    async def content(self, content: Content, tree: Tree) -> None:
        """A piece of a source."""
        entries = placed(content, tree)
        self._folder(content.into, tree.time)  # also where it is empty, since COPY names it
        for one in entries:
            if one.entry.mode is Mode.SUBMODULE:
                self.notes.append(f"{one.source_path} of {tree.origin} is a submodule: left empty, as by a plain clone")
                self._folder(one.path, tree.time)
        wanted = {one.source_path: one for one in entries if one.entry.mode is not Mode.SUBMODULE}
        async for path, data in tree.contents(list(wanted)):
            await self._entry(wanted[path], content, data, tree)

    async def _entry(self, one: Placed, content: Content, data: bytes, tree: Tree) -> None:
        if one.entry.mode is Mode.LINK:
            target = data.decode(errors="surrogateescape")
            check_link(one, content, target, tree)
            self._link(one.path, target, tree.time)
            return
        if data.startswith(LFS):
            why = f"{one.source_path} is kept in Git LFS, which is not fetched: a pointer would be copied in its place"
            raise SourceRefused(source=tree.origin, why=why)
        executable = content.executable or one.entry.mode is Mode.EXECUTABLE
        await self._add(one.path, data, 0o755 if executable else 0o644, tree.time)

    async def _add(self, path: str, data: bytes, mode: int, time: int) -> None:
        self._parents(path, time)
        self.files[path] = await asyncio.to_thread(self._write, _info(path, mode, time, len(data)), data)

    def _write(self, info: tarfile.TarInfo, data: bytes) -> str:
        self._archive.addfile(info, io.BytesIO(data))
        return hashlib.sha256(data).hexdigest()

    def _link(self, path: str, target: str, time: int) -> None:
        self._parents(path, time)
        info = _info(path, 0o777, time)
        info.type, info.linkname = tarfile.SYMTYPE, target
        self._archive.addfile(info)
        self.files[path] = f"link to {target}"

    def _parents(self, path: str, time: int) -> None:
        parent = path.rpartition("/")[0]
        if parent:
            self._folder(parent, time)

    def _folder(self, path: str, time: int) -> None:
        """Folders are written before what is in them, so that their modes are ours."""
        if path in self._folders:
            return
        self._parents(path, time)
        self._folders.add(path)
        info = _info(path, 0o755, time)
        info.type = tarfile.DIRTYPE
        self._archive.addfile(info)


def _info(path: str, mode: int, time: int, size: int = 0) -> tarfile.TarInfo:
    """Root's, whoever runs the agent."""
    info = tarfile.TarInfo(path)
    info.mode, info.mtime, info.size = mode, time, size
    return info
