"""This host without a recipe."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from agent.host.reading import Known, Reading, Unknown
from agent.preflight.doctor import Site, examine, healthy, sentence
from agent.preflight.facts import LockLimit
from agent.preflight.model import Finding, Level
from agent.preflight.surroundings import Access, Apart, Rights, State, Sync, Unit
from agent.quantity import Bytes
from tests.preflight.build import HANGS, FakeFacts, card, disk, driver, known

ALL = frozenset({"KILL", "SYS_PTRACE", "DAC_READ_SEARCH", "SYSLOG"})
PASS, WARN, FAIL, UNKNOWN = Level.PASS, Level.WARN, Level.FAIL, Level.UNKNOWN


@dataclass
class Around:
    """An agent that is installed and well."""

    synced: Reading[Sync] = field(default_factory=lambda: known(Sync(True, 0.02)))
    may: Reading[Rights] = field(default_factory=lambda: known(Rights("recipe-agent", (), ALL)))
    served: Reading[Unit] = field(default_factory=lambda: known(Unit("loaded", "active", "enabled", 0, "success")))
    engines: Reading[Apart] = field(default_factory=lambda: known(Apart(True, "/run/door.sock", "recipe-agent")))
    record: Reading[State] = field(default_factory=lambda: known(State("/s/state.db", 1, 1)))
    devices: Reading[int] = field(default_factory=lambda: known(4))

    async def sync(self) -> Reading[Sync]:
        return self.synced

    async def rights(self) -> Reading[Rights]:
        return self.may

    async def unit(self) -> Reading[Unit]:
        return self.served

    async def apart(self) -> Reading[Apart]:
        return self.engines

    async def state(self) -> Reading[State]:
        return self.record

    async def nvidia_devices(self) -> Reading[int]:
        return self.devices


def roomy() -> FakeFacts:
    return FakeFacts(disks={"/dev/shm": known(disk("/dev/shm"))})


async def doctor(facts: FakeFacts | None = None, around: Around | None = None, **site: Any) -> dict[str, Finding]:
    told = Site(places=("/var/lib/recipe-agent",), **site)
    findings = await examine(facts or roomy(), around or Around(), told)
    assert len({one.check for one in findings}) == len(findings)
    return {one.check: one for one in findings}


async def test_nothing_is_wrong_with_a_good_host() -> None:
    findings = await doctor()
    assert {one.check: one.found for one in findings.values() if one.level is not PASS} == {}
    assert {"gpu.present", "driver.skew", "toolkit", "clock", "state", "service"} <= set(findings)
    assert sentence(tuple(findings.values())) == "nothing is wrong with this host"


async def test_what_could_not_be_looked_at_is_not_called_well() -> None:
    findings = await doctor(around=Around(synced=HANGS))
    assert sentence(tuple(findings.values())) == "nothing wrong was found; not known: clock"


@pytest.mark.parametrize(
    ("around", "check", "level", "says"),
    [
        (Around(synced=known(Sync(False))), "clock", WARN, "not synchronised"),
        (Around(synced=HANGS), "clock", UNKNOWN, ""),
        (Around(record=known(State("/s/state.db", None, 1))), "state", PASS, "no record yet"),
        (Around(record=known(State("/s/state.db", 2, 1))), "state", FAIL, "is of version 2, this program knows 1"),
        (Around(record=HANGS), "state", UNKNOWN, ""),
        (Around(served=known(Unit("not-found", "inactive"))), "service", WARN, "no unit"),
        (Around(served=known(Unit("loaded", "failed", "enabled", 5, "watchdog"))), "service", FAIL, "watchdog"),
        (Around(served=known(Unit("loaded", "inactive", "enabled"))), "service", WARN, "inactive"),
        (Around(served=known(Unit("loaded", "active", "disabled"))), "service", WARN, "not started at boot"),
        (Around(served=known(Unit("loaded", "active", "enabled", 3))), "service", WARN, "3 restarts"),
        (Around(served=Unknown("systemd does not run this host")), "service", UNKNOWN, "systemd"),
        (Around(may=known(Rights("me", (), ALL - {"SYSLOG"}))), "permissions", WARN, "me cannot read the kernel's log"),
        (
            Around(may=known(Rights("me", (Access("/run/docker.sock", "containers", True, "read and write"),), ALL))),
            "permissions",
            WARN,
            "me may not read and write /run/docker.sock",
        ),
        (Around(may=known(Rights("me", (Access("/dev/x", "x", False, "read"),), ALL))), "permissions", PASS, ""),
        (Around(may=HANGS), "permissions", UNKNOWN, ""),
        (Around(devices=known(0)), "gpu.present", PASS, "NVIDIA CMP 170HX"),  # NVML knows better than the bus
    ],
)
async def test_what_the_agent_itself_needs(around: Around, check: str, level: Level, says: str) -> None:
    finding = (await doctor(around=around))[check]
    assert finding.level is level
    assert says in finding.found


@pytest.mark.parametrize(("runtime", "level"), [("auto", WARN), ("docker", FAIL), ("process", None)])
async def test_without_docker_only_a_site_that_wants_it_is_wrong(runtime: str, level: Level | None) -> None:
    facts = roomy()
    facts.engine = Unknown("nobody answers")
    found = (await doctor(facts, runtime=runtime)).get("runtime.reachable")
    assert (found.level if found else None) is level


@pytest.mark.parametrize(
    ("engines", "level", "says"),
    [
        (known(Apart(True, "/run/door.sock", "recipe-agent")), PASS, "an agent of recipe-agent get units of their own"),
        (known(Apart(True, "/run/door.sock")), WARN, "inside the agent's own unit: they have its sandbox"),
        (known(Apart(False, "/run/door.sock")), WARN, "what ends its session or container ends them"),
        (HANGS, UNKNOWN, ""),
    ],
)
async def test_what_plain_processes_lose_without_units_of_their_own(
    engines: Reading[Apart], level: Level, says: str
) -> None:
    finding = (await doctor(around=Around(engines=engines), runtime="process"))["process.units"]
    assert finding.level is level
    assert says in finding.found
    assert "process.units" not in await doctor(around=Around(engines=engines), runtime="docker")


async def test_an_engine_that_answers_and_cannot_be_watched_is_wrong_whatever_the_site_wants() -> None:
    """Recipes would run on it: plain processes are what is left only where no engine answers."""
    facts = roomy()
    assert isinstance(facts.engine, Known)
    facts.engine = known(replace(facts.engine.value, hidden="the agent runs in a container without …"))
    assert (await doctor(facts, runtime="auto"))["runtime.reachable"].level is FAIL


async def test_without_docker_the_agents_own_limit_counts() -> None:
    facts = roomy()
    facts.engine, facts.limit = Unknown("nobody answers"), known(LockLimit("the agent", Bytes.mib(8), False))
    finding = (await doctor(facts))["memlock"]
    assert (finding.level, finding.found) == (WARN, "the agent may lock 8 MiB and not raise that")


async def test_a_host_without_cards_is_told_so_once() -> None:
    facts = roomy()
    facts.cards, facts.drivers = Unknown("no libnvidia-ml.so.1"), driver(HANGS, HANGS, HANGS, HANGS)
    findings = await doctor(facts, Around(devices=known(0)))
    assert (findings["gpu.present"].level, "gpu.health" in findings) == (WARN, False)
    assert healthy(tuple(findings.values()))


async def test_cards_without_a_driver_are_wrong() -> None:
    facts = roomy()
    facts.cards = Unknown("no libnvidia-ml.so.1")
    findings = await doctor(facts)
    assert findings["gpu.present"].refuses
    assert sentence(tuple(findings.values())) == "something is wrong: gpu.present, gpu.health"


async def test_a_lost_card_and_a_split_driver_are_wrong() -> None:
    facts = roomy()
    facts.cards = known((card(0), card(1, lost="off the bus")))
    facts.drivers = driver(module="610.1", library="610.2")
    findings = await doctor(facts)
    assert {check for check, one in findings.items() if one.refuses} == {"gpu.present", "driver.skew"}


@pytest.mark.parametrize(
    ("there", "level"),
    [(disk(), PASS), (disk(read_only=True), FAIL), (disk(free=Bytes.gib(1)), WARN)],
)
async def test_room_for_state_and_cache(there: Any, level: Level) -> None:
    facts = roomy()
    facts.disks["/var/lib/recipe-agent"] = known(there)
    assert (await doctor(facts))["disk.free"].level is level


async def test_a_site_file_that_cannot_be_used_is_wrong() -> None:
    finding = (await doctor(problem="cannot read the settings", advice="agentctl config check"))["config"]
    assert (finding.level, finding.hint) == (FAIL, "agentctl config check")
