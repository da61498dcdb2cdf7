"""What the process runtime says no with."""

from __future__ import annotations

from agent.container.trouble import ContainerGone, NameTaken, RuntimeRejected, RuntimeSilent, StillRuns
from agent.errors import RuntimeTrouble


class ProcessRejected(RuntimeRejected):
    """The launch cannot be run as a plain process."""

    code = "process.rejected"
    message = "cannot {action}: {why}"
    hint = "deploy it with the docker runtime, or describe its command line in a site profile"


class ProcessTimeout(RuntimeSilent):
    """The host did not answer: a disk or /proc that hangs."""

    code = "process.timeout"
    message = "cannot {action}: no answer within {seconds:g} s"
    hint = "look for processes in state D (ps axo pid,stat,wchan,args) and for a hanging file system"


class ProcessNameTaken(NameTaken):
    """A record with this name is still there."""

    code = "process.conflict"
    message = "cannot {action}: {name} is there already (generation {generation}, {state})"
    hint = "it has to end and be removed first"


class ProcessGone(ContainerGone):
    """No such record."""

    code = "process.gone"


class ProcessStillRuns(StillRuns):
    """Something of it lives on, perhaps unkillable."""

    code = "process.still_runs"
    message = "cannot {action}: {why}"
    hint = "processes in state D cannot be ended: they wait in the kernel, mostly for a driver or a disk"


class ProcessFailed(RuntimeTrouble):
    """The operating system said no."""

    code = "process.failed"
    message = "cannot {action}: {why}"
    hint = "see whether the state folder is there, writable and has space left"


class NoUnit(RuntimeTrouble):
    """systemd listens for engines, and none got a unit of its own."""

    code = "process.unit"
    message = "cannot {action}: no unit of its own: {why}"
    hint = (
        "journalctl -u 'recipe-agent-engine@*' says why; systemctl stop recipe-agent-engine.socket lets engines start "
        "inside the agent's own unit, with its sandbox"
    )
