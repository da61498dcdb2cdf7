"""What Docker says no with, translated: docker-py's errors, those of requests below it, and the Engine's own words."""

from __future__ import annotations

from collections.abc import Iterator

import requests
import urllib3
from docker import errors as docker_errors
from docker.errors import APIError, DockerException

from agent.container.trouble import (
    ContainerGone,
    NameTaken,
    NoImage,
    PullFailed,
    RuntimeRejected,
    RuntimeSilent,
    RuntimeUnreachable,
    StillRuns,
)
from agent.errors import RuntimeTrouble


class DockerUnreachable(RuntimeUnreachable):
    """Nobody takes the connection."""

    code = "docker.unreachable"
    message = "cannot {action}: Docker does not answer on {host} ({why})"
    hint = "does it run? systemctl status docker; docker.host in the site file names its socket"


class DockerDenied(RuntimeUnreachable):
    """The socket is there, and not for us."""

    code = "docker.denied"
    message = "cannot {action}: no right to use {host}"
    hint = "the agent's user has to be in the group that owns the socket, mostly `docker`"
    retryable = False


class DockerTimeout(RuntimeSilent):
    """It took the call and does not answer."""

    code = "docker.timeout"
    message = "cannot {action}: Docker gave no answer within {seconds:g} s"
    hint = "see its log (journalctl -u docker); a hanging driver or disk blocks it; docker.timeout_s sets the wait"


class DockerConflict(NameTaken):
    """The name is taken."""

    code = "docker.conflict"
    message = "cannot {action}: {why}"
    hint = "docker ps -a --filter name=… shows who has the name; one that is being removed holds it for a while"


class DockerStillRuns(StillRuns):
    """It runs, so it is not removed."""

    code = "docker.still_runs"
    message = "cannot {action}: it runs"
    hint = "stop it first"


class DockerGone(ContainerGone):
    """No such container."""

    code = "docker.gone"


class DockerNoImage(NoImage):
    """No such image here."""

    code = "docker.no_image"
    message = "cannot {action}: {why}"
    hint = "pull or build it first: agentctl pull, agentctl build"


class DockerRejected(RuntimeRejected):
    """It understood and said no."""

    code = "docker.rejected"
    message = "cannot {action}: {why}"
    hint = "the launch asks for what this Engine or host does not have"


class DockerPortTaken(RuntimeTrouble):
    """A port that is to be published is in use."""

    code = "docker.port_taken"
    message = "cannot {action}: {why}"
    hint = "ss -ltnp shows who listens on it; stop that, or deploy with --set port=…"


class DockerFailed(RuntimeTrouble):
    """It tried and failed, for reasons of its own."""

    code = "docker.failed"
    message = "cannot {action}: {why}"
    hint = "see its log: journalctl -u docker"


class DockerPullFailed(PullFailed):
    """A pull that may succeed later."""

    code = "docker.pull_failed"
    message = "cannot pull {reference}: {why}"


class DockerPullRefused(PullFailed):
    """A pull that fails again until somebody changes something."""

    code = "docker.pull_refused"
    message = "cannot pull {reference}: {why}"
    retryable = False


SAID: tuple[tuple[str, type[RuntimeTrouble], str], ...] = (
    ("port is already allocated", DockerPortTaken, DockerPortTaken.hint),
    ("address already in use", DockerPortTaken, DockerPortTaken.hint),
    (
        "could not select device driver",
        DockerRejected,
        "Docker knows no GPU driver: install nvidia-container-toolkit and restart Docker",
    ),
    (
        "driver/library version mismatch",
        DockerRejected,
        "the NVIDIA kernel module and the user-space driver differ since an upgrade: reload the module or reboot",
    ),
    (
        "unsatisfied condition",
        DockerRejected,
        "the driver is older than the image asks for: install a newer one, or take an older image",
    ),
    (
        "driver not loaded",
        DockerRejected,
        "the NVIDIA kernel module is not loaded: modprobe nvidia; see dmesg when it will not",
    ),
    (
        "libnvidia-ml.so.1",
        DockerRejected,
        "the driver's libraries are not found: is the driver installed (nvidia-smi)? Then reinstall "
        "nvidia-container-toolkit and restart Docker",
    ),
    ("ldcache error", DockerRejected, "ldconfig in /etc/nvidia-container-runtime/config.toml names no program here"),
    (
        "cgroup subsystem devices not found",
        DockerRejected,
        "nvidia-container-toolkit is too old for this host's control groups: install a newer one",
    ),
    *(
        (
            words,
            DockerRejected,
            "the list of devices is missing or old: nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml",
        )
        for words in ("unresolvable cdi devices", "gpu vendor from cdi")
    ),
    ("unknown device", DockerRejected, "a chosen GPU is not there: compare nvidia-smi -L with the site's `gpus`"),
    ("unknown or invalid runtime name", DockerRejected, "docker info lists the runtimes that there are"),
    ("rlimit", DockerRejected, "this host may not raise that limit; see the launch's --ulimit"),
    ("executable file not found", DockerRejected, "the image has no such program: see the launch's command and image"),
    ("no such file or directory", DockerRejected, "the image has no such program, or a path of the launch is missing"),
    ("bind source path does not exist", DockerRejected, "make the folder or file, or change the launch's mount"),
    ("does not support reading", DockerRejected, "the launch's --log-driver keeps no log here; leave it out"),
    ("no space left on device", DockerFailed, "free space where Docker keeps its data: docker system df"),
)
"""Words of the Engine that tell what is wrong, and what helps."""

