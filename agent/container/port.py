"""The port to what runs engines. Two adapters implement it (Docker, plain processes); one contract suite tests both."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

LABEL_RECIPE = "recipe-agent.recipe"
LABEL_PLAN = "recipe-agent.plan"
LABEL_GENERATION = "recipe-agent.generation"
LABEL_PORT = "recipe-agent.port"
"""The engine's own port, which neither a host network nor a list of exposed ports tells."""
LABEL_SECRETS = "recipe-agent.secrets"
"""Where secrets stand in the body (`HF_TOKEN`, `Cmd[3]`), so that evidence can leave them out."""


class RunState(StrEnum):
    """What a container is, in Docker's words."""

    CREATED = "created"
    RUNNING = "running"
    PAUSED = "paused"
    RESTARTING = "restarting"
    REMOVING = "removing"
    EXITED = "exited"
    DEAD = "dead"


@dataclass(frozen=True, slots=True)
class ContainerSpec:
    """What to create: a plan's body with the agent's own labels, restart policy and log bounds already in it."""

    slug: str
    plan_id: str
    generation: int
    name: str
    body: Mapping[str, Any] = field(repr=False)
    """Secrets stand in it in the clear."""
    platform: str | None = None


@dataclass(frozen=True, slots=True)
class ContainerView:
    """What the runtime says about one container of ours. Times are seconds since the epoch."""

    id: str
    name: str
    slug: str
    plan_id: str
    generation: int
    state: RunState
    pid: int | None = None
    """Pid of its first process, in the host's numbers as this agent's /proc shows them; None when it does not run."""
    exit_code: int | None = None
    oom_killed: bool = False
    error: str = ""
    started_at: float | None = None
    finished_at: float | None = None
    image: str = ""
    address: tuple[str, int] | None = None
    """Host and port where the agent reaches the engine; None where nothing is published or it does not run."""
    hidden: str = ""
    """Why it cannot be watched from where the agent is, though it runs; then it has neither pid nor address."""

    @property
    def running(self) -> bool:
        return self.state is RunState.RUNNING


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line of an engine's output; `at` is seconds since the epoch, None where the runtime does not say."""

    text: str
    at: float | None = None


@dataclass(frozen=True, slots=True)
class StopRequest:
    """Somebody asked the runtime to stop a container (`docker stop`, `docker kill`)."""

    at: float
    signal: str


@dataclass(frozen=True, slots=True)
class ImageFacts:
    """An image that is there."""

    id: str
    digests: tuple[str, ...] = ()
    size: int | None = None
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    env: Mapping[str, str] | None = None
    user: str = ""
    architecture: str = ""


@dataclass(frozen=True, slots=True)
class PullProgress:
    """Where a pull is: bytes over all layers known so far (total None until the registry says)."""

    done: int
    total: int | None
    layers_done: int
    layers: int
    text: str


@dataclass(frozen=True, slots=True)
class RuntimeFacts:
    """What the runtime is: name, version, API version, root folder, notes that preflight and doctor show."""

    name: str
    version: str
    api_version: str | None = None
    rootless: bool = False
    root_dir: str | None = None
    runtimes: tuple[str, ...] = ()
    storage_driver: str | None = None
    live_restore: bool | None = None
    cgroup_version: str | None = None
    cgroup_driver: str | None = None
    """`systemd` or `cgroupfs`."""
    default_runtime: str | None = None
    operating_system: str | None = None
    """As the engine names it (`Docker Desktop`, `Debian GNU/Linux 12`)."""
    hidden: str = ""
    """Why what it runs cannot be watched from where the agent is."""
    machine: str | None = None
    """`x86_64`, `aarch64`."""


class Runtime(Protocol):
    """What supervision needs of a runtime.

    Every call ends within its own deadline and raises only `RuntimeTrouble` (with `retryable`; the kinds stand in
    `agent.container.trouble`). A container that is not there is `None` or nothing; only `start` and `save_log`, which
    have nothing to answer then, raise `ContainerGone`.
    """

    kind: str
    """`docker` or `process`."""
    lags: bool
    """Whether a stream of `follow` may stand still while its log goes on, and has to be held against the log's end."""

    async def facts(self) -> RuntimeFacts: ...

    async def list(self, slug: str | None = None) -> tuple[ContainerView, ...]:
        """All containers with our labels, any state, any generation; of one deployment where `slug` is given.

        Each is looked at by itself, so a deployment asks for its own: sixteen that ask for all make 256 looks.
        """
        ...

    async def view(self, container_id: str) -> ContainerView | None: ...

    async def inspect(self, container_id: str) -> Mapping[str, Any] | None:
        """The runtime's whole word on a container, for evidence: secrets left out."""
        ...

    async def create(self, spec: ContainerSpec) -> str:
        """Create without starting; the id. Equal spec created twice (a kill in between) is found by `list`.

        Raises `NameTaken` where the name is somebody's, `NoImage` where the image is not there.
        """
        ...

    async def start(self, container_id: str) -> None: ...

    async def signal(self, container_id: str, name: str) -> None:
        """Send TERM, KILL, … to it; a container that has exited already is no error."""
        ...

    async def remove(self, container_id: str) -> None:
        """Remove it, with its name free when this returns; not there is no error, running is (`StillRuns`)."""
        ...

    def follow(self, container_id: str, since: float | None) -> AsyncIterator[LogLine]:
        """Its output after `since`, until it ends or the stream breaks (which is no end of the container).

        Given the `at` of the last line seen, it goes on behind that line.
        """
        ...

    async def tail(self, container_id: str, lines: int) -> tuple[LogLine, ...]: ...

    async def save_log(self, container_id: str, path: Path) -> int:
        """Its whole log into `path` (created whole or not at all); bytes written."""
        ...

    async def stop_requested(self, container_id: str, since: float) -> StopRequest | None:
        """The last stop that anybody asked of the runtime for it since then, ours included."""
        ...

    async def name_holder(self, name: str) -> ContainerView | str | None:
        """Who has this name: a container of ours, or the id of a foreign one."""
        ...

    async def image(self, reference: str) -> ImageFacts | None: ...

    def pull(self, reference: str) -> AsyncIterator[PullProgress]:
        """Fetch an image; it is there when this ends. Figures never go back. Raises `PullFailed` with the reason."""
        ...

    def events(self) -> AsyncIterator[str]:
        """Slugs whose containers changed. Only wakes loops: it may end or miss things at any time."""
        ...

    async def close(self) -> None: ...
