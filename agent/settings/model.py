"""The site file (`agent.yaml`): every key with its default. Unknown keys are errors."""

from __future__ import annotations

import re
from datetime import UTC, tzinfo
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from agent.settings.words import Seconds, Size


class Section(BaseModel):
    """A part of the site file."""

    model_config = ConfigDict(extra="forbid", frozen=True, coerce_numbers_to_str=True)


def _absolute(path: Path) -> Path:
    if not path.is_absolute():
        raise ValueError(f"{str(path)!r} is relative: write the whole path, since the agent has no folder of its own")
    return path


def _source(text: str) -> str:
    if not text.startswith(("http://", "https://", "/")):
        raise ValueError(f"{text!r} is neither a URL (https://…) nor the whole path of a folder (/…)")
    if "@" in text.partition("//")[2].partition("/")[0] and not text.startswith("/"):
        raise ValueError("a source with a user or a password would stand in every plan: use one that needs none")
    return text.rstrip("/") or "/"


CREDENTIALS = "${CREDENTIALS_DIRECTORY}"
"""Where systemd lays what the unit's LoadCredential= names; the folder is another one at every start."""


def _file(path: Path) -> Path:
    if path.is_absolute():
        return path
    name = path.relative_to(CREDENTIALS) if path.is_relative_to(CREDENTIALS) else path
    if len(name.parts) != 1 or name.name == ".." or "$" in name.name:
        raise ValueError(f"{str(path)!r} is neither a whole path (/…) nor the name of a credential of the unit")
    return Path(CREDENTIALS) / name


def _host_name(text: str) -> str:
    if not text or set(text) & set("/:@ ,"):
        raise ValueError(f"{text!r} is no host name: write it without scheme, port and path")
    return text.lower().rstrip(".")


Place = Annotated[Path, AfterValidator(_absolute)]
Source = Annotated[str, AfterValidator(_source)]
SecretFile = Annotated[Path, AfterValidator(_file)]
"""A whole path, or the name of a credential: `hf_token` is `${CREDENTIALS_DIRECTORY}/hf_token`."""
HostName = Annotated[str, AfterValidator(_host_name)]


class Paths(Section):
    """Where things lie on this host."""

    state: Place = Field(Path("/var/lib/recipe-agent"), description="State, plans and incidents.")
    cache: Place = Field(Path("/var/cache/recipe-agent"), description="Fetched recipes, git mirrors, build contexts.")
    socket: Place = Field(Path("/run/recipe-agent/agent.sock"), description="The API's unix socket.")
    recipes: Place = Field(Path("/etc/recipe-agent/recipes"), description="Recipes of the operator's own.")
    profiles: Place = Field(Path("/etc/recipe-agent/profiles"), description="Profiles of the operator's own.")


class Fetching(Section):
    """How recipe sites are asked."""

    timeout_s: Seconds = Field(20.0, gt=0, description="Longest wait for one answer of a site.")
    recheck_s: Seconds = Field(
        300.0, ge=0, description="A pinned recipe that was compared with its site less than this ago is not asked for."
    )


class Tls(Section):
    """HTTPS instead of HTTP; files that change are read again."""

    certificate: SecretFile | None = Field(None, description="The certificate with its chain (PEM); without it, HTTP.")
    key: SecretFile | None = Field(None, description="Its key, without a passphrase.")
    client_ca: SecretFile | None = Field(
        None, description="The CA (PEM) of clients: a certificate that it signed opens as much as a token."
    )

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if (self.certificate is None) != (self.key is None):
            raise ValueError("certificate and key belong together: one of them is missing")
        if self.client_ca is not None and self.certificate is None:
            raise ValueError("client_ca wants a certificate and a key: clients show theirs over TLS only")
        return self


class Listen(Section):
    """The TCP side. Without a token or a client's certificate it answers the status page, /metrics, /healthz, /readyz
    and /openapi.json alone."""

    address: str = Field("127.0.0.1", description="Address to listen on.")
    port: int = Field(9465, ge=0, le=65535, description="0 switches the TCP side off.")
    token_file: SecretFile | None = Field(
        None,
        description="File of tokens, one a line, at least 16 characters each; without it no token opens anything. Read "
        "again when it changes.",
    )
    names: tuple[HostName, ...] = Field(
        (), description="Names, beside the host's own, under which browsers may ask for the open pages."
    )
    rate_per_s: float = Field(20.0, gt=0, description="Requests a second that one address may send.")
    burst: int = Field(100, ge=10, description="Requests that one address may send at once.")
    tls: Tls = Tls()