PULL_SAID: tuple[tuple[str, type[PullFailed], str], ...] = (
    (
        "toomanyrequests",
        DockerPullFailed,
        "its limit is reached: wait, or `docker login` as the agent's user",
    ),
    ("rate limit", DockerPullFailed, "its limit is reached: wait, or `docker login` as the agent's user"),
    ("no matching manifest", DockerPullRefused, "the image is not published for this machine's architecture"),
    ("manifest unknown", DockerPullRefused, "the registry has the repository and not this tag or digest"),
    ("not found", DockerPullRefused, "the registry has no such tag or digest"),
    ("denied", DockerPullRefused, "it does not exist, or wants a login: `docker login` as the agent's user"),
    ("unauthorized", DockerPullRefused, "it wants a login: `docker login` as the agent's user"),
    ("authentication required", DockerPullRefused, "it wants a login: `docker login` as the agent's user"),
    ("no basic auth credentials", DockerPullRefused, "it wants a login: `docker login` as the agent's user"),
    ("no space left on device", DockerPullRefused, "free space where Docker keeps its data: docker system df"),
    ("http response to https client", DockerPullRefused, "the registry speaks plain HTTP: see insecure-registries"),
    ("x509", DockerPullRefused, "its certificate is not trusted: see /etc/docker/certs.d"),
    ("no such host", DockerPullFailed, "its name does not resolve: is there a network?"),
)

_PULL_HINT = "try again; see journalctl -u docker when it stays"
_NEGOTIATION = ("client version", "is too")
"""What an Engine says that was exchanged for one that does not speak our API version (any more)."""


FOREIGN = (DockerException, requests.RequestException, urllib3.exceptions.HTTPError, OSError)
"""What talking to an Engine may raise."""


def translate(error: BaseException, action: str, host: str, seconds: float) -> RuntimeTrouble:
    """One of `FOREIGN` as one of ours."""
    causes = tuple(_causes(error))
    if (answered := next((cause for cause in causes if isinstance(cause, APIError)), None)) is not None:
        return said(answered, action)
    if not any(isinstance(cause, _TRANSPORT) for cause in causes):
        return DockerRejected(action=action, why=str(error))  # docker-py's own: versions, references, credentials
    if any(isinstance(cause, PermissionError) for cause in causes):
        return DockerDenied(action=action, host=host)
    if any(isinstance(cause, _SILENT) for cause in causes):
        return DockerTimeout(action=action, seconds=seconds)
    return DockerUnreachable(action=action, host=host, why=_why(causes))


_TRANSPORT = (requests.RequestException, urllib3.exceptions.HTTPError, TimeoutError, ConnectionError)
# A unix socket whose backlog is full answers EAGAIN at once: that is an Engine that does not accept any more.
_SILENT = (TimeoutError, requests.Timeout, urllib3.exceptions.TimeoutError, BlockingIOError)


def said(error: APIError, action: str) -> RuntimeTrouble:
    """What the Engine answered, by its words first and its status second."""
    why, status = words_of(error), error.status_code or 0
    for words, kind, hint in SAID:
        if words in why.lower():
            return kind(action=action, why=why, advice=hint)
    if is_negotiation(error):
        return DockerFailed(action=action, why=why, advice="Docker was exchanged: the next call negotiates again")
    if isinstance(error, docker_errors.ImageNotFound):
        return DockerNoImage(action=action, why=why)
    if status == 409:
        return DockerConflict(action=action, why=why)
    kind = DockerRejected if 400 <= status < 500 else DockerFailed
    return kind(action=action, why=why)


def pull_trouble(reference: str, why: str) -> PullFailed:
    """A registry's refusal as a sentence with a way out."""
    kind, hint = next(
        ((kind, hint) for words, kind, hint in PULL_SAID if words in why.lower()), (DockerPullFailed, _PULL_HINT)
    )
    return kind(reference=reference, why=why, advice=hint)


def words_of(error: APIError) -> str:
    """The Engine's own sentence."""
    return " ".join(str(error.explanation or error).split())


def is_gone(error: APIError) -> bool:
    """No such container; a 404 may also speak of a network or an image."""
    return error.status_code == 404 and "no such container" in words_of(error).lower()


def has_ended(error: APIError) -> bool:
    """A signal to a container that does not run; Engines before 23 say it with status 500."""
    return "is not running" in words_of(error).lower()


def is_going(error: APIError) -> bool:
    """It is being removed already."""
    return error.status_code == 409 and "already in progress" in words_of(error).lower()


def is_negotiation(error: BaseException) -> bool:
    """Whether the Engine turned down our API version."""
    return isinstance(error, APIError) and all(words in words_of(error).lower() for words in _NEGOTIATION)


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and what led to it: chained, or carried in its arguments as urllib3 does."""
    waiting, seen = [error], set[int]()
    while waiting:
        current = waiting.pop(0)
        if id(current) in seen:
            continue
        seen.add(id(current))
        yield current
        linked = (current.__cause__, current.__context__, *current.args)
        waiting += [cause for cause in linked if isinstance(cause, BaseException)]


def _why(causes: tuple[BaseException, ...]) -> str:
    """The most basic reason, which is the operating system's."""
    basic = [cause.strerror for cause in causes if isinstance(cause, OSError) and cause.strerror]
    return basic[-1] if basic else str(causes[-1])
