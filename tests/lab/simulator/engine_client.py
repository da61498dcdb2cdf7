"""The API server's side of its engine cores: requests out, outputs in, and the news that a core has died."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .clock import Clock
from .faults import Board
from .log import Log, traceback
from .metrics import EngineMetrics
from .process import reap
from .scheduler import Output
from .stats import Tally

DEAD = "EngineCore encountered an issue. See stack trace (above) for the root cause."


class EngineDead(Exception):
    """An engine core is gone; the message is what clients read."""


@dataclass(slots=True)
class Sequence:
    """What the frontend knows of one sequence that it handed to an engine core."""

    id: str
    rank: int
    prompt: int
    max_tokens: int
    n: int
    arrived: float
    outputs: asyncio.Queue[Output | EngineDead] = field(default_factory=asyncio.Queue)
    first_at: float = 0.0
    last_at: float = 0.0
    tokens: int = 0
    client: bool = True


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


class EngineClient:
    """All engine cores of a server. `on_death` is called once, at the first that dies."""

    def __init__(self, cores: list[Core], clock: Clock, board: Board, metrics: EngineMetrics, tally: Tally) -> None:
        self.cores = cores
        self.clock = clock
        self.board = board
        self.metrics = metrics
        self.tally = tally
        self.sequences: dict[str, Sequence] = {}
        self.dead = False
        self.stopping = False
        self.refusing = False
        self.paused = ""
        self.asleep = 0
        self.frozen_gauges = False
        self.on_death: Callable[[], None] = lambda: None
        self.on_heal: Callable[[str], None] = lambda _kind: None
        self.failed: str | None = None
        self.started = asyncio.Event()
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
            pass
        self._lost(core)

    def _hear(self, core: Core, message: dict[str, Any]) -> None:
        match message:
            case {"stats": stats}:
                self._stats(core.rank, stats, message)
            case {"ready": ready}:
                core.ready, core.blocks = True, ready["blocks"]
                if all(c.ready for c in self.cores):
                    self.started.set()
            case {"reply": token}:
                if (waiting := self._replies.pop(token, None)) and not waiting.done():
                    waiting.set_result(message["value"])
            case {"aborted": ids}:
                self._aborted(ids)
            case {"heal": kind}:
                self.on_heal(kind)
            case {"failed": name}:
                self.failed = name

    def _stats(self, rank: int, stats: dict[str, Any], message: dict[str, Any]) -> None:
        self.metrics.step(rank, stats)
        self.tally.step(rank, stats)
        if not self.frozen_gauges:
            self.metrics.gauges(rank, message["running"], message["waiting"], message["usage"])
        for tokens in stats["iterations"]:
            self.metrics.observe("iteration_tokens_total", rank, tokens)
        for raw in stats["outputs"]:
            output = Output(**raw)
            if (sequence := self.sequences.get(output.id)) is not None:
                self._output(sequence, output)

    def _output(self, sequence: Sequence, output: Output) -> None:
        """IterationStats: only for a sequence that the frontend still knows."""
        rank = sequence.rank
        if output.first:
            sequence.first_at = output.at
            self.metrics.prompt(rank, sequence.prompt, output.cached)
            self.tally.prompt(rank, sequence.prompt)
            self.metrics.observe("time_to_first_token_seconds", rank, output.at - sequence.arrived)
        else:
            self.metrics.observe("inter_token_latency_seconds", rank, output.at - sequence.last_at)
        self.metrics.count("generation_tokens", rank, output.tokens)
        self.tally.generated(rank, output.tokens)
        sequence.last_at = output.at
        sequence.tokens += output.tokens
        if output.reason:
            self._finished(sequence, output)
        sequence.outputs.put_nowait(output)

    def _finished(self, sequence: Sequence, output: Output) -> None:
        del self.sequences[sequence.id]
        decode = sequence.last_at - sequence.first_at
        spans = {
            "e2e_request_latency_seconds": output.at - sequence.arrived,
            "request_queue_time_seconds": max(0.0, output.scheduled - sequence.arrived),
            "request_inference_time_seconds": output.at - output.scheduled,
            "request_prefill_time_seconds": sequence.first_at - output.scheduled,
            "request_decode_time_seconds": decode,
            "request_time_per_output_token_seconds": decode / max(1, sequence.tokens - 1),
            "request_prompt_tokens": sequence.prompt,
            "request_generation_tokens": sequence.tokens,
            "request_max_num_generation_tokens": sequence.tokens,
            "request_params_n": sequence.n,
            "request_params_max_tokens": sequence.max_tokens,
            "request_num_preemptions": output.preemptions,
            "request_prefill_kv_computed_tokens": sequence.prompt - output.cached,
        }
        for name, value in spans.items():
            self.metrics.observe(name, sequence.rank, value)
        self.metrics.count("request_success", sequence.rank, finished_reason=output.reason)

    def _aborted(self, ids: list[str]) -> None:
        for sequence in [self.sequences.pop(i) for i in ids if i in self.sequences]:
            self.metrics.count("request_success", sequence.rank, finished_reason="abort")
            self._give_up(sequence)

    def _give_up(self, sequence: Sequence) -> None:
        now = self.clock.now()
        sequence.outputs.put_nowait(Output(sequence.id, 0, "abort", False, now, now, 0, 0))

    def add(self, sequence_id: str, prompt: int, hashes: list[int], limits: tuple[int, int | None], n: int) -> Sequence:
        """Hand a sequence to the least busy core; `limits` are max_tokens and where it would stop by itself."""
        if self.dead:
            raise EngineDead(DEAD)
        self.frozen_gauges = False
        busy = [sum(1 for s in self.sequences.values() if s.rank == core.rank) for core in self.cores]
        core = self.cores[busy.index(min(busy))]
        sequence = Sequence(sequence_id, core.rank, prompt, limits[0], n, self.clock.now())
        self.sequences[sequence_id] = sequence
        self._tell(
            core, op="add", id=sequence_id, prompt=prompt, hashes=hashes, max_tokens=limits[0], stops_at=limits[1]
        )
        return sequence

    def hung_up(self, sequence: Sequence) -> None:
        """The client of a sequence has gone: normally it is aborted, and no counter tells."""
        if sequence.id not in self.sequences:
            return
        sequence.client = False
        if self.board.get("zombie_burning"):
            return
        del self.sequences[sequence.id]
        op = "hold" if self.board.get("zombie_held") else "abort"
        if op == "abort" and self.board.get("stale_gauge") and not self.sequences:
            self.frozen_gauges = True
        self._tell(self.cores[sequence.rank], op=op, id=sequence.id, ids=[sequence.id])

    def abort(self, ids: list[str] | None = None) -> int:
        """Abort what the frontend knows (all of it where `ids` is None); clients read finish_reason abort."""
        chosen = [s for s in list(self.sequences.values()) if ids is None or s.id in ids]
        for sequence in chosen:
            del self.sequences[sequence.id]
            self._give_up(sequence)
            self._tell(self.cores[sequence.rank], op="abort", ids=[sequence.id])
        return len(chosen)

    def release_zombies(self) -> None:
        """What a healed server would do: let go of everything whose client is gone."""
        self.abort([s.id for s in self.sequences.values() if not s.client])
        for core in self.cores:
            self._tell(core, op="release")

    async def call(self, op: str, **more: Any) -> list[Any]:
        """A utility call to every core; it is answered between two steps, so never by one that hangs."""
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

    def kill(self, rank: int | None = None) -> None:
        """SIGKILL cores: what the kernel's OOM killer or a crash does."""
        for core in self.cores:
            if core.code is None and rank in {None, core.rank}:
                os.kill(core.pid, signal.SIGKILL)

    def _lost(self, core: Core) -> None:
        core.code = reap(core.pid)
        if self.stopping or self.dead:
            return
        self.dead = True
        self._tell_loss()
        for sequence in self.sequences.values():
            sequence.outputs.put_nowait(EngineDead(DEAD))
        for waiting in self._replies.values():
            if not waiting.done():
                waiting.set_exception(EngineDead(DEAD))
        self.sequences.clear()
        self.started.set()
        self.on_death()

    def _tell_loss(self) -> None:
        if not all(core.ready for core in self.cores):
            return
        log = Log("APIServer")
        what = ("start timeout=default", "stopping engine manager", "engine manager stopped",
                "cleaning up background resources", "complete")  # fmt: skip
        log.caution("core_client.py:817", "[shutdown] MPClient: engine core exited unexpectedly; starting cleanup")
        for line in what:
            log.note("core_client.py:770", f"[shutdown] MPClient: {line}")
        log.alarm("async_llm.py:906", "AsyncLLM output_handler failed.")
        error = f"vllm.v1.engine.exceptions.EngineDeadError: {DEAD}"
        log.alarm("async_llm.py:906", traceback(error, ("outputs = await engine_core.get_output_async()",)))
