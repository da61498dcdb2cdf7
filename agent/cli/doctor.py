"""`agentctl doctor`: what is wrong with this host, without a recipe. Needs no daemon."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from pathlib import Path

    from agent.adapters.preflight_facts import HostPorts
    from agent.adapters.preflight_facts_doctor import HostSurroundings
    from agent.container.port import Runtime
    from agent.host.model import Host
    from agent.preflight.model import Finding
    from agent.settings.model import Settings
    from agent.wiring import Parts

RECORD = "state.db"
"""The agent's record within its state folder."""


def add_arguments(parser: ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument("--bundle", metavar="FILE", help="also write all of it, secrets removed, to FILE (tar.gz)")
    parser.epilog = "Exits 1 when something is wrong."


def run(arguments: Namespace) -> int:
    """Look, print, and write the bundle; 1 when something is wrong."""
    import asyncio

    from agent.preflight.doctor import healthy

    settings, problem, advice = site(arguments)
    findings, host = asyncio.run(examined(settings, problem, advice))
    show(arguments, findings)
    if arguments.bundle:
        bundle(arguments, settings, findings, host)
    return 0 if healthy(findings) else 1


def site(arguments: Namespace) -> tuple[Settings, str, str]:
    """The site's settings; the defaults and what is wrong where the file cannot be used."""
    from agent.cli.site import settings_of
    from agent.errors import InvalidInput
    from agent.settings.model import Settings

    try:
        return settings_of(arguments), "", ""
    except InvalidInput as error:
        return Settings.model_validate({}), error.text, error.advice


async def examined(settings: Settings, problem: str, advice: str) -> tuple[tuple[Finding, ...], Host]:
    """The findings, and the host as it was seen."""
    from agent.adapters.preflight_facts import GatheredFacts
    from agent.preflight.doctor import Site, examine
    from agent.wiring import Parts, host_ports

    parts = Parts(settings)
    ports = host_ports(parts, *docker(parts))
    facts = GatheredFacts(ports)
    places = (str(settings.paths.state), str(settings.paths.cache))
    try:
        found = await examine(facts, around(settings), Site(settings.runtime, places, problem, advice))
        return found, await snapshot(ports)
    finally:
        await facts.close()
        await parts.close()


def docker(parts: Parts) -> tuple[Runtime | None, str]:
    """The container engine; None with the reason where there is none to ask."""
    from agent.wiring import container_engine

    if parts.settings.runtime == "process":
        return None, "the site says runtime: process"
    engine, why = container_engine(parts)
    if engine is not None and not socket_of(parts.settings).exists():
        return None, f"there is no {socket_of(parts.settings)}"
    return engine, why


def socket_of(settings: Settings) -> Path:
    from pathlib import Path

    return Path(settings.docker.host.removeprefix("unix://"))


def around(settings: Settings) -> HostSurroundings:
    import os
    from pathlib import Path

    from agent.adapters.preflight_facts_doctor import HostSurroundings, Place
    from agent.clock import SystemClock

    both = os.R_OK | os.W_OK
    places = [
        Place(settings.paths.state, both, "the agent keeps its record and the incidents there"),
        Place(settings.paths.cache, both, "recipes and build contexts are kept there"),
        Place(Path("/dev/nvidiactl"), both, "NVML is read through it"),
        Place(Path("/dev/kmsg"), os.R_OK, "the kernel tells of Xid errors there"),
    ]
    if settings.runtime != "process":
        places.append(Place(socket_of(settings), both, "containers are run through it (group docker)"))
    return HostSurroundings(SystemClock(), settings.paths.state / RECORD, places)


async def snapshot(ports: HostPorts) -> Host:
    """The host as one document."""
    from agent.host.model import Host

    return Host(
        at=ports.clock.now(),
        facts=await ports.host.facts(),
        memory=await ports.host.memory(),
        driver=await ports.gpus.driver(),
        gpus=await ports.gpus.read(),
    )


def show(arguments: Namespace, findings: tuple[Finding, ...]) -> None:
    from agent.cli.output import coloured, columns, print_json
    from agent.preflight.doctor import sentence
    from agent.preflight.render import as_json, as_text

    if arguments.json:
        print_json(as_json(findings))
    else:
        print(as_text(findings, colour=coloured(arguments), last=sentence(findings), columns=columns()))


def bundle(arguments: Namespace, settings: Settings, findings: tuple[Finding, ...], host: Host) -> None:
    """Raises InvalidInput where the file cannot be written."""
    import sys

    from agent.cli.doctor_bundle import write

    size = write(arguments.bundle, settings, findings, host)
    if not arguments.quiet:
        print(f"wrote {arguments.bundle} ({size}); look into it before you pass it on", file=sys.stderr)
