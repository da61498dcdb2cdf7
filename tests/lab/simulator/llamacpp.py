"""llama.cpp's habits in its scheduler: log lines by slot, a load that says little, no end but its own.

The real server is one process; here its loop is a child, so that it can be hung while HTTP goes on.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Any

from .dialect import Patience, World
from .failures import Class
from .flags import Launch
from .log import Log, write
from .sequences import Crowd, Request
from .startfail import StartFailure

_BORN = time.monotonic()
_PACE_S = 3.0  # real seconds between two lines about one slot
_LOOK = 0.02  # real seconds

FAILURES = {
    "missing_model": (
        ("gguf_init_from_file", "failed to open GGUF file '{model}' (No such file or directory)"),
        ("llama_model_load", "error loading model: llama_model_loader: failed to load model from {model}"),
    ),
    "truncated_weights": (
        ("llama_model_load", "error loading model: tensor 'blk.0.ffn_gate.weight' data is not within the file bounds, "
         "model is corrupted or incomplete"),
    ),
    "oom": (
        ("ggml_backend_cuda_buffer_type_alloc_buffer", "allocating 16384.00 MiB on device 0: cudaMalloc failed: out of "
         "memory"),
        ("llama_model_load", "error loading model: unable to allocate CUDA0 buffer"),
    ),
}  # fmt: skip
"""The loads that fail, in its own words: the first two as recorded, the third as public reports have it."""
ALIASES = {"bad_path": "missing_model", "missing_weights": "missing_model"}


def source(group: str, function: str) -> str:
    """`srv    load_model`: the group and twelve places for the function."""
    return f"{group:<4} {function[:12]:>12}"


class LlamaLog(Log):
    """`0.05.523.825 I slot launch_slot_: id  1 | task 2 | …`, on stderr; the time is the process's own."""

    def _line(self, level: str, source: str, message: str) -> None:
        micros = int((time.monotonic() - _BORN) * 1e6)
        stamp = f"{micros // 60_000_000}.{micros // 1_000_000 % 60:02}.{micros // 1000 % 1000:03}.{micros % 1000:03}"
        write(f"{stamp} {level[0]} {source}: {message}\n", sys.stderr)

    def server(self, function: str, message: str, level: str = "INFO") -> None:
        """A line of the server's."""
        self._line(level, source("srv", function), message)

    def slot(self, function: str, request: Request, message: str) -> None:
        """A line about one slot."""
        self._line("INFO", source("slot", function), f"id {request.slot:2} | task {request.task} | {message}")


