"""This host without a recipe: the checks that need none, and what the agent itself needs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, fields, replace
from typing import Any

from agent.host.reading import Known, Reading, Unknown, value_of
from agent.plan.model import ContainerPlan, Plan, RecipeRef
from agent.plan.watch import Span, Watch
from agent.preflight.case import Case
from agent.preflight.check import Answer, Check, always, bad, doubtful, good, unknown
from agent.preflight.checks import (
    driver_skew,
    gpu_health,
    gpu_present,
    host_boot,
    memlock,
    runtime_reachable,
    shm,
    toolkit,
)
from agent.preflight.checks.disk_free import doubts_of
from agent.preflight.facts import ContainerEngine, Facts
from agent.preflight.model import Finding, Level
from agent.preflight.run import run
from agent.preflight.surroundings import Rights, Surroundings
from agent.quantity import counted

SHARED: tuple[Check, ...] = (
    *(module.CHECK for module in (gpu_present, gpu_health, driver_skew, toolkit, host_boot)),
    replace(shm.CHECK, applies=always),
)
USES: dict[str, str] = {
    "KILL": "end what outlives its container as another user",
    "SYS_PTRACE": "see who listens on a port, who has a card open and what an engine reads from disk",
    "DAC_READ_SEARCH": "read the engines' own files for evidence",
    "SYSLOG": "read the kernel's log for Xid lines",
}
"""Capabilities of the agent and what is not possible without each."""

INSIDE = (
    "engines that are plain processes start inside the agent's own unit: they have its sandbox, devices and limits, "
    "their memory counts as its, and nothing but process ids tells what is theirs"
)
BESIDE = (
    "engines that are plain processes are started beside the agent, as systemd does not run here: what ends its "
    "session or container ends them, limits and sandbox are the agent's, an OOM kill is not told from another, and "
    "nothing but process ids tells what is theirs"
)
"""What is lost without units of their own."""


@dataclass(frozen=True, slots=True)
class Site:
    """What the site file says, as far as it matters here. `problem`: why it cannot be used, empty when it can."""

    runtime: str = "auto"
    places: tuple[str, ...] = ()
    """Folders of state and cache."""
    problem: str = ""
    advice: str = ""


async def examine(facts: Facts, around: Surroundings, site: Site) -> tuple[Finding, ...]:
    """Everything that can be known of this host without a recipe."""
    shown = value_of(await facts.gpus())
    on_bus = value_of(await around.nvidia_devices())
    gpus = bool(shown) or on_bus is None or on_bus > 0
    case = Case(nothing(await runtime_here(facts, site), gpus), facts)
    return await run(case, (*own_checks(around, site, gpus), *SHARED))


async def runtime_here(facts: Facts, site: Site) -> str:
    """What engines would run in."""
    if site.runtime != "auto":
        return site.runtime
    return "docker" if isinstance(await facts.container_engine(), Known) else "process"


def healthy(findings: tuple[Finding, ...]) -> bool:
    return not any(finding.refuses for finding in findings)


def sentence(findings: tuple[Finding, ...]) -> str:
    """What stands below the findings."""
    if wrong := [finding.check for finding in findings if finding.refuses]:
        return f"something is wrong: {', '.join(wrong)}"
    if unseen := [finding.check for finding in findings if finding.level is Level.UNKNOWN]:
        return f"nothing wrong was found; not known: {', '.join(unseen)}"
    return "nothing is wrong with this host"


def nothing(runtime: str, gpus: bool) -> Plan:
    """A plan that runs nothing, for checks of the host: it asks for what engines usually ask for."""
    host: dict[str, Any] = {"IpcMode": "host", "Ulimits": [{"Name": "memlock", "Soft": -1, "Hard": -1}]}
    if gpus:
        host["DeviceRequests"] = [{"Count": -1, "Capabilities": [["gpu"]]}]
    others = {"backoff", "budget", "derived"}
    spans: dict[str, Any] = {one.name: Span(None, "nothing runs") for one in fields(Watch) if one.name not in others}
    return Plan(
        plan_id="",
        recipe=RecipeRef("", None, None, None, ""),
        runtime=runtime,
        engine=None,
        image=None,
        container=ContainerPlan("", None, {"HostConfig": host}),
        requirements=(),
        watch=Watch(**spans),
        claims=(),
        missing=(),
        unapplied=(),
        warnings=(),
        origins={},
    )


def own_checks(around: Surroundings, site: Site, gpus: bool) -> tuple[Check, ...]:
    """The checks that only `doctor` has."""

    def asking(look: Callable[[Surroundings], Awaitable[Answer]]) -> Callable[[Case], Awaitable[Answer]]:
        async def ask(_: Case) -> Answer:
            return await look(around)

        return ask

    async def settings(_: Case) -> Answer:
        return bad(site.problem, hint=site.advice) if site.problem else good("the site file can be used")

    async def runtime(case: Case) -> Answer:
        return engines_run(await runtime_reachable.look(case), await case.facts.container_engine(), site)

    async def locking(case: Case) -> Answer:
        return only_some_recipes(await memlock.look(case))

    async def disks(case: Case) -> Answer:
        return await room(case, site)

    checks = [
        Check("config", "the site file can be used", settings, required=True),
        Check("runtime.reachable", "the container engine answers", runtime, lambda _: site.runtime != "process", True),
        Check("permissions", "the agent may do what it needs to", asking(permissions)),
        Check("service", "systemd's view of the agent", asking(service)),
        Check("process.units", "engines have units of their own", asking(apart), lambda c: c.plan.runtime == "process"),
        Check("state", "the record fits this program", asking(state), required=True),
        Check("clock", "the clock is kept", asking(clock)),
        Check(memlock.ID, memlock.CHECK.about, locking),
        Check("disk.free", "room for state and cache", disks),
    ]
    if not gpus:
        checks.append(Check("gpu.present", "NVIDIA cards", no_cards))
    return tuple(checks)


async def no_cards(_: Case) -> Answer:
    return doubtful("no NVIDIA card is on the PCI bus", hint="recipes that need one cannot run here")


def engines_run(answer: Answer, engine: Reading[ContainerEngine], site: Site) -> Answer:
    """Without an engine of containers plain processes do, unless the site wants Docker."""
    if answer.level is Level.FAIL and isinstance(engine, Unknown) and site.runtime == "auto":
        return replace(answer, level=Level.WARN, hint=f"engines run as plain processes; for containers: {answer.hint}")
    return answer


def only_some_recipes(answer: Answer) -> Answer:
    """What a recipe may need, and many do not, is nothing wrong with the host."""
    if answer.level is Level.FAIL:
        return replace(answer, level=Level.WARN, need="no limit, for recipes that pin memory", origin="")
    return answer


async def permissions(around: Surroundings) -> Answer:
    reading = await around.rights()
    if isinstance(reading, Unknown):
        return unknown(reading.reason)
    rights = reading.value
    lacking = [place for place in rights.places if place.there and place.lacks]
    details = {"user": rights.user, "capabilities": sorted(rights.capabilities)}
    if lacking:
        found = "; ".join(f"{rights.user} may not {one.lacks} {one.path}" for one in lacking)
        hint = "; ".join(f"{one.path}: {one.purpose}" for one in lacking)
        return doubtful(found, hint=f"run this as the agent's own user, or give it the right: {hint}", details=details)
    if unable := without(rights):
        hint = "the shipped unit gives them (AmbientCapabilities)"
        return doubtful(f"{rights.user} cannot {'; cannot '.join(unable)}", hint=hint, details=details)
    return good(f"{rights.user} may do all that the agent needs", details=details)


def without(rights: Rights) -> list[str]:
    return [f"{use} (CAP_{name})" for name, use in USES.items() if name not in rights.capabilities]


async def service(around: Surroundings) -> Answer:
    reading = await around.unit()
    if isinstance(reading, Unknown):
        return unknown(reading.reason)
    unit = reading.value
    if unit.load != "loaded":
        return doubtful(f"systemd has no unit recipe-agent ({unit.load})", hint="install units/recipe-agent.service")
    found = f"{unit.active}" + (f", {counted(unit.restarts, 'restart')}" if unit.restarts else "")
    if unit.active == "failed":
        return bad(f"{found} ({unit.result})", hint="journalctl -u recipe-agent -e says why")
    if unit.active != "active":
        return doubtful(found, hint="systemctl start recipe-agent")
    if unit.enabled not in ("enabled", "static"):
        hint = "systemctl enable recipe-agent, or engines stay down after a reboot"
        return doubtful(f"{found}, not started at boot ({unit.enabled})", hint=hint)
    return doubtful(found, hint="journalctl -u recipe-agent says why it restarts") if unit.restarts else good(found)


async def apart(around: Surroundings) -> Answer:
    """Whether engines that are plain processes are kept out of the agent's own unit, and what is lost where not."""
    reading = await around.apart()
    if isinstance(reading, Unknown):
        return unknown(reading.reason)
    way = reading.value
    if way.owner:
        return good(f"engines of an agent of {way.owner} get units of their own", details={"socket": way.door})
    if way.systemd:
        found = f"{INSIDE}: nothing listens at {way.door}"
        return doubtful(found, hint="systemctl start recipe-agent-engine.socket; engines have it from their next start")
    return doubtful(BESIDE, hint="run the agent as a service of systemd, or engines in containers")


