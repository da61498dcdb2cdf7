"""The one family of errors. The API, the CLI's exit status and the log render the same fields."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs 4 ms at the start of every command
    from typing import Any, ClassVar


class AgentError(Exception):
    """Something that cannot be done, why, and what to do about it.

    `code` is stable and dotted (`preflight.gpu_busy`); `message` and `hint` are templates over the keyword arguments;
    `exit_code` is what `agentctl` ends with; `http_status` what the API answers. A subclass may be raised with
    `message=`/`hint=` where the sentence is only known at the spot.
    """

    code: ClassVar[str] = "internal"
    message: ClassVar[str] = "cannot go on: {why}"
    hint: ClassVar[str] = ""
    retryable: ClassVar[bool] = False
    exit_code: ClassVar[int] = 1
    http_status: ClassVar[int] = 500

    def __init__(self, text: str | None = None, *, advice: str | None = None, **details: Any) -> None:
        self.details = details
        self.text = text if text is not None else self.message.format(**details)
        self.advice = advice if advice is not None else self.hint.format(**details)
        super().__init__(self.text)

    def as_dict(self) -> dict[str, Any]:
        """The `error` object of the API and of `-o json`: code, message, hint, details."""
        return {"code": self.code, "message": self.text, "hint": self.advice, "details": plain(self.details)}


def plain(value: Any) -> Any:
    """`value` as JSON can carry it: unknown types become their text."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    return str(value)


class UsageError(AgentError):
    """The words of the call are off."""

    code = "usage"
    message = "cannot do that: {why}"
    hint = "agentctl --help lists the commands, agentctl COMMAND --help what each takes"
    exit_code = 2
    http_status = 400


class InvalidInput(AgentError):
    """A document, a file or a request body that cannot be read as what it should be."""

    code = "input.invalid"
    message = "cannot read {what}: {why}"
    hint = "check that it is what is meant, whole, and readable for this user"
    exit_code = 1
    http_status = 422


class Refused(AgentError):
    """Preflight, policy, conversion, or a plan that still misses something."""

    code = "refused"
    message = "cannot go on: {why}"
    exit_code = 3
    http_status = 409


class NotFound(AgentError):
    """No such recipe or deployment."""

    code = "not_found"
    message = "cannot find {what} {name!r}: {why}"
    hint = "agentctl status lists the deployments, agentctl recipes search the recipes"
    exit_code = 4
    http_status = 404


class Unreachable(AgentError):
    """The agent's API does not answer."""

    code = "agent.unreachable"
    message = "cannot reach the agent at {where}: {why}"
    hint = "is it running? systemctl status recipe-agent; without systemd: recipe-agent, in another terminal"
    retryable = True
    exit_code = 5
    http_status = 503


class TimedOut(AgentError):
    """Waited as long as was asked."""

    code = "timeout"
    message = "cannot wait longer for {what}: {why}"
    hint = "it goes on by itself: agentctl status and agentctl events show it"
    retryable = True
    exit_code = 6
    http_status = 504


class RuntimeTrouble(AgentError):
    """Docker or the process runtime did not do what was asked (gone, hung, or said no)."""

    code = "runtime.failed"
    message = "cannot {action}: {why}"
    hint = "agentctl doctor looks at this host's container engine, driver and disks"
    retryable = True
    http_status = 502
