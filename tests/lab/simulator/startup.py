"""The start: its phases with their share of the time, and the lines that show its pace."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from . import startfail
from .clock import Clock
from .faults import Board
from .flags import Launch
from .log import Log, write
from .settings import Settings

_BAR = 10


class Start:
    """Walks through a start. Runs in the engine core, which loads the weights, compiles and captures graphs."""

    def __init__(self, launch: Launch, settings: Settings, clock: Clock, board: Board, log: Log) -> None:
        self.launch = launch
        self.settings = settings
        self.clock = clock
        self.board = board
        self.log = log
        self.began = clock.now()

    def run(self, worker: Log, blocks: int) -> None:
        """The whole start of a first rank. Raises startfail.StartFailure where a fault says so."""
        total = max(0.0, self.settings.start_s - self.settings.boot_s) * self._slowness()
        self._announce(worker)
        self._pause(total * 0.05)
        self._load(worker, total * (0.75 if self.launch.eager else 0.55))
        if not self.launch.eager:
            self._compile(worker, total * 0.15)
        self._caches(worker, total * 0.05, blocks)
        if not self.launch.eager:
            self._graphs(worker, total * 0.15)
        self._pause(total * 0.05)
        took = total * 0.4
        self.log.note("core.py:402", f"init engine (profile, create kv cache, warmup model) took {took:.2f} s")

    def _slowness(self) -> float:
        slow = self.board.get("slow_start")
        return slow.number(3.0) if slow else 1.0

    def _fail_if(self, *classes: str) -> None:
        fault = self.board.get("start_fail")
        if fault and fault.arg in classes:
            startfail.fail(fault.arg, self.launch)

    def _pause(self, seconds: float) -> None:
        """A start that a fault makes slow has a processor at work: a container's log shows a bar only when it ends."""
        if self._slowness() == 1.0:
            self.clock.sleep(seconds)
            return
        end = time.monotonic() + self.clock.real(seconds)
        while time.monotonic() < end:
            _toil(0.02)
            time.sleep(max(0.0, min(0.1, end - time.monotonic())))

    def _announce(self, worker: Log) -> None:
        launch = self.launch
        self.log.note(
            "core.py:133",
            f"Initializing a V1 LLM engine (v{self.settings.version}) with config: model={launch.model!r}, "
            f"max_seq_len={launch.max_model_len}, tensor_parallel_size={launch.tensor_parallel}, "
            f"pipeline_parallel_size={launch.pipeline_parallel}, data_parallel_size={launch.data_parallel}",
        )
        self._fail_if("driver", "arch", "gpu_busy")
        worker.note("gpu_model_runner.py:4720", f"Starting to load model {launch.model}...")

    def _load(self, worker: Log, seconds: float) -> None:
        bar = Bar("Loading safetensors checkpoint shards", "Completed | ", self.clock)
        for done in range(self.settings.shards):
            bar.show(done, self.settings.shards)
            self._maybe_stick(done / self.settings.shards)
            if done:
                self._fail_if("truncated_weights", "oom", "missing_weights")
            self._pause(seconds / self.settings.shards)
        bar.show(self.settings.shards, self.settings.shards)
        bar.end()
        worker.note("default_loader.py:501", f"Loading weights took {seconds:.2f} seconds")
        share = self.settings.weights_gib / max(1, self.launch.workers)
        worker.note("gpu_model_runner.py:4801", f"Model loading took {share:.2f} GiB memory and {seconds:.2f} seconds")

    def _maybe_stick(self, share: float) -> None:
        """Stand still, with no line and no work, for as long as the fault is in force."""
        while (stuck := self.board.get("start_stuck")) and share >= stuck.number(0.4):
            self._pause(1.0)

    def _compile(self, worker: Log, seconds: float) -> None:
        self._pause(seconds * 0.3)
        worker.note("backends.py:1011", f"Dynamo bytecode transform time: {seconds * 0.3:.2f} s")
        self._pause(seconds * 0.7)
        worker.note("monitor.py:49", f"torch.compile took {seconds:.2f} s in total")

    def _caches(self, worker: Log, seconds: float, blocks: int) -> None:
        self._pause(seconds)
        tokens, longest = blocks * self.launch.block_size, self.launch.max_model_len
        worker.note("gpu_worker.py:391", f"Available KV cache memory: {tokens * 4.2e-6:.2f} GiB")
        if tokens < longest:
            startfail.fail("kv_too_small", self.launch, tokens)
        self._fail_if("kv_too_small")
        self.log.note(
            "kv_cache_utils.py:2327",
            f"GPU KV cache size: {tokens:,} tokens, Maximum concurrency for {longest:,} tokens per request: "
            f"{tokens / longest:.2f}x",
        )

    def _graphs(self, worker: Log, seconds: float) -> None:
        sizes = 13
        bar = Bar("Capturing CUDA graphs (mixed prefill-decode, PIECEWISE)", "| ", self.clock, blocks=True)
        for done in range(sizes):
            bar.show(done, sizes)
            self._pause(seconds / sizes)
        bar.show(sizes, sizes)
        bar.end()
        worker.note("gpu_model_runner.py:5912", f"Graph capturing finished in {seconds:.0f} secs, took 0.87 GiB")


class Bar:
    """A tqdm bar on stderr: each state overwrites the one before with a carriage return, and it ends with a newline."""

    def __init__(self, title: str, infix: str, clock: Clock, *, blocks: bool = False) -> None:
        self.title = title
        self.infix = infix
        self.now: Callable[[], float] = clock.now
        self.began = clock.now()
        self.blocks = blocks

    def show(self, done: int, total: int) -> None:
        """Draw it once."""
        spent = self.now() - self.began
        pace = f"{spent / done:5.2f}s/it" if done else "?it/s"
        left = _clock(spent / done * (total - done)) if done else "?"
        full = "█" * round(_BAR * done / total)
        middle = f"|{full:<{_BAR}}| " if self.blocks else f" {self.infix}"
        percent = f"{round(100 * done / total):3d}%"
        write(f"\r{self.title}: {percent}{middle}{done}/{total} [{_clock(spent)}<{left}, {pace}]", sys.stderr)

    def end(self) -> None:
        """The newline after the last state."""
        write("\n", sys.stderr)


def _toil(seconds: float) -> None:
    """Use so much of a processor."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60:02d}:{int(seconds) % 60:02d}"


def banner(log: Log, settings: Settings, launch: Launch) -> None:
    """What the server prints first."""
    art = ("", "       █     █     █▄   ▄█", f" ▄▄ ▄█ █     █     █ ▀▄▀ █  version {settings.version}",
           f"  █▄█▀ █     █     █     █  model   {launch.model}", "   ▀▀  ▀▀▀▀▀ ▀▀▀▀▀ ▀     ▀", "")  # fmt: skip
    log.note("api_utils.py:347", "\n".join(art))
    log.note("api_utils.py:286", f"non-default args: {launch.given}")
