"""How a runtime can fail, in kinds that both runtimes share; the adapters give them their own codes and sentences."""

from __future__ import annotations

from agent.errors import RuntimeTrouble


class RuntimeUnreachable(RuntimeTrouble):
    """Nobody answers where the runtime should be. Says nothing about the containers."""

    code = "runtime.unreachable"
    http_status = 503


class RuntimeSilent(RuntimeTrouble):
    """It took the call and gave no answer in time. Whether it did what was asked is unknown: look again."""

    code = "runtime.timeout"
    http_status = 504


class RuntimeRejected(RuntimeTrouble):
    """It understood and said no; asking again gives the same answer."""

    code = "runtime.rejected"
    retryable = False
    http_status = 422


class NameTaken(RuntimeTrouble):
    """Another container has the name, or one that is being removed still holds it."""

    code = "runtime.conflict"
    http_status = 409


class StillRuns(RuntimeTrouble):
    """It has to end before this can be done."""

    code = "runtime.still_runs"
    http_status = 409


class ContainerGone(RuntimeTrouble):
    """There is no such container any more."""

    code = "runtime.gone"
    message = "cannot {action}: there is no container {container}"
    hint = "look again: it was removed by somebody"
    retryable = False
    http_status = 404


class NoImage(RuntimeTrouble):
    """The image is not there."""

    code = "runtime.no_image"
    retryable = False
    http_status = 404


class PullFailed(RuntimeTrouble):
    """The image could not be fetched."""

    code = "runtime.pull_failed"