class Docker(Section):
    """The container engine."""

    host: str = Field("unix:///var/run/docker.sock", description="Its socket; only a local one is supported.")
    timeout_s: Seconds = Field(30.0, gt=0, description="Longest wait for one answer.")


class Images(Section):
    """What pulls and builds may take of this host while engines serve."""

    pulls_at_once: int = Field(2, ge=1, le=64, description="Images fetched side by side; further ones wait.")
    disk_reserve: Size = Field(
        10_000_000_000, ge=0, description="Room that is left free where the images are, whatever is fetched."
    )
    build_cpu_shares: int = Field(
        128,
        ge=2,
        le=1024,
        description="Weight of a build; containers have 1024, so it gets what they leave.",
    )


class Policy(Section):
    """What a recipe, which is data from strangers, may ask of this host."""

    mount_roots: tuple[Place, ...] = Field(
        (), description="Host folders that a launch may mount; the values of `variables` that are paths count as such."
    )
    host_ipc: bool = Field(True, description="Allow --ipc=host.")
    host_network: bool = Field(False, description="Allow --network host.")
    host_pid: bool = Field(False, description="Allow --pid host.")
    privileged: bool = Field(False, description="Allow --privileged.")
    docker_socket: bool = Field(False, description="Allow a mount of the Docker socket.")
    capabilities: tuple[str, ...] = Field((), description="Capabilities that a launch may add, e.g. IPC_LOCK.")
    devices: tuple[str, ...] = Field((), description="Host devices that a launch may ask for, beside its GPUs.")
    security_options: tuple[str, ...] = Field((), description="Values of --security-opt that a launch may use.")
    allow: tuple[str, ...] = Field(
        (), description="Rarer flags that a launch may use, word by word, e.g. --volumes-from or --uts=host."
    )
    build_commands: bool = Field(True, description="Scripts of a recipe's sources may run while its image is built.")
    registries: tuple[str, ...] = Field(
        (), description="Registries that images may come from, e.g. docker.io; empty allows all."
    )
    require_digest: bool = Field(False, description="Only images that are named by digest.")
    image_checks: bool = Field(
        True, description="Checks may run an image's own argument parser, without rights, before its engine is started."
    )


class Budget(Section):
    """Restarts."""

    restarts: int = Field(3, ge=0, description="Restarts since the last proven healthy time.")
    host_restarts: int = Field(
        12, ge=1, description="Restarts for faults within an hour, all deployments together; further ones wait."
    )
    backoff_s: tuple[Annotated[Seconds, Field(ge=0)], ...] = Field(
        (10.0, 30.0, 60.0, 120.0, 300.0), description="Waits before the second, third, … restart of one budget."
    )


def _cron(text: str) -> str:
    # the scheduler that will read it decides; it is imported only where a site has windows
    from apscheduler.triggers.cron import CronTrigger

    if re.search(r"(?<![/\d])\d", " ".join(text.split()[4:])):
        raise ValueError(
            f"{text!r} has a weekday as a number, and 0 is Sunday to cron and Monday here: write sun or mon"
        )
    try:
        CronTrigger.from_crontab(text, timezone=UTC)  # of no zone: it would look for this host's, which may have none
    except (ValueError, TypeError) as error:
        raise ValueError(f"{text!r} is no cron expression (minute hour day month weekday): {error}") from error
    return text


def zone(name: str) -> tzinfo:
    """A zone by its name; UTC also on a host without a time zone database, as small images are.

    Raises what ZoneInfo does: ValueError, OSError, and KeyError for a zone that is not there.
    """
    from zoneinfo import ZoneInfo

    return UTC if name == "UTC" else ZoneInfo(name)


def _zone(text: str) -> str:
    try:
        zone(text)
    except (ValueError, OSError, KeyError) as error:
        raise ValueError(f"{text!r} is no time zone of this host, as Europe/Berlin would be") from error
    return text


class Maintenance(Section):
    """When upgrades, and restarts that can wait, may interrupt an engine that serves. Faults never wait.

    Without windows nothing but a person restarts an engine that serves.
    """

    windows: tuple[Annotated[str, AfterValidator(_cron)], ...] = Field(
        (), description='Cron expressions at which a window opens, e.g. "0 3 * * sun"; without any it is always open.'
    )
    length_s: Seconds = Field(7200.0, gt=0, description="How long a window stays open.")
    timezone: Annotated[str, AfterValidator(_zone)] = Field("UTC", description="The zone of the expressions.")
    restart_for: tuple[Literal["slow", "memory"], ...] = Field(
        ("slow", "memory"),
        description="What an engine that serves is restarted for in a window by itself, once a window at most. slow: "
        "below its recipe's claims, for a reason that a new start may mend; memory: its processes' memory grows and "
        "does not come back. [] for nothing. Without windows it is told and left alone.",
    )
    settled_s: Seconds = Field(
        1800.0, gt=0, description="How long that must have lasted, and how long an engine warms up after its start."
    )
    memory_growth: Size = Field(
        4_000_000_000, gt=0, description="Growth that counts, where what is left would not last two weeks at its pace."
    )
    memory_span_s: Seconds = Field(
        86_400.0,
        gt=0,
        description="The least memory of so long is held against that of the time before, three times over: a load "
        "that comes every day, or a cache that fills, is no growth.",
    )
    drain_s: Seconds = Field(60.0, ge=0, description="How long such a restart waits for clients before it cuts them.")


