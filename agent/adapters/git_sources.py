"""Sources out of git and archives: fetched by commit into mirrors that all builds share, verified, kept.

Any number of processes may use the mirrors. A mirror has no remotes, no hooks and no working tree; what was fetched is
held by refs of our own (`refs/kept/COMMIT`), so a fetch that was cut leaves nothing that looks whole.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

from agent.adapters.git_process import Done, Silent, git
from agent.adapters.git_tree import GitTree
from agent.image.buildplan import SourceSpec
from agent.image.port import Say
from agent.image.trouble import ImageError, SourceMismatch, SourceRefused, SourceUnreachable

SCHEMES = ("https", "http", "ssh", "git", "file")
_SSH = re.compile(r"[A-Za-z0-9._-]+@[A-Za-z0-9.-]+:[^:].*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._/+-]*")
_FULL = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")

# What git says when a server has no such thing, and when it hands out only what it advertises.
ABSENT = ("not our ref", "couldn't find remote ref", "repository not found", "does not appear to be a git repository")
CLOSED = ("does not allow request for unadvertised object", "dumb http transport does not support", "not our ref")
FORBIDDEN = ("authentication failed", "permission denied", "could not read username", "transport '", "access denied")
CORRUPT = (
    "corrupt",
    "bad hash",
    "fsck error",
    "hash mismatch",
    "bad object",
    "did not send all necessary objects",
    "bad tree",
)


class MirrorFailed(ImageError):
    """The cache cannot be used."""

    code = "image.cache"
    message = "cannot keep sources in {folder}: {why}"
    hint = "create it for the agent's user with room to write, or set paths.cache in agent.yaml"


class GitSources:
    """Mirrors below `folder`. `silence_s`: a server from which nothing comes for so long is given up."""

    def __init__(self, folder: Path, silence_s: float = 60.0) -> None:
        self._folder = folder
        self._silence_s = silence_s

    async def fetch(self, spec: SourceSpec, say: Say) -> GitTree:
        """The tree of a git source at its commit, or at its tag as it was when it was first seen."""
        url = checked_url(spec)
        mirror = self._mirror(url)
        async with held(mirror.with_suffix(".lock")):
            commit = await self._commit(spec, mirror, say)
            home = await self._bring(spec, mirror, commit, say)
        return await GitTree.at(home, commit, f"{spec.name} ({url} at {commit[:12]})")

    async def contains(self, spec: SourceSpec, commit: str, earlier: str, say: Say) -> bool:
        """Whether `earlier` is `commit` or one of its ancestors; needs the history, which is kept apart."""
        mirror = self._mirror(checked_url(spec))
        async with held(mirror.with_suffix(".lock")):
            history = await self._history(spec, mirror, commit, say)
            first = await self._expanded(spec, history, earlier)
            done = await self._run(spec, history, "merge-base", "--is-ancestor", first, commit)
        if done.code not in (0, 1):
            raise SourceRefused(source=spec.said, why=f"its history does not tell whether {earlier} is in it")
        return done.ok

    def _mirror(self, url: str) -> Path:
        """Where the bare repository for this address is."""
        name = re.sub(r"[^A-Za-z0-9.-]+", "-", url.rstrip("/").rpartition("/")[2]).strip("-.")[:40] or "source"
        return self._folder / f"{name}-{hashlib.sha256(url.encode()).hexdigest()[:12]}.git"

    async def _commit(self, spec: SourceSpec, mirror: Path, say: Say) -> str:
        """The whole hash of the commit that is meant."""
        await ready(mirror)
        if spec.commit is not None:
            if _FULL.fullmatch(spec.commit):
                return spec.commit
            return await self._expanded(spec, await self._history(spec, mirror, None, say), spec.commit)
        tag = spec.tag or ""
        if not _TAG.fullmatch(tag) or ".." in tag:
            raise SourceRefused(source=spec.said, why=f"{tag!r} is no name of a tag")
        # A tag means for ever what it meant when it was first seen here: one that moves is not followed in silence.
        known = await git(mirror, "rev-parse", "--verify", "--quiet", f"refs/tags-seen/{tag}^{{commit}}")
        return known.out.decode().strip() if known.ok else await self._asked(spec, mirror, tag, say)

    async def _asked(self, spec: SourceSpec, mirror: Path, tag: str, say: Say) -> str:
        """The server's word on a tag; of an annotated one, the commit that it names."""
        say({"text": f"asking {spec.url} for its tag {tag}", "ratio": None})
        done = await self._run(spec, mirror, "ls-remote", "--", spec.url, f"refs/tags/{tag}", f"refs/tags/{tag}^{{}}")
        if not done.ok:
            raise self._trouble(spec, done)
        refs = {name: commit for commit, _, name in (line.partition("\t") for line in done.out.decode().splitlines())}
        found = refs.get(f"refs/tags/{tag}^{{}}") or refs.get(f"refs/tags/{tag}")
        if found is None:
            raise SourceRefused(source=spec.said, why=f"it has no tag {tag} (a branch moves, and is not taken for one)")
        await self._bring(spec, mirror, found, say)
        await git(mirror, "update-ref", f"refs/tags-seen/{tag}", found)
        return found

    async def _bring(self, spec: SourceSpec, mirror: Path, commit: str, say: Say) -> Path:
        """The repository that has the commit: the shallow mirror, or the history where the server gives only that."""
        for home in (mirror, history_of(mirror)):
            if await asyncio.to_thread(home.is_dir) and await kept(home, commit):
                return home
        say({"text": f"fetching {spec.name} at {commit[:12]} from {spec.url}", "ratio": None})
        words = ("--depth=1", "--", spec.url, f"{commit}:{kept_ref(commit)}")
        done = await self._fetched(spec, mirror, *words)
        if done.ok and await kept(mirror, commit):
            return mirror
        if done.ok:
            raise SourceMismatch(source=spec.said, why=f"its server sent something else than {commit[:12]}")
        if not any(words in done.words.lower() for words in CLOSED):
            raise self._trouble(spec, done)
        return await self._history(spec, mirror, commit, say)

    async def _history(self, spec: SourceSpec, mirror: Path, commit: str | None, say: Say) -> Path:
        """All branches and tags, in a repository beside the mirror. With `commit`, it has that one."""
        home = history_of(mirror)
        await ready(home)
        if commit is not None and await kept(home, commit):
            return home
        say({"text": f"fetching the history of {spec.name} from {spec.url}", "ratio": None})
        refs = ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
        done = await self._fetched(spec, home, "--", spec.url, *refs)
        if not done.ok:
            raise self._trouble(spec, done)
        if commit is not None:
            there = await git(home, "cat-file", "-e", f"{commit}^{{commit}}")
            if not there.ok:
                raise SourceRefused(source=spec.said, why=f"no branch or tag of it has the commit {commit[:12]}")
            await git(home, "update-ref", kept_ref(commit), commit)
        return home

    async def _expanded(self, spec: SourceSpec, history: Path, short: str) -> str:
        """The one commit that an abbreviated hash means."""
        done = await git(history, "rev-parse", "--verify", "--quiet", f"{short}^{{commit}}")
        found = done.out.decode().strip()
        if not done.ok or not found.startswith(short):
            raise SourceRefused(
                source=spec.said, why=f"{short} is no commit of it, or of several", advice="write it whole"
            )
        return found

    async def _fetched(self, spec: SourceSpec, home: Path, *words: str) -> Done:
        options = ("--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", "--no-auto-maintenance")
        return await self._run(spec, home, "fetch", *options, "--progress", *words)

    async def _run(self, spec: SourceSpec, home: Path, *words: str) -> Done:
        try:
            return await git(home, *words, silence_s=self._silence_s)
        except Silent as error:
            why = f"nothing came for {self._silence_s:g} s"
            raise SourceUnreachable(source=spec.said, why=why, url=spec.url) from error

    def _trouble(self, spec: SourceSpec, done: Done) -> ImageError:
        """What git said, as one of ours."""
        why, low = _last(done.words), done.words.lower()
        if any(words in low for words in CORRUPT):
            return SourceMismatch(
                source=spec.said, why=f"what its server sent is not whole or not what was asked: {why}"
            )
        if any(words in low for words in ABSENT):
            return SourceRefused(source=spec.said, why=f"its server does not have that: {why}")
        if any(words in low for words in FORBIDDEN):
            hint = "the agent's user needs access: an ssh key for ssh addresses; https is asked without a login"
            return SourceRefused(source=spec.said, why=why, advice=hint)
        return SourceUnreachable(source=spec.said, why=why, url=spec.url)