async def state(around: Surroundings) -> Answer:
    reading = await around.state()
    if isinstance(reading, Unknown):
        return unknown(reading.reason)
    record = reading.value
    if record.version is None:
        return good(f"no record yet at {record.path}")
    if record.version > record.known:
        found = f"{record.path} is of version {record.version}, this program knows {record.known}"
        return bad(found, hint="go back to the newer agent, or restore the record of before")
    return good(f"{record.path} is of version {record.version}")


async def clock(around: Surroundings) -> Answer:
    reading = await around.sync()
    if isinstance(reading, Unknown):
        return unknown(reading.reason)
    if not reading.value.synchronised:
        hint = "start a time service (chrony, systemd-timesyncd): logs and certificates go by this clock"
        return doubtful("the kernel's clock is not synchronised", hint=hint)
    return good("synchronised", details={"error_s": reading.value.error_s})


async def room(case: Case, site: Site) -> Answer:
    found = [(path, await case.facts.disk(path)) for path in site.places]
    if unread := [f"{path}: {disk.reason}" for path, disk in found if isinstance(disk, Unknown)]:
        return unknown("; ".join(unread))
    disks = {disk.value.mount: disk.value for _, disk in found if isinstance(disk, Known)}
    if stuck := [f"{path} is read-only" for path, disk in found if isinstance(disk, Known) and disk.value.read_only]:
        return bad("; ".join(stuck), hint="remount it writable, or set paths.state and paths.cache")
    words = ", ".join(f"{disk.available} on {mount}" for mount, disk in disks.items())
    doubts = [doubt for disk in disks.values() for doubt in doubts_of(disk)]
    return doubtful("; ".join(doubts), hint="free room there") if doubts else good(words)
