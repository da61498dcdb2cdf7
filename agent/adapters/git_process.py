"""git as a child process: no settings of anybody, no hooks, no prompts, ended when it falls silent."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from agent.image.trouble import ImageError

PROTOCOLS = "https:http:ssh:git:file"
"""Never `ext` or `fd`, which run programs."""

SETTINGS = (
    "core.hooksPath=/dev/null",
    "core.attributesFile=/dev/null",
    "core.fsmonitor=false",
    "core.askPass=true",
    "credential.helper=",
    "fetch.fsckObjects=true",
    # harmless flaws that old repositories have
    *(f"fetch.fsck.{flaw}=warn" for flaw in ("zeroPaddedFilemode", "badTimezone", "missingSpaceBeforeDate")),
    "fetch.recurseSubmodules=false",
    "submodule.recurse=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "protocol.version=2",
)


class NoGit(ImageError):
    """Sources in git need git."""

    code = "image.no_git"
    message = "cannot fetch sources: this host has no git"
    hint = "install it (apt-get install git)"


@dataclass(frozen=True, slots=True)
class Done:
    """What git answered."""

    code: int
    out: bytes
    words: str
    """What it wrote on standard error, without its progress."""

    @property
    def ok(self) -> bool:
        return self.code == 0


class Silent(Exception):
    """Nothing came for as long as may be."""


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Nothing of the host's or a person's settings; PATH, proxies and what ssh needs stay."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return {
        **kept,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_ALLOW_PROTOCOL": PROTOCOLS,
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_SSH_COMMAND": "ssh -o BatchMode=yes",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "LC_ALL": "C",
        **(more or {}),
    }


async def git(
    repository: Path,
    *words: str,
    stdin: bytes | None = None,
    more: Mapping[str, str] | None = None,
    silence_s: float = 60.0,
) -> Done:
    """Run git in a bare repository. Raises Silent, and NoGit; whatever git says comes back."""
    process = await _start(repository, words, more, fed=stdin is not None)
    try:
        return await _finish(process, stdin, silence_s)
    finally:
        await _end(process)


async def batch(repository: Path, blobs: Sequence[str], more: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
    """The contents of many blobs, in order, by one process; it ends early where one is not there."""
    process = await _start(repository, ("cat-file", "--batch"), more, fed=True)
    stdout = process.stdout
    if stdout is None:  # a pipe was asked for
        return
    feeding = asyncio.ensure_future(_feed(process, "".join(f"{blob}\n" for blob in blobs).encode()))
    errors = asyncio.ensure_future(process.stderr.read()) if process.stderr is not None else None
    try:
        for _ in blobs:
            words = (await stdout.readline()).split()
            if len(words) != 3 or words[1] != b"blob":
                return
            content = await stdout.readexactly(int(words[2]) + 1)
            yield content[:-1]
    finally:
        await _end(process)
        await asyncio.gather(feeding, *([errors] if errors is not None else []), return_exceptions=True)


async def _start(
    repository: Path, words: Sequence[str], more: Mapping[str, str] | None, *, fed: bool
) -> asyncio.subprocess.Process:
    settings = [word for setting in SETTINGS for word in ("-c", setting)]
    try:
        return await asyncio.create_subprocess_exec(
            "git",
            f"--git-dir={repository}",
            *settings,
            *words,
            stdin=asyncio.subprocess.PIPE if fed else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment(more),
            cwd=repository,
            start_new_session=True,  # its helpers (ssh, remote-https) end with it
        )
    except FileNotFoundError as error:
        raise NoGit from error


async def _finish(process: asyncio.subprocess.Process, stdin: bytes | None, silence_s: float) -> Done:
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(silence_s) as deadline:

            async def all_of(stream: asyncio.StreamReader | None) -> bytes:
                parts = []
                while stream is not None and (part := await stream.read(1 << 16)):
                    parts.append(part)
                    deadline.reschedule(loop.time() + silence_s)
                return b"".join(parts)

            out, err, _ = await asyncio.gather(all_of(process.stdout), all_of(process.stderr), _feed(process, stdin))
            code = await process.wait()
    except TimeoutError as error:
        raise Silent from error
    return Done(code, out, _words(err))


async def _feed(process: asyncio.subprocess.Process, data: bytes | None) -> None:
    if process.stdin is None or data is None:
        return
    with suppress(ConnectionError):  # it has read enough, and says why itself
        process.stdin.write(data)
        await process.stdin.drain()
        process.stdin.close()
        await process.stdin.wait_closed()


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


def _words(err: bytes) -> str:
    """Lines without progress, which ends in carriage returns."""
    lines = err.decode(errors="replace").replace("\r", "\n").splitlines()
    return "\n".join(line for line in lines if line.strip() and "% (" not in line and not line.startswith("remote: "))
