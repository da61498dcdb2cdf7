"""From a read launch to the body that this host runs: the runtime's form, the site's changes, secrets by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent.engines.model import Command
from agent.engines.registry import engine_of
from agent.launch.model import CommandLaunch, ContainerLaunch, Context
from agent.plan import container
from agent.plan.author import reading
from agent.plan.draft import Draft, Launch
from agent.plan.hide import without_secrets
from agent.plan.image import reference_of
from agent.plan.model import Missing
from agent.plan.runtime import DOCKER, default_flags, process_body, unwrapped, wrapped
from agent.plan.trouble import NotMeant
from agent.profile.document import Profile
from agent.settings.model import Settings

_UNMEANT = ("gpus.ids_lost", "gpus.count_of_list", "gpus.count_zero")
"""The CLI accepts it, and the container has other cards than its author wrote, or cannot start."""


@dataclass(frozen=True, slots=True)
class Made:
    """A body in its runtime's form; empty where there is no launch, or no image for it."""

    body: dict[str, Any] = field(default_factory=dict)
    name: str | None = None
    platform: str | None = None
    missing: tuple[Missing, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Site:
    """Who runs it: the recipe's slug, its profile, the settings, and what stands for the author's machine."""

    slug: str
    profile: Profile
    settings: Settings
    context: Context


def made(drafted: Draft, runtime: str, site: Site) -> Made:
    """The body before cards and ports are chosen. Raises NoProcess, NotMeant, LaunchRefused."""
    launch = drafted.launch
    if launch is None:
        return Made()
    _refuse_unmeant(launch, site)
    if runtime != DOCKER:
        command = unwrapped(launch, site.slug) if isinstance(launch, ContainerLaunch) else launch
        return _changed(Made(process_body(command)), site)
    if isinstance(launch, ContainerLaunch):
        return _contained(launch, site)
    image = reference_of(site.slug, site.profile.image)
    if image is None:
        why = f"the launch is a bare command ({launch.argv[0]}), and nothing says in which image it runs"
        return Made(missing=(Missing("image.reference", why, "--set image.reference=IMAGE, or --set runtime=process"),))
    found, missing = reading(lambda known: wrapped(launch, image, _flags(launch, site.profile), known), site.context)
    if not isinstance(found, ContainerLaunch):
        return Made(missing=missing)
    return _with_missing(_contained(found, site), missing)


def _flags(launch: CommandLaunch, profile: Profile) -> Sequence[str]:
    if profile.launch.docker:
        return [word for part in profile.launch.docker for word in part.argv]
    engine = engine_of(Command(launch.argv, launch.env))
    counted = profile.requirements.gpu_count
    return default_flags(engine[1].port if engine else None, counted is None or counted.value > 0)


def _contained(launch: ContainerLaunch, site: Site) -> Made:
    edited = container.detached(launch)
    bounded = container.bounded_log(edited.body, site.settings.logs)
    name = site.profile.name.value if site.profile.name else launch.name or site.slug
    body = container.with_room(bounded.body, site.profile)
    made = Made(body, name, launch.platform, (), (*edited.warnings, *bounded.warnings))
    if launch.tool != "docker":
        made = _with_warning(made, f"the launch is {launch.tool}'s; Docker runs it with the same flags")
    return _changed(made, site)


def _changed(made: Made, site: Site) -> Made:
    """With the profile's variables and arguments, and the names of secrets in place of their values."""
    body = container.with_environment(made.body, site.profile.env)
    body = container.with_arguments(body, site.profile)
    known = {**site.settings.variables, **{name: fact.value for name, fact in site.profile.variables.items()}}
    return Made(without_secrets(body, known), made.name, made.platform, made.missing, made.warnings)


def on_ports(made: Made, runtime: str, inner: int | None, profile: Profile) -> Made:
    """With the host's ports that a profile names: published, or as the engine's own `--port` where it is the host's."""
    ports = {port: fact.value for port, fact in profile.ports.items()}
    if profile.port is not None and inner is not None:
        ports[inner] = profile.port.value
    address = profile.address.value if profile.address else None
    if not made.body or not (ports or address):
        return made
    own_network = (made.body.get("HostConfig") or {}).get("NetworkMode") != "host"
    if runtime == DOCKER and own_network:
        body = container.on_address(container.on_ports(made.body, ports), inner, address)
    else:
        words = [word for port in ports.values() for word in ("--port", str(port))]
        words += ["--host", address] if address else []
        body = {**made.body, "Cmd": [*(made.body.get("Cmd") or ()), *words]}
    return Made(body, made.name, made.platform, made.missing, made.warnings)


def published(body: Mapping[str, Any], port: int | None) -> bool:
    """Whether clients of this host reach the engine's port."""
    host = body.get("HostConfig") or {}
    if port is None or host.get("NetworkMode") == "host":
        return True
    return bool((host.get("PortBindings") or {}).get(f"{port}/tcp")) or bool(host.get("PublishAllPorts"))


def _refuse_unmeant(launch: Launch, site: Site) -> None:
    """A launch whose cards are not what was written; where the site chose the cards, they replace it."""
    if site.profile.gpus is not None or site.settings.gpus:
        return
    for warning in launch.warnings:
        if warning.code in _UNMEANT:
            raise NotMeant(slug=site.slug, text=warning.text, instead=warning.instead)


def _with_missing(made: Made, missing: tuple[Missing, ...]) -> Made:
    return Made(made.body, made.name, made.platform, (*made.missing, *missing), made.warnings)


def _with_warning(made: Made, warning: str) -> Made:
    return Made(made.body, made.name, made.platform, made.missing, (*made.warnings, warning))