def checked_url(spec: SourceSpec) -> str:
    """The address, where it is one that git may be given. Raises SourceRefused."""
    url = spec.git or ""
    scheme = urlsplit(url).scheme if "://" in url else ""
    if scheme in ("http", "https") and "@" in urlsplit(url).netloc:
        why = "its address holds a login, which would end up in logs and locks"
        raise SourceRefused(source=spec.name, why=why, advice="use ssh with the agent's own key, or a public address")
    if url != url.strip() or not url.isprintable() or not (scheme in SCHEMES or (not scheme and _SSH.fullmatch(url))):
        why = f"{url!r} is no address of a repository"
        raise SourceRefused(source=spec.name, why=why, advice=f"{', '.join(SCHEMES)} and user@host:path are taken")
    return url


def history_of(mirror: Path) -> Path:
    """The mirror's neighbour that has whole histories."""
    return mirror.with_name(f"{mirror.stem}.history.git")


async def ready(home: Path) -> None:
    """A bare repository with nothing in it, there whole or not at all: no template, so no hooks."""
    if await asyncio.to_thread(home.is_dir):
        return
    draft = home.with_suffix(".draft")
    await asyncio.to_thread(fresh, draft)
    done = await git(draft, "init", "--quiet", "--bare", "--template=", str(draft))
    if not done.ok:
        raise MirrorFailed(folder=home, why=done.words)
    await asyncio.to_thread(draft.rename, home)


def fresh(folder: Path) -> None:
    """An empty folder. Raises MirrorFailed."""
    try:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    except OSError as error:
        raise MirrorFailed(folder=folder, why=error.strerror or error) from error


def kept_ref(name: str) -> str:
    """The ref that holds a commit, or what an archive of this hash became."""
    return f"refs/kept/{name}"


async def kept(home: Path, commit: str) -> bool:
    """Whether the commit is here whole: its ref is written after its objects, which git verifies by their hashes."""
    done = await git(home, "rev-parse", "--verify", "--quiet", f"{kept_ref(commit)}^{{commit}}")
    return done.ok and done.out.decode().strip() == commit


@asynccontextmanager
async def held(path: Path) -> AsyncIterator[None]:
    """A lock between processes, gone with the process that holds it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
    except OSError as error:
        raise MirrorFailed(folder=path.parent, why=error.strerror or error) from error
    try:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                await asyncio.sleep(0.1)
        yield
    finally:
        os.close(handle)


def _last(words: str) -> str:
    """The lines that tell, from git's first `fatal:` or `error:` on, without those words."""
    lines = words.splitlines()
    first = next((at for at, line in enumerate(lines) if line.startswith(("fatal: ", "error: "))), 0)
    told = [line.removeprefix("fatal: ").removeprefix("error: ").strip() for line in lines[first : first + 3]]
    return " ".join(told) or "git gave no reason"
