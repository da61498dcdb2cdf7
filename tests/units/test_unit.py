"""The unit, judged by systemd's own tools."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.lab import systemd
from tests.lab.place import REPOSITORY

UNITS = REPOSITORY / "units"
UNIT = UNITS / "recipe-agent.service"
ENGINES = UNITS / "recipe-agent-engine@.service"
HARDENED = UNITS / "recipe-agent-engine@.service.d" / "hardened.conf.example"
SERVICE = [UNIT, ENGINES, UNITS / "recipe-agent-engine.socket", UNITS / "recipe-agent-engine.slice"]
PROGRAMS = ["/usr/bin/recipe-agent", "/usr/bin/recipe-agent-engine", "/bin/sh"]
NO_CAPABILITIES = UNITS / "recipe-agent.service.d" / "no-capabilities.conf.example"
CAPABILITIES = ("KILL", "SYS_PTRACE", "SYSLOG", "DAC_READ_SEARCH")

pytestmark = pytest.mark.systemd


def setting(name: str, unit: Path = UNIT) -> list[str]:
    """The values that a unit gives a key, in order."""
    return re.findall(rf"^{name}=(.*)$", unit.read_text(), re.MULTILINE)


def exposure(folder: Path, *parts: Path) -> float:
    """The number of `systemd-analyze security` for a unit and its drop-ins."""
    whole = folder / parts[0].name.replace("@", "")
    whole.write_text("\n".join(part.read_text() for part in parts))
    last = systemd.security(whole).strip().splitlines()[-1]
    found = re.search(r"Overall exposure level for \S+: ([\d.]+)", last)
    assert found is not None, last
    return float(found[1])


@pytest.mark.usefixtures("systemd_tools")
def test_systemd_has_nothing_to_say_against_it() -> None:
    """`systemd-analyze verify` is silent."""
    assert systemd.verify(SERVICE, programs=PROGRAMS) == ""


@pytest.mark.usefixtures("systemd_tools")
def test_nor_against_its_engines_with_the_drop_in(tmp_path: Path) -> None:
    """Every key of it is one of systemd's, and it halves what the unit leaves open."""
    assert exposure(tmp_path, ENGINES, HARDENED) < 4.5 < exposure(tmp_path, ENGINES)
    whole = tmp_path / "recipe-agent-engine@.service"
    whole.write_text(ENGINES.read_text() + HARDENED.read_text())
    assert systemd.verify([whole, UNITS / "recipe-agent-engine.slice"], programs=PROGRAMS) == ""


@pytest.mark.usefixtures("systemd_tools")
def test_it_is_not_exposed_more_than_its_work_needs(tmp_path: Path) -> None:
    """Little with its four capabilities, less without."""
    assert exposure(tmp_path, UNIT) <= 2.6
    assert exposure(tmp_path, UNIT, NO_CAPABILITIES) <= 1.8


def test_every_capability_has_its_reason() -> None:
    """Bounding set and ambient set are the four, and a comment explains each."""
    expected = [" ".join(f"CAP_{name}" for name in CAPABILITIES)]
    assert setting("CapabilityBoundingSet") == setting("AmbientCapabilities") == expected
    for name in CAPABILITIES:
        assert re.search(rf"^# {name} +\w", UNIT.read_text(), re.MULTILINE), name


def test_engines_are_not_the_unit_s_to_end() -> None:
    """Neither their processes, nor their shared memory, nor their temporary files go with the agent."""
    assert setting("KillMode") == ["process"]
    assert setting("RemoveIPC") == ["no"]
    (folder,) = setting("Environment")
    made = [f"TMPDIR=/var/cache/{name}" for name in setting("CacheDirectory")[0].split()]
    assert folder in made


def test_engines_have_the_agents_user_and_not_its_docker_group() -> None:
    """The same user needs no capability to be watched and ended; Docker's socket would be as good as root."""
    for key in ("User", "Group", "UMask", "LimitMEMLOCK"):
        assert setting(key, ENGINES) == setting(key)
    assert setting("SupplementaryGroups") == ["docker"]
    assert setting("SupplementaryGroups", ENGINES) == []
    assert not re.search("^m ", (UNITS / "recipe-agent.sysusers").read_text(), re.MULTILINE)


def test_whatever_ends_an_engine_leaves_who_knows_how() -> None:
    """TERM goes to the wrapper, which passes it on; the kernel ends one process for memory, and not the wrapper."""
    assert setting("KillMode", ENGINES) == ["mixed"]
    assert setting("OOMPolicy", ENGINES) == ["continue"]
    assert setting("RefuseManualStart", ENGINES) == setting("IgnoreOnIsolate", ENGINES) == ["yes"]


def test_at_shutdown_the_agent_ends_before_its_engines() -> None:
    """Else it would take their end for a failure, and start them again."""
    assert "recipe-agent.service" in setting("Before", ENGINES)[0].split()


def test_the_agent_may_look_where_it_has_to() -> None:
    """Each of these would blind it without a word of systemd's."""
    assert setting("ProtectProc") == ["default"]
    assert setting("ProcSubset") == ["all"]
    assert "PrivateDevices=yes" not in UNIT.read_text().splitlines()
    assert "/dev/kmsg r" in setting("DeviceAllow")


def test_the_watchdog_waits_longer_than_the_longest_step() -> None:
    """Evidence may take 30 s after a Docker call that hangs for 30 s, and a sign of life is sent every third of it."""
    (seconds,) = setting("WatchdogSec")
    assert int(seconds) * 2 / 3 > 60
    assert setting("Type") == ["notify"]
    assert setting("NotifyAccess") == ["main"]
