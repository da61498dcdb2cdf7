"""Why there is no plan."""

from __future__ import annotations

from agent.errors import Refused


class PolicyRefused(Refused):
    """The launch asks for more of this host than the site allows. `details["refusals"]` lists each flag with its risk
    and the line of agent.yaml that would allow it."""

    code = "policy.refused"
    message = "cannot plan {slug}: {flags} is not allowed here: {risk}"
    hint = "if you trust this recipe with that, add to agent.yaml: {line}"


class UnfitGpus(Refused):
    """The cards that the site chose are not there, or not as many as the launch needs."""

    code = "plan.gpus"
    message = "cannot plan {slug}: {why}"
    hint = "{how}"


class NotMeant(Refused):
    """The docker CLI accepts the launch, and the container would not be what its author meant."""

    code = "plan.not_meant"
    message = "cannot plan {slug}: {text}"
    hint = "what was meant is {instead}: correct the recipe, or state launch.line in the site profile"


class NoProcess(Refused):
    """A container's launch that a plain process cannot be."""

    code = "plan.no_process"
    message = "cannot plan {slug} for the process runtime: {why}"
    hint = "{how}"


class SecretSet(Refused):
    """A secret on a command line, where the shell's history and the process list keep it."""

    code = "plan.secret_set"
    message = "cannot take {name} from the command line: it is a secret"
    hint = "put it into a file that only the agent can read, and name that: secrets: {{{name}: /path}} in agent.yaml"