class Verify(Section):
    """Scheduled verification: engines that nobody uses are measured in short and held against their recipes' claims,
    beside nothing else, and only until somebody comes. What was measured in full before is kept."""

    cron: Annotated[str, AfterValidator(_cron)] | None = Field(
        None,
        description='Cron expression at which it begins, e.g. "0 4 * * *", in the zone of `maintenance`; without it '
        "nothing is measured but by `agentctl verify`.",
    )


class Logs(Section):
    """The agent's own log and the bounds of the engines' logs."""

    level: Literal["debug", "info", "warning", "error"] = Field("info", description="Least level that is written.")
    form: Literal["auto", "json", "text"] = Field("auto", description="auto: text on a terminal, else JSON.")
    engine_max_size: Size = Field(50_000_000, ge=100_000, description="Size at which a container's log is rotated.")
    engine_max_files: int = Field(4, ge=1, description="Rotated files kept.")


class Incidents(Section):
    """Retention of evidence."""

    keep_days: int = Field(90, ge=1, description="Days that an incident is kept.")
    max_bytes: Size = Field(2_000_000_000, ge=1_000_000, description="All incidents together; the oldest go first.")


WORDS = {"host": "", "summary": "", "lines": "", "count": 0, "weight": ""}
"""What the templates of a message may name."""


def _template(text: str) -> str:
    try:
        text.format_map(WORDS)
    except (KeyError, ValueError, IndexError, AttributeError) as error:
        known = ", ".join(f"{{{word}}}" for word in WORDS)
        raise ValueError(f"{text!r} is no template: {error}; it may name {known}") from None
    return text


Template = Annotated[str, AfterValidator(_template)]


class Notifications(Section):
    """Messages to people, for sites without Prometheus; `agentctl notify test` tries them."""

    services: tuple[SecretFile, ...] = Field(
        (),
        description="Files with Apprise URLs, one a line (ntfy://…, slack://…, discord://…, tgram://…, mailto://…, "
        "json://…). They hold keys, so they stand in files or credentials of the unit.",
    )
    group_s: Seconds = Field(15.0, ge=0, description="Troubles within so long are one message.")
    repeat_s: Seconds = Field(
        14_400.0, ge=60, description="A trouble of the same kind is told again only after so long; meanwhile it counts."
    )
    title: Template = Field("{host}: {summary}", description="A message's title.")
    body: Template = Field("{lines}", description="Its text; templates may name host, summary, lines, count, weight.")
    heartbeat: SecretFile | None = Field(
        None, description="File with the URL of a dead-man switch, asked while every deployment is looked after."
    )
    heartbeat_s: Seconds = Field(60.0, ge=5, description="How often it is asked.")


class Settings(Section):
    """The whole site file."""

    sources: tuple[Source, ...] = Field(
        ("https://localairecipes.com",), description="Recipe sites (URLs) and folders, asked in this order."
    )
    variables: dict[str, str] = Field(default_factory=dict, description="Values of $NAME in launches.")
    secrets: dict[str, SecretFile] = Field(
        default_factory=dict,
        description="NAME of a secret → file that holds it: a whole path, or the name of a credential of the unit "
        "(LoadCredential=).",
    )
    gpus: tuple[str, ...] = Field((), description="Cards for recipes: index, UUID or PCI address; empty is all.")
    runtime: Literal["auto", "docker", "process"] = Field("auto", description="auto: docker where an Engine answers.")
    image: Literal["auto", "build"] = Field("auto", description="build: never use a local image of the launch's name.")
    supervision: Literal["active", "observe", "paused"] = Field("active", description="For new deployments.")
    paths: Paths = Paths()
    fetching: Fetching = Fetching()
    listen: Listen = Listen()
    docker: Docker = Docker()
    images: Images = Images()
    policy: Policy = Policy()
    budget: Budget = Budget()
    maintenance: Maintenance = Maintenance()
    verify: Verify = Verify()
    logs: Logs = Logs()
    incidents: Incidents = Incidents()
    notifications: Notifications = Notifications()
