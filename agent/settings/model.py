"""The site file (`agent.yaml`): every key with its default. Unknown keys are errors."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field


class Section(BaseModel):
    """A part of the site file."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Paths(Section):
    """Where things lie on this host."""

    state: Path = Field(Path("/var/lib/recipe-agent"), description="State, plans and incidents.")
    cache: Path = Field(Path("/var/cache/recipe-agent"), description="Fetched recipes, git mirrors, build contexts.")
    socket: Path = Field(Path("/run/recipe-agent/agent.sock"), description="The API's unix socket.")
    recipes: Path = Field(Path("/etc/recipe-agent/recipes"), description="Recipes of the operator's own.")
    profiles: Path = Field(Path("/etc/recipe-agent/profiles"), description="Profiles of the operator's own.")


class Listen(Section):
    """The TCP side: the status page, /metrics, /healthz and /readyz."""

    address: str = Field("127.0.0.1", description="Address to listen on.")
    port: int = Field(9465, ge=0, le=65535, description="0 switches the TCP side off.")


class Docker(Section):
    """The container engine."""

    host: str = Field("unix:///var/run/docker.sock", description="Its socket; only a local one is supported.")
    timeout_s: float = Field(30.0, gt=0, description="Longest wait for one answer, in seconds.")


class Policy(Section):
    """What a recipe, which is data from strangers, may ask of this host."""

    mount_roots: tuple[str, ...] = Field(
        (), description="Host folders that a launch may mount; the values of `variables` that are paths count as such."
    )
    host_ipc: bool = Field(True, description="Allow --ipc=host.")
    host_network: bool = Field(False, description="Allow --network host.")
    host_pid: bool = Field(False, description="Allow --pid host.")
    privileged: bool = Field(False, description="Allow --privileged.")
    docker_socket: bool = Field(False, description="Allow a mount of the Docker socket.")
    capabilities: tuple[str, ...] = Field((), description="Capabilities that a launch may add.")
    devices: tuple[str, ...] = Field((), description="Host devices that a launch may ask for, beside its GPUs.")
    security_options: tuple[str, ...] = Field((), description="Values of --security-opt that a launch may use.")
    registries: tuple[str, ...] = Field((), description="Registries that images may come from; empty allows all.")
    require_digest: bool = Field(False, description="Only images that are named by digest.")


class Budget(Section):
    """Restarts."""

    restarts: int = Field(3, ge=0, description="Restarts since the last proven healthy time.")
    backoff_s: tuple[Annotated[float, Field(ge=0)], ...] = Field(
        (10.0, 30.0, 60.0, 120.0, 300.0), description="Waits before the second, third, … restart of one budget."
    )


class Logs(Section):
    """The agent's own log and the bounds of the engines' logs."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    form: Literal["auto", "json", "text"] = Field("auto", description="auto: text on a terminal, else JSON.")
    engine_max_size: str = Field("50m", description="Size at which a container's log is rotated.")
    engine_max_files: int = Field(4, ge=1, description="Rotated files kept.")


class Incidents(Section):
    """Retention of evidence."""

    keep_days: int = Field(90, ge=1)
    max_bytes: int = Field(2_000_000_000, ge=1_000_000)


class Settings(Section):
    """The whole site file."""

    sources: tuple[str, ...] = Field(
        ("https://localairecipes.com",), description="Recipe sites (URLs) and folders, asked in this order."
    )
    variables: dict[str, str] = Field(default_factory=dict, description="Values of $NAME in launches.")
    secrets: dict[str, Path] = Field(default_factory=dict, description="NAME of a secret → file that holds it.")
    gpus: tuple[str, ...] = Field((), description="Cards for recipes: index, UUID or PCI address; empty is all.")
    runtime: Literal["auto", "docker", "process"] = Field("auto", description="auto: docker where an Engine answers.")
    image: Literal["auto", "build"] = Field("auto", description="build: never use a local image of the launch's name.")
    supervision: Literal["active", "observe", "paused"] = Field("active", description="For new deployments.")
    paths: Paths = Paths()
    listen: Listen = Listen()
    docker: Docker = Docker()
    policy: Policy = Policy()
    budget: Budget = Budget()
    logs: Logs = Logs()
    incidents: Incidents = Incidents()
