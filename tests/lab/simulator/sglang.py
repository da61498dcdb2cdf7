"""SGLang's habits in its scheduler processes (0.5.23, imitated from its source and public threads, not from runs)."""

from __future__ import annotations

import time
from typing import Any

from .dialect import Patience, World
from .faults import Fault
from .flags import Launch
from .log import Log, traceback, write
from .sequences import Crowd
from .startfail import fail
from .startup import Bar

WATCHDOG_S = 300.0


class SglangLog(Log):
    """`[2026-11-30 03:40:32 TP0] message`: no level, no source; the tag is left out for the main process."""

    def _line(self, level: str, source: str, message: str) -> None:
        tag = f" {self.process}" if self.process else ""
        write(f"[{time.strftime('%Y-%m-%d %H:%M:%S')}{tag}] {message}\n")


class Sglang:
    """A scheduler per data-parallel rank, which has the first GPU; the others' schedulers follow it."""

    beat_s: float | None = 1.0

    def __init__(self) -> None:
        self._decodes = 0
        self._tokens = 0
        self._since = time.monotonic()

    def log(self, launch: Launch, rank: int) -> Log:
        """TP0, with the ranks that there are more than one of."""
        dp = f"DP{rank} " if launch.data_parallel > 1 else ""
        pp = " PP0" if launch.pipeline_parallel > 1 else ""
        return SglangLog(f"{dp}TP0{pp}")

    def title(self, process: str) -> str:
        """sglang::scheduler_TP0."""
        return f"sglang::scheduler_{process.replace(' ', '_')}"

    def crew(self, launch: Launch) -> list[str]:
        """The other GPUs' schedulers."""
        ranks = [(tp, pp) for pp in range(launch.pipeline_parallel) for tp in range(launch.tensor_parallel)]
        return [f"TP{tp} PP{pp}" if launch.pipeline_parallel > 1 else f"TP{tp}" for tp, pp in ranks[1:]]

    def worker_log(self, name: str, pid: int) -> Log:
        """A scheduler's own."""
        return SglangLog(name, pid)

    def start(self, world: World, log: Log, worker: Log, blocks: int) -> None:
        """Weights, memory pool, graphs. Raises StartFailure."""
        launch, clock = world.launch, world.clock
        slow = world.board.get("slow_start")
        total = (world.settings.start_s - world.settings.boot_s) * (slow.number(3.0) if slow else 1.0)
        log.note("", "Init torch distributed begin.")
        _fail_if(world.board.get("start_fail"), launch, "driver", "arch", "gpu_busy")
        log.note("", "Load weight begin. avail mem=62.90 GB")
        self._load(world, total * 0.6)
        log.note(
            "", f"Load weight end. elapsed={total * 0.6:.2f} s, type=Model, avail mem=21.50 GB, mem usage=41.40 GB."
        )
        clock.sleep(total * 0.1)
        _fail_if(world.board.get("start_fail"), launch, "kv_too_small", "oom")
        log.note("", f"KV Cache is allocated. #tokens: {blocks * launch.block_size}, K size: 8.00 GB, V size: 8.00 GB")
        if not launch.eager:
            self._graphs(world, log, total * 0.3)
        what = f"chunked_prefill_size={launch.batch_tokens}, max_running_requests={launch.max_running}"
        log.note("", f"max_total_num_tokens={blocks * launch.block_size}, {what}, context_len={launch.max_model_len}")

    def _load(self, world: World, seconds: float) -> None:
        shards = world.settings.shards
        bar = Bar("Multi-thread loading shards", "Completed | ", world.clock)
        for done in range(shards):
            bar.show(done, shards)
            while (stuck := world.board.get("start_stuck")) and done / shards >= stuck.number(0.4):
                world.clock.sleep(1.0)
            if done:
                _fail_if(world.board.get("start_fail"), world.launch, "truncated_weights", "missing_weights")
            world.clock.sleep(seconds / shards)
        bar.show(shards, shards)
        bar.end()

    def _graphs(self, world: World, log: Log, seconds: float) -> None:
        log.note("", "Capture cuda graph begin. This can take up to several minutes. avail mem=5.12 GB")
        bar = Bar("Capturing batches (bs=1 avail_mem=4.80 GB)", "| ", world.clock, blocks=True)
        for done in range(10):
            bar.show(done, 10)
            world.clock.sleep(seconds / 10)
        bar.show(10, 10)
        bar.end()
        log.note("", f"Capture cuda graph end. Time elapsed: {seconds:.2f} s. mem usage=0.32 GB. avail mem=4.80 GB.")

    def failed(self, log: Log, worker: Log, error: str, *, in_worker: bool) -> None:
        """The scheduler's traceback."""
        log.note("", f"Scheduler hit an exception: {traceback(error, ('scheduler = Scheduler(',))}")

    def orphaned(self, log: Log) -> None:
        """It says nothing."""

    def fatal(self, log: Log, error: str, workers: int) -> None:
        """An exception, or the watchdog's word."""
        if error.startswith("Watchdog"):
            log.note("", error)
        else:
            log.note("", f"Scheduler hit an exception: {traceback(error, ('scheduler.event_loop_overlap()',))}")

    def patience(self, world: World, kind: str) -> Patience:
        """The watchdog looks at half its timeout, so it bites between one and one and a half of it, if a batch runs."""
        if kind == "stall_idle":
            return Patience(None)
        timeout = float(world.launch.given.get("watchdog_timeout", WATCHDOG_S))
        return Patience(1.25 * timeout, f"Watchdog timeout (self.watchdog_timeout={timeout})")

    def terminated(self, log: Log, timeout: int, requests: int) -> None:
        """The server drains; a scheduler that is asked by itself just ends."""

    def drained(self, log: Log) -> None:
        """It says nothing."""

    def steps(self, log: Log, report: dict[str, Any], gauges: dict[str, Any], crowd: Crowd) -> None:
        """A line per prefill result; one per 40 decode iterations is written by whoever counts them."""
        if report["prefills"]:
            log.note(
                "",
                f"Prefill batch, #new-seq: {len([o for o in report['outputs'] if o['first']])}, #new-token: "
                f"{report['prefill_tokens']}, #cached-token: {report['hits']}, token usage: {gauges['usage']:.2f}, "
                f"#running-req: {gauges['decoding']}, #queue-req: {gauges['waiting']}, ",
            )
        self._decoded(log, report, gauges)

    def _decoded(self, log: Log, report: dict[str, Any], gauges: dict[str, Any]) -> None:
        before, self._decodes = self._decodes, self._decodes + report["decodes"]
        self._tokens += sum(o["tokens"] for o in report["outputs"])
        if self._decodes // 40 == before // 40:
            return
        now = time.monotonic()
        pace, self._tokens, self._since = self._tokens / max(1e-3, now - self._since), 0, now
        log.note(
            "",
            f"Decode batch, #running-req: {gauges['decoding']}, #token: {gauges['used']}, token usage: "
            f"{gauges['usage']:.2f}, cuda graph: True, gen throughput (token/s): {pace:.2f}, "
            f"#queue-req: {gauges['waiting']}, ",
        )


def _fail_if(fault: Fault | None, launch: Launch, *classes: str) -> None:
    if fault and fault.arg in classes:
        fail(fault.arg, launch)
