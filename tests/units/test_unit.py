"""The unit, judged by systemd's own tools."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.lab import systemd
from tests.lab.place import REPOSITORY

UNITS = REPOSITORY / "units"
UNIT = UNITS / "recipe-agent.service"
NO_CAPABILITIES = UNITS / "recipe-agent.service.d" / "no-capabilities.conf.example"
CAPABILITIES = ("KILL", "SYS_PTRACE", "SYSLOG", "DAC_READ_SEARCH")

pytestmark = pytest.mark.systemd


def setting(name: str) -> list[str]:
    """The values that the unit gives a key, in order."""
    return re.findall(rf"^{name}=(.*)$", UNIT.read_text(), re.MULTILINE)


def exposure(folder: Path, *parts: Path) -> float:
    """The number of `systemd-analyze security` for a unit and its drop-ins."""
    whole = folder / UNIT.name
    whole.write_text("\n".join(part.read_text() for part in parts))
    last = systemd.security(whole).strip().splitlines()[-1]
    found = re.search(r"Overall exposure level for \S+: ([\d.]+)", last)
    assert found is not None, last
    return float(found[1])


@pytest.mark.usefixtures("systemd_tools")
def test_systemd_has_nothing_to_say_against_it() -> None:
    """`systemd-analyze verify` is silent."""
    assert systemd.verify([UNIT], programs=["/usr/bin/recipe-agent", "/bin/sh"]) == ""


@pytest.mark.usefixtures("systemd_tools")
def test_it_is_not_exposed_more_than_its_work_needs(tmp_path: Path) -> None:
    """Little with its four capabilities, less without."""
    assert exposure(tmp_path, UNIT) <= 2.7
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
