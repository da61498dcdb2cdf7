"""vLLM's habits in its engine core."""

from __future__ import annotations

from typing import Any

from . import startfail
from .dialect import Patience, World
from .flags import Launch
from .log import Log, traceback
from .sequences import Crowd
from .startup import Start

_SHM = (
    "No available shared memory broadcast block found in 60 seconds. This typically happens when some processes are "
    "hanging or doing some time-consuming work (e.g. compilation, weight/kv cache quantization)."
)


class Vllm:
    """V1: an engine core per data-parallel rank, workers below it where more than one GPU serves a rank."""

    beat_s: float | None = None

    def log(self, launch: Launch, rank: int) -> Log:
        """EngineCore, or EngineCore_DP0 and so on."""
        return Log("EngineCore" if launch.data_parallel == 1 else f"EngineCore_DP{rank}")

    def title(self, process: str) -> str:
        """VLLM::EngineCore, VLLM::Worker_TP0."""
        return f"VLLM::{process}"

    def crew(self, launch: Launch) -> list[str]:
        """Worker_PP0_TP0 and so on; an index is left out where there is but one. None for a single GPU."""
        made = []
        for stage in range(launch.pipeline_parallel):
            for shard in range(launch.tensor_parallel):
                pp = f"_PP{stage}" if launch.pipeline_parallel > 1 else ""
                tp = f"_TP{shard}" if launch.tensor_parallel > 1 else ""
                made.append(f"Worker{pp}{tp}")
        return made if len(made) > 1 else []

    def worker_log(self, name: str, pid: int) -> Log:
        """A worker's lines begin with its name."""
        return Log(name, pid)

    def start(self, world: World, log: Log, worker: Log, blocks: int) -> None:
        """Raises StartFailure."""
        Start(world.launch, world.settings, world.clock, world.board, log).run(worker, blocks)

    def failed(self, log: Log, worker: Log, error: str, *, in_worker: bool) -> None:
        """The worker's traceback, then the core's."""
        startfail.tell_core(log, worker, error, in_worker=in_worker)

    def orphaned(self, log: Log) -> None:
        """The line of a worker that ends with its core."""
        log.note("multiproc_executor.py:843", "Parent process exited, terminating worker queues")

    def fatal(self, log: Log, error: str, workers: int) -> None:
        """The core's last words."""
        if error.startswith("Worker proc"):
            log.alarm("multiproc_executor.py:315", error)
            error = "RuntimeError: Executor failed."
        log.alarm("core.py:1512", "EngineCore encountered a fatal error.")
        log.alarm("core.py:1512", traceback(error, ("engine_core.run_busy_loop()",)))
        log.note("multiproc_executor.py:479", f"[shutdown] Executor: waiting for worker exit count={workers}")

    def patience(self, world: World, kind: str) -> Patience:
        """A core that hangs does so for ever; for a worker that hangs the executor waits its timeout."""
        if kind != "worker_hang":
            return Patience(None)
        error = "TimeoutError: RPC call to execute_model timed out."
        return Patience(world.settings.execute_timeout_s, error, ("shm_broadcast.py:871", _SHM))

    def terminated(self, log: Log, timeout: int, requests: int) -> None:
        """Drain where --shutdown-timeout says so."""
        mode = "drain" if timeout else "abort"
        log.note("core.py:1454", "[shutdown] EngineCore: trigger received signal=SIGTERM")
        log.note("core.py:1635", f"[shutdown] EngineCore: start mode={mode} timeout={timeout}s")
        if timeout and requests:
            what = f"draining in-flight requests count={requests} timeout={timeout}s"
            log.note("core.py:1655", f"[shutdown] EngineCore: {what}")

    def drained(self, log: Log) -> None:
        """The end in good order."""
        log.note("core.py:1666", "[shutdown] EngineCore: request processing complete; starting resource teardown")
        log.note("core.py:1499", "[shutdown] EngineCore: exiting busy loop")

    def steps(self, log: Log, report: dict[str, Any], gauges: dict[str, Any], crowd: Crowd) -> None:
        """The core logs no steps; the API server writes the periodic line."""
