"""The API server's side of its engine cores: requests out, outputs in, and the news that a core has died."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .clock import Clock
from .faults import Board
from .ledger import Books, EngineDead, Sequence
from .process import reap
from .prompts import Prompt
from .sequences import Output

DEAD = "EngineCore encountered an issue. See stack trace (above) for the root cause."


@dataclass(slots=True)
class Core:
    """One engine core process."""

    rank: int
    pid: int
    line: socket.socket
    writer: asyncio.StreamWriter | None = None
    ready: bool = False
    blocks: int = 0
    code: int | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """How long an answer may be: `most` tokens asked for, `stop` where it ends by itself, `n` answers asked for."""

    most: int
    stop: int | None
    n: int


class EngineClient:
    """All engine cores of a server. `on_death` is called once, at the first that dies."""

    def __init__(self, cores: list[Core], clock: Clock, board: Board, ledger: Books) -> None:
        self.cores = cores
        self.clock = clock
        self.board = board
        self.ledger = ledger
        self.sequences: dict[str, Sequence] = {}
        self.dead = False
        self.stopping = False
        self.paused = ""
        self.frozen_gauges = False
        self.heard = 0.0
        self.hang_up_delay = 0.0
        self.notices: Callable[[Sequence], bool] = lambda _sequence: True
        self._lost_sight: list[Sequence] = []
        self.started = asyncio.Event()
        self.on_death: Callable[[], None] = lambda: None
        self.on_heal: Callable[[str], None] = lambda _kind: None
        self._tokens = itertools.count()
        self._replies: dict[int, asyncio.Future[Any]] = {}
        self._tasks: list[asyncio.Task[None]] = []

    async def open(self) -> None:
        """Begin to listen to the cores."""
        for core in self.cores:
            core.line.setblocking(False)
            reader, core.writer = await asyncio.open_connection(sock=core.line, limit=1 << 26)
            self._tasks.append(asyncio.create_task(self._listen(core, reader)))

    async def _listen(self, core: Core, reader: asyncio.StreamReader) -> None:
        try:
            while line := await reader.readline():
                self._hear(core, json.loads(line))
        except ConnectionError:
            pass  # the same as the end of the line
        self._lost(core)

    def _hear(self, core: Core, message: dict[str, Any]) -> None:
        self.heard = self.clock.now()
        match message:
            case {"stats": stats, "gauges": gauges}:
                self._stats(core.rank, stats, gauges)
            case {"ready": ready}:
                core.ready, core.blocks = True, ready["blocks"]
                if all(c.ready for c in self.cores):
                    self.started.set()
            case {"reply": token}:
                if not (waiting := self._replies.pop(token)).done():
                    waiting.set_result(message["value"])
            case {"aborted": ids}:
                for sequence in [self.sequences.pop(i) for i in ids if i in self.sequences]:
                    self.ledger.aborted(sequence)
                    self._give_up(sequence)
            case {"heal": kind}:
                self.on_heal(kind)

    def _stats(self, rank: int, stats: dict[str, Any], gauges: dict[str, Any]) -> None:
        self.ledger.step(rank, stats)
        if not self.frozen_gauges:
            self.ledger.gauges(rank, gauges)
        for output in (Output(**raw) for raw in stats["outputs"]):
            if (sequence := self.sequences.get(output.id)) is None:
                self.ledger.stray(output)
            else:
                self.ledger.output(sequence, output)
                sequence.outputs.put(output)
                if output.reason:
                    del self.sequences[sequence.id]

    def _give_up(self, sequence: Sequence) -> None:
        now = self.clock.now()
        sequence.outputs.put(Output(sequence.id, 0, "abort", False, now, now, 0, 0))

    def add(self, name: str, prompt: Prompt, limits: Limits, rank: int | None = None) -> Sequence:
        """Hand a sequence to this rank's core, or to the least busy one. Raises EngineDead."""
        if self.dead:
            raise EngineDead(DEAD)
        self.frozen_gauges = False
        busy = [sum(1 for s in self.sequences.values() if s.rank == core.rank) for core in self.cores]
        core = self.cores[busy.index(min(busy)) if rank is None else rank]
        sequence = Sequence(name, core.rank, prompt.tokens, limits.most, limits.n, self.clock.now())
        self.sequences[name] = sequence
        self._tell(core, op="add", id=name, prompt=prompt.tokens, hashes=prompt.hashes, max_tokens=limits.most,
                   stops_at=limits.stop)  # fmt: skip
        return sequence

    def hung_up(self, sequence: Sequence) -> None:
        """The client of a sequence has gone: normally it is aborted, and no counter tells."""
        if sequence.id not in self.sequences:
            return
        if self.hang_up_delay and (sequence.client or not self.notices(sequence)):
            sequence.client = False
            asyncio.get_running_loop().call_later(self.clock.real(self.hang_up_delay), self.hung_up, sequence)
            return
        sequence.client = False
        burning = self.board.get("zombie_burning") is not None
        if burning and not self.ledger.forgetful:
            return
        del self.sequences[sequence.id]
        self.ledger.left(sequence)
        if burning:
            self._lost_sight.append(sequence)
            return
        held = self.board.get("zombie_held") is not None
        if not held and self.board.get("stale_gauge") and not self.sequences:
            self.frozen_gauges = True
        self._tell(self.cores[sequence.rank], op="hold" if held else "abort", id=sequence.id, ids=[sequence.id])

    def abort(self, ids: list[str] | None = None) -> None:
        """Abort what the frontend knows (all of it where `ids` is None); clients read finish_reason abort."""
        for sequence in [s for s in self.sequences.values() if ids is None or s.id in ids]:
            del self.sequences[sequence.id]
            self._give_up(sequence)
            self._tell(self.cores[sequence.rank], op="abort", ids=[sequence.id])

    def release_zombies(self) -> None:
        """What a healed server would do: let go of everything whose client is gone."""
        self.abort([s.id for s in self.sequences.values() if not s.client])
        for sequence in self._lost_sight:
            self._tell(self.cores[sequence.rank], op="abort", ids=[sequence.id])
        self._lost_sight.clear()
        for core in self.cores:
            self._tell(core, op="release")

    async def call(self, op: str, **more: Any) -> list[Any]:
        """A utility call to every core, answered between two steps, so never by one that hangs. Raises EngineDead."""
        if self.dead:
            raise EngineDead(DEAD)
        waiting: list[asyncio.Future[Any]] = []
        for core in self.cores:
            token = next(self._tokens)
            self._replies[token] = asyncio.get_running_loop().create_future()
            waiting.append(self._replies[token])
            self._tell(core, op=op, token=token, **more)
        return await asyncio.gather(*waiting)

    def _tell(self, core: Core, **message: Any) -> None:
        if core.writer is not None and not core.writer.is_closing():
            core.writer.write(json.dumps(message).encode() + b"\n")

    def living(self) -> list[Core]:
        """The cores that have not ended; those that have are reaped."""
        for core in self.cores:
            if core.code is None:
                core.code = reap(core.pid)
        return [core for core in self.cores if core.code is None]

    def kill(self, rank: int | None = None) -> None:
        """SIGKILL cores: what the kernel's OOM killer or a crash does."""
        for core in self.living():
            if rank in {None, core.rank}:
                os.kill(core.pid, signal.SIGKILL)

    async def end(self) -> None:
        """SIGKILL whatever lives, and leave no child behind."""
        self.kill()
        while self.living():
            await asyncio.sleep(0.01)

    def _lost(self, _core: Core) -> None:
        """The line to a core has ended. While the server is stopping that is no news."""
        self.living()
        if self.stopping or self.dead:
            return
        self.dead = True
        for sequence in self.sequences.values():
            sequence.outputs.die(EngineDead(DEAD))
        for waiting in self._replies.values():
            if not waiting.done():
                waiting.set_exception(EngineDead(DEAD))
        self.sequences.clear()
        self.started.set()
        self.on_death()
