"""Why an engine failed: the first root cause in a pile of tracebacks, and what can be done about its class."""

from __future__ import annotations

from collections.abc import Sequence

from agent.engines.model import FailureClass, LogEvent
from agent.verdict.model import Remedy

# The later a class stands here, the more it is a mere consequence of something else; the first tier that occurs wins,
# and of it the first line. What is in no tier is a root cause.
CONSEQUENCES: tuple[frozenset[FailureClass], ...] = (
    frozenset({FailureClass.NCCL, FailureClass.HANG, FailureClass.NETWORK}),
    frozenset({FailureClass.WORKER_DIED}),
    frozenset({FailureClass.ENGINE_DEAD, FailureClass.START_FAILED, FailureClass.UNKNOWN}),
)

CONFIGURATION = frozenset(
    {
        FailureClass.BAD_FLAG,
        FailureClass.MODEL_PATH,
        FailureClass.WEIGHTS,
        FailureClass.ARCHITECTURE,
        FailureClass.IMAGE,
        FailureClass.AUTHENTICATION,
        FailureClass.KV_TOO_SMALL,
        FailureClass.MEMLOCK,
        FailureClass.DISK_FULL,
    }
)
"""The same start ends the same way: a restart cannot mend it."""

WORDS = {
    FailureClass.BAD_FLAG: "the command line is not accepted",
    FailureClass.MODEL_PATH: "the model is not found",
    FailureClass.WEIGHTS: "weight files are broken or incomplete",
    FailureClass.ARCHITECTURE: "this image does not support the card or the model",
    FailureClass.IMAGE: "the image lacks a library or a compiler that the engine needs",
    FailureClass.AUTHENTICATION: "the model's host refuses access",
    FailureClass.KV_TOO_SMALL: "the KV cache does not fit the memory that is left",
    FailureClass.PORT: "its port is taken",
    FailureClass.DRIVER: "the driver does not fit the image",
    FailureClass.GPU_BUSY: "the cards' memory is not free",
    FailureClass.GPU_OOM: "the cards' memory ran out",
    FailureClass.HOST_OOM: "the host's memory ran out",
    FailureClass.NETWORK: "the model's host cannot be reached",
    FailureClass.DISK_FULL: "its disk is full",
    FailureClass.NVML_LOST: "the container lost its cards",
    FailureClass.NO_CARDS: "the engine sees no cards",
    FailureClass.CUDA_FAULT: "a kernel failed on the card",
    FailureClass.NCCL: "communication between ranks failed",
    FailureClass.SHARED_MEMORY: "shared memory is full or left over",
    FailureClass.MEMLOCK: "memory cannot be locked (ulimit memlock)",
    FailureClass.ENGINE_DEAD: "the engine core died",
    FailureClass.WORKER_DIED: "a worker process died",
    FailureClass.HANG: "a worker did not answer in time",
    FailureClass.START_FAILED: "the engine could not start",
    FailureClass.UNKNOWN: "no reason was found in the log",
}


def root_cause(failures: Sequence[LogEvent]) -> LogEvent | None:
    """The line that names the cause: the first of the first tier that occurs."""
    for tier in range(-1, len(CONSEQUENCES)):
        for event in failures:
            if event.failure is not None and tier_of(event.failure) == tier:
                return event
    return None


def tier_of(failure: FailureClass) -> int:
    """-1 for a root cause, else how far down the chain of consequences."""
    return next((index for index, tier in enumerate(CONSEQUENCES) if failure in tier), -1)


def remedy_of(failure: FailureClass | None, *, started: bool) -> Remedy:
    """What helps. `started`: it had been ready; out of memory is bad luck then, and the set-up's fault before."""
    if failure is FailureClass.DRIVER:
        return Remedy.QUARANTINE
    if failure in CONFIGURATION or (failure is FailureClass.GPU_OOM and not started):
        return Remedy.GIVE_UP
    return Remedy.RESTART
