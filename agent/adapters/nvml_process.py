"""One owner process of NVML, as the agent holds it: started, asked, ended, or left behind."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from datetime import timedelta
from io import FileIO
from pathlib import Path
from typing import Any

import agent
from agent.adapters.aside import Aside
from agent.host.reading import Unknown
from agent.quantity import say_duration

Document = Mapping[str, Any]

_POLL_S = 0.02
_ROOT = Path(agent.__file__).resolve().parent.parent


class OwnerProcess:
    """The process and the line to it. One question at a time; events come between."""

    def __init__(self, process: subprocess.Popen[bytes], errors: FileIO, line: _Line, out: asyncio.Transport) -> None:
        self._process = process
        self._errors = errors
        self._line = line
        self._out = out
        self._answer: asyncio.Future[Document | None] | None = None
        self._asked = 0.0
        self._question = ""
        self._late: asyncio.Future[Document | None] | None = None
        self.started = asyncio.get_running_loop().time()

    @classmethod
    async def start(cls, aside: Aside, on_event: Callable[[Document], None]) -> OwnerProcess | Unknown:
        """A new process, not yet asked anything; it opens NVML on its own."""
        ours, theirs = socket.socketpair()
        reads, writes = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        errors = FileIO(reads)
        with contextlib.ExitStack() as undo, theirs, FileIO(writes, "w"):
            undo.enter_context(ours)
            undo.enter_context(errors)
            try:
                process = await aside.run(lambda: _spawn(theirs.fileno(), writes))
            except (OSError, TimeoutError) as error:
                return Unknown(f"cannot start NVML's own process: {error}")
            out, line = await asyncio.get_running_loop().create_unix_connection(lambda: _Line(on_event), sock=ours)
            undo.pop_all()
        return cls(process, errors, line, out)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def closed(self) -> bool:
        """Whether the line is down: the process has ended, or is about to."""
        return self._line.closed

    @property
    def opened(self) -> bool:
        """Whether it has answered once: what NVML does when it is opened is over."""
        return self._line.answered

    @property
    def silent_s(self) -> float:
        """For how long a question has gone unanswered, in seconds; 0 when none is open."""
        if self._answer is None or self._answer.done():
            return 0.0
        return asyncio.get_running_loop().time() - self._asked

    async def ask(self, seconds: float, question: str = "read") -> Document | Unknown:
        """The answer to `read` or `shares`, or why there is none within `seconds`; one after the other.

        For an answer that is late already nothing is waited for, and no question is added; it is let go when it comes.
        """
        late = self._answer is not None and self._answer is self._late and not self._answer.done()
        try:
            async with asyncio.timeout(0.0 if late else seconds):
                document = await asyncio.shield(await self._asked_for(question))
        except TimeoutError:
            self._late = self._answer
            return self._silent()
        return document if document is not None else Unknown(await self._epitaph())

    async def _asked_for(self, question: str) -> asyncio.Future[Document | None]:
        """The answer that this question will have, which is asked unless it is open; after another that is."""
        while self._answer is not None and not self._answer.done():
            if question == self._question:
                return self._answer
            await asyncio.shield(self._answer)
        self._asked, self._question = asyncio.get_running_loop().time(), question
        self._answer = self._line.expect()
        self._out.write(f"{question}\n".encode())
        return self._answer

    def _silent(self) -> Unknown:
        return Unknown(f"NVML has not answered for {say_duration(timedelta(seconds=self.silent_s))}")

    async def end(self, seconds: float) -> bool:
        """Closes the line, at which it leaves; then SIGKILL. Each may take `seconds`. False: it cannot be killed."""
        self._out.abort()
        if await self._gone_within(seconds):
            return True
        self._process.kill()
        return await self._gone_within(seconds)

    def gone(self) -> bool:
        """Whether the process has ended (and is reaped)."""
        if self._process.poll() is None:
            return False
        self._errors.close()
        return True

    async def _gone_within(self, seconds: float) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not self.gone():  # noqa: ASYNC110  (an exit has no event before Linux 5.3: it must be asked for)
                    await asyncio.sleep(_POLL_S)
        return self.gone()

    async def _epitaph(self) -> str:
        """How it ended, with the last line that it wrote to standard error."""
        words = b"" if self._errors.closed else self._errors.read(65536) or b""
        if not await self._gone_within(1.0):
            return f"NVML's own process {self.pid} has closed its line and does not end"
        code = self._process.returncode
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"
        last = words.decode(errors="replace").strip().rpartition("\n")[2]
        return f"NVML's own process {how}" + (f": {last}" if last else "")


class _Line(asyncio.Protocol):
    """JSON lines from the process: events, and the answer to the open question."""

    def __init__(self, on_event: Callable[[Document], None]) -> None:
        self._on_event = on_event
        self._received = b""
        self._answer: asyncio.Future[Document | None] | None = None
        self.answered = False
        self.closed = False

    def expect(self) -> asyncio.Future[Document | None]:
        """The next answer; None when the line goes down, or is down."""
        self._answer = asyncio.get_running_loop().create_future()
        if self.closed:
            self._answer.set_result(None)
        return self._answer

    def data_received(self, data: bytes) -> None:
        *lines, self._received = (self._received + data).split(b"\n")
        for line in lines:
            document = json.loads(line)
            if "event" in document:
                self._on_event(document["event"])
            else:
                self.answered = True
                self._answered(document)

    def connection_lost(self, error: Exception | None) -> None:
        self.closed = True
        self._answered(None)

    def _answered(self, document: Document | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(document)


def _spawn(descriptor: int, errors: int) -> subprocess.Popen[bytes]:
    """Starts it with no descriptor that anybody else waits on: it may be left behind."""
    path = os.pathsep.join(filter(None, (str(_ROOT), os.environ.get("PYTHONPATH"))))
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "agent.adapters.nvml_owner", str(descriptor)],
        pass_fds=(descriptor,),
        env={**os.environ, "PYTHONPATH": path},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=errors,
    )
