"""A source in one state, as a git tree that is read object by object.

No checkout is ever made: no filter, attribute, hook or line ending of the repository has any say, a file is the bytes
that its commit names, and a link is nothing that could be followed.
"""

from __future__ import annotations

import re
import shutil
import tempfile
import weakref
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path

from agent.adapters.git_process import batch, git
from agent.image.port import Entry, Mode, Patch
from agent.image.trouble import PatchFailed, SourceRefused

_HUNK = re.compile(rb"^@@ -(\d+)(?:,\d+)? \+\d+(?:,\d+)? @@.*$", re.MULTILINE)
_FAILED = re.compile(r"error: patch failed: (.+):(\d+)")


class GitTree:
    """Made by `at`. A patched one has its new objects in a folder beside, which goes when the last tree of it does."""

    def __init__(self, repository: Path, commit: str, tree: str, origin: str, below: GitTree | None = None) -> None:
        self.repository = repository
        self.commit = commit
        self.tree = tree
        self.origin = origin
        self.time = 0
        self.entries: Mapping[str, Entry] = {}
        self._below = below
        self._objects = str(repository / "objects")
        if below is not None:
            self.time = below.time
            self._objects = tempfile.mkdtemp(prefix="recipe-agent-patched-")
            weakref.finalize(self, shutil.rmtree, self._objects, ignore_errors=True)

    @classmethod
    async def at(cls, repository: Path, commit: str, origin: str, ref: str | None = None) -> GitTree:
        """The tree of a commit that is there; under `ref` where `commit` is a word of somebody else's."""
        done = await git(repository, "show", "--no-patch", "--format=%T %ct", ref or commit)
        tree, _, time = done.out.decode().strip().rpartition("\n")[2].partition(" ")
        if not done.ok or not time.isdigit():
            raise SourceRefused(source=origin, why=f"its commit cannot be read: {done.words}")
        made = cls(repository, commit, tree, origin)
        made.time = int(time)
        await made._list()
        return made

    @property
    def variables(self) -> dict[str, str]:
        """What git needs to see the objects of all patches."""
        if self._below is None:
            return {}
        below: GitTree | None = self._below
        others: list[str] = []
        while below is not None:
            others.append(below._objects)
            below = below._below
        return {"GIT_OBJECT_DIRECTORY": self._objects, "GIT_ALTERNATE_OBJECT_DIRECTORIES": ":".join(others)}

    async def _list(self) -> None:
        done = await git(self.repository, "ls-tree", "-r", "-z", "--full-tree", self.tree, more=self.variables)
        if not done.ok:
            raise SourceRefused(source=self.origin, why=f"its tree cannot be read: {done.words}")
        self.entries = dict(_entry(line, self.origin) for line in done.out.split(b"\0") if line)

    async def read(self, path: str) -> bytes:
        blob = self.entries[path].blob
        done = await git(self.repository, "cat-file", "blob", blob, more=self.variables)
        if not done.ok:
            raise SourceRefused(source=self.origin, why=f"{path} cannot be read: {done.words}")
        return done.out

    async def contents(self, paths: Sequence[str]) -> AsyncIterator[tuple[str, bytes]]:
        blobs = batch(self.repository, [self.entries[path].blob for path in paths], self.variables)
        async with aclosing(blobs) as found:
            for path in paths:
                content = await anext(found, None)
                if content is None:
                    raise SourceRefused(source=self.origin, why=f"{path} cannot be read from {self.repository}")
                yield path, content

    async def patched(self, patches: Sequence[Patch]) -> GitTree:
        """Applied to an index, never to files; the new objects live in a folder that goes with the tree."""
        made = GitTree(self.repository, self.commit, self.tree, self.origin, below=self)
        more = {**made.variables, "GIT_INDEX_FILE": f"{made._objects}/index"}
        filled = await git(self.repository, "read-tree", self.tree, more=more)
        if not filled.ok:
            raise SourceRefused(source=self.origin, why=f"its tree cannot be read: {filled.words}")
        for patch in patches:
            for words in (("--check",), ("--whitespace=nowarn",)):
                done = await git(self.repository, "apply", "--cached", *words, "-", stdin=patch.content, more=more)
                if not done.ok:
                    raise _failure(patch, self, done.words)
        written = await git(self.repository, "write-tree", more=more)
        if not written.ok:
            raise SourceRefused(source=self.origin, why=f"it cannot be patched: {written.words}")
        made.tree = written.out.decode().strip()
        await made._list()
        return made


def _entry(line: bytes, origin: str) -> tuple[str, Entry]:
    """`MODE TYPE HASH TAB PATH`."""
    head, _, name = line.partition(b"\t")
    mode, _, blob = head.decode().split(" ")
    try:
        return name.decode(), Entry(Mode(mode if mode != "100664" else Mode.FILE), blob)
    except ValueError as error:  # a name that is no text, or a mode that git no longer writes
        raise SourceRefused(source=origin, why=f"{name!r} has a name or mode ({mode}) that cannot be copied") from error


def _failure(patch: Patch, tree: GitTree, words: str) -> PatchFailed:
    """Which file and hunk, at which commit."""
    lines = [line.removeprefix("error: ") for line in words.splitlines() if line.startswith("error: ")]
    found = _FAILED.search(words)
    hunk = _hunk(patch.content, found[1], found[2]) if found else ""
    why = f"{found[1]} does not fit at line {found[2]} ({hunk})" if found else "; ".join(lines) or words
    return PatchFailed(
        patch=patch.path,
        source=patch.source,
        onto=tree.origin,
        why=why,
        file=found[1] if found else None,
        hunk=hunk or None,
        output=words.splitlines()[-40:],
    )


def _hunk(content: bytes, path: str, line: str) -> str:
    """The header of the hunk that begins at that line of that file."""
    part = content[max(content.find(b"+++ b/" + path.encode()), 0) :]
    for hunk in _HUNK.finditer(part):
        if hunk[1].decode() == line:
            return hunk[0].decode(errors="replace").strip()
    return f"line {line}"
