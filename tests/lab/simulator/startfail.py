"""How starts fail: who says what, and with which code the server ends."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NoReturn

from .faults import Board
from .flags import Launch
from .log import Log, traceback, write
from .settings import Settings

Where = Literal["server", "core", "worker"]


@dataclass(frozen=True, slots=True)
class Class:
    """One class of failure: where it is raised, and the exception's last line."""

    where: Where
    error: str


CLASSES: dict[str, Class] = {
    "bad_path": Class(
        "server",
        "huggingface_hub.errors.HFValidationError: Repo id must be in the form 'repo_name' or 'namespace/repo_name': "
        "{model!r}. Use `repo_type` argument if needed.",
    ),
    "missing_model": Class(
        "server",
        "OSError: {model} is not a local folder and is not a valid model identifier listed on "
        "'https://huggingface.co/models'",
    ),
    "auth": Class(
        "server",
        "huggingface_hub.errors.GatedRepoError: 401 Client Error. (Request ID: Root=1-0-0)\nCannot access gated repo "
        "for url https://huggingface.co/{model}/resolve/main/config.json.",
    ),
    "driver": Class(
        "core",
        "RuntimeError: The NVIDIA driver on your system is too old (found version 12020). Please update your GPU "
        "driver.",
    ),
    "arch": Class(
        "core", "torch.AcceleratorError: CUDA error: no kernel image is available for execution on the device"
    ),
    "gpu_busy": Class(
        "core",
        "ValueError: Free memory on device cuda:0 (21.4/63.6 GiB) on startup is less than desired GPU memory "
        "utilization ({utilization}, {desired:.2f} GiB). Decrease GPU memory utilization or reduce GPU memory used by "
        "other processes.",
    ),
    "kv_too_small": Class(
        "core",
        "ValueError: To serve at least one request with the models's max seq len ({longest}), ({need:.2f} GiB KV cache "
        "is needed, which is larger than the available KV cache memory ({have:.2f} GiB). Based on the available "
        "memory, the estimated maximum model length is {tokens}. Try increasing `gpu_memory_utilization` or decreasing "
        "`max_model_len` when initializing the engine.",
    ),
    "oom": Class(
        "worker",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 63.61 "
        "GiB of which 1.12 GiB is free.",
    ),
    "truncated_weights": Class(
        "worker",
        "safetensors._safetensors_rust.SafetensorError: Error while deserializing header: incomplete metadata, file "
        "not fully covered",
    ),
    "missing_weights": Class(
        "worker",
        "FileNotFoundError: No such file or directory: '{model}/model-00002-of-00008.safetensors'",
    ),
}  # fmt: skip
_BYTES_GIB = 4.2e-6


class StartFailure(Exception):
    """The start fails with a class of the table."""

    def __init__(self, failure: Class, message: str) -> None:
        super().__init__(message)
        self.failure = failure
        self.message = message


def fail(name: str, launch: Launch, tokens: int = 16384) -> NoReturn:
    """End the start with this class; `tokens` is what the KV cache holds. Raises StartFailure or KeyError."""
    failure = CLASSES[name]
    raise StartFailure(
        failure,
        failure.error.format(
            model=launch.model,
            utilization=launch.memory_utilization,
            desired=launch.memory_utilization * 63.6,
            longest=launch.max_model_len,
            need=launch.max_model_len * _BYTES_GIB,
            have=tokens * _BYTES_GIB,
            tokens=tokens,
        ),
    )


def check_model(launch: Launch, settings: Settings, board: Board) -> None:
    """What the server itself finds before it starts an engine. Raises StartFailure."""
    fault = board.get("start_fail")
    if fault is not None and CLASSES[fault.arg].where == "server":
        fail(fault.arg, launch)
    if settings.check_model and launch.model.startswith("/") and not Path(launch.model).is_dir():
        fail("bad_path", launch)


def tell_core(log: Log, worker: Log, failure: StartFailure) -> None:
    """The lines of the engine core, and of its worker where the cause lies there."""
    error = failure.message
    if failure.failure.where == "worker" and worker is not log:
        worker.alarm("multiproc_executor.py:953", "WorkerProc failed to start.")
        worker.alarm("multiproc_executor.py:953", traceback(error, ("worker = WorkerProc(*args, **kwargs)",)))
        error = (
            "Exception: WorkerProc initialization failed due to an exception in a background process. See stack trace "
            "for root cause."
        )
    log.alarm("core.py:1510", "EngineCore failed to start.")
    trace = traceback(error, ("engine_core = EngineCoreProc(*args, engine_index=dp_rank, **kwargs)",))
    log.alarm("core.py:1510", trace)
    write(f"Process EngineCore:\n{trace}\n", sys.stderr)


def tell_server(failed: dict[int, int | None]) -> None:
    """The server's traceback; `failed` has the codes of the engine cores that it has seen end, by rank."""
    names = {f"EngineCore_DP{rank}" if rank else "EngineCore": code for rank, code in failed.items()}
    error = f"RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {names}"
    write(traceback(error) + "\n", sys.stderr)


def tell(error: str) -> None:
    """A traceback of the server's own."""
    write(traceback(error) + "\n", sys.stderr)