class LlamaCpp:
    """One loop, one model; what its log says about slots is told from what runs."""

    beat_s: float | None = None

    def __init__(self) -> None:
        self.own = LlamaLog("")
        self._seen: dict[str, Request] = {}
        self._told: dict[str, float] = {}

    def log(self, launch: Launch, rank: int) -> Log:
        """One for the whole."""
        return self.own

    def title(self, process: str) -> str:
        """The one name that there is."""
        return "llama-server"

    def crew(self, launch: Launch) -> list[str]:
        """No workers."""
        return []

    def worker_log(self, name: str, pid: int) -> Log:
        """No workers."""
        return self.own

    def start(self, world: World, log: Log, worker: Log, blocks: int) -> None:
        """The load: silent at the usual verbosity, but for its begin and its end. Raises StartFailure."""
        launch, board = world.launch, world.board
        slow = board.get("slow_start")
        seconds = (world.settings.start_s - world.settings.boot_s) * (slow.number(3.0) if slow else 1.0)
        self.own.server("load_model", f"loading model '{launch.model}'")
        if fault := board.get("start_fail"):
            self._fail(fault.arg, launch.model)
        until = world.clock.now() + seconds
        while (left := until - world.clock.now()) > 0:
            stuck = board.get("start_stuck")
            if stuck and 1 - left / seconds >= stuck.number(0.4):
                until = world.clock.now() + left
            time.sleep(min(_LOOK, world.clock.real(left)))
        self.own.note(source("cmn", "init"), "llama threadpool init, n_threads = 1")
        what = f"n_slots = {launch.max_running}, n_ctx_slot = {launch.max_model_len}, kv_unified = 'false'"
        self.own.server("load_model", f"initializing, {what}")

    def _fail(self, name: str, model: str) -> None:
        for function, text in FAILURES[ALIASES.get(name, name)]:
            self.own.alarm(function, text.format(model=model))
        self.own.alarm("llama_model_load_from_file_impl", "failed to load model")
        self.own.alarm(source("cmn", "common_init_"), f"failed to load model '{model}'")
        self.own.server("load_model", f"failed to load model, '{model}'", "ERROR")
        raise StartFailure(Class("core", name), name)

    def failed(self, log: Log, worker: Log, error: str, *, in_worker: bool) -> None:
        """It was said when it happened."""

    def orphaned(self, log: Log) -> None:
        """No workers."""

    def fatal(self, log: Log, error: str, workers: int) -> None:
        """A CUDA error, as public reports have it, then GGML_ABORT."""
        if "out of memory" in error:
            where = "/app/ggml/src/ggml-cuda/ggml-cuda.cu"
            write(f"CUDA error: out of memory\n  current device: 0, in function alloc at {where}:450\n", sys.stderr)
            write(f"  cuMemCreate(&handle, reserve_size, &prop, 0)\n{where}:88: CUDA error\n", sys.stderr)

    def patience(self, world: World, kind: str) -> Patience:
        """Nothing ends a hang."""
        return Patience(None)

    def terminated(self, log: Log, timeout: int, requests: int) -> None:
        """The server says it."""

    def drained(self, log: Log) -> None:
        """It says nothing."""

    def steps(self, log: Log, report: dict[str, Any], gauges: dict[str, Any], crowd: Crowd) -> None:
        """Slots launched, how far they are every 3 s, and released; a request may pass between two looks."""
        ended = {output["id"] for output in report["outputs"] if output["reason"]}
        for request in crowd.begun:
            self._launched(request)
        for request in crowd.running:
            self._pace(request)
        for request in self._gone(crowd.running):
            if request.id not in ended:
                self.own.server("stop", f"cancel task, id_task = {request.task}", "WARNING")
            else:
                self._timing(request)
            tokens = request.prompt + request.generated - 1
            self.own.slot("release", request, f"stop processing: n_tokens = {tokens}, truncated = 0")

    def _launched(self, request: Request) -> None:
        self._seen[request.id] = request
        self._told[request.id] = time.monotonic()
        self.own.slot("get_availabl", request, "selected slot by LRU, t_last = -1")
        self.own.slot("launch_slot_", request, "processing task, is_child = 0")

    def _gone(self, running: Sequence[Request]) -> list[Request]:
        here = {request.id for request in running}
        gone = [request for name, request in self._seen.items() if name not in here]
        for request in gone:
            del self._seen[request.id], self._told[request.id]
        return gone

    def _pace(self, request: Request) -> None:
        now = time.monotonic()
        if now - self._told[request.id] < _PACE_S:
            return
        self._told[request.id] = now
        if request.generated:
            self.own.slot("print_timing", request, f"n_gen = {request.generated:6}, tg =  60.00 t/s")
        else:
            share = request.computed / request.prompt
            text = f"prompt processing, n_tokens = {request.computed:6}, progress = {share:.2f}, t = 3.39 s"
            self.own.slot("print_timing", request, text)

    def _timing(self, request: Request) -> None:
        new = request.prompt - request.cached
        self.own.slot("print_timing", request, f"prompt eval time = {new / 4:10.2f} ms / {new:5} tokens")
        self.own.slot("print_timing", request, f"       eval time = {request.generated * 16.7:10.2f} ms / "
                      f"{request.generated:5} tokens")  # fmt: skip
