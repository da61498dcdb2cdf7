"""Unit files are checked without a systemd on the machine, and a whole systemd runs in a container."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lab import systemd
from tests.lab.engine import Engine

pytestmark = [pytest.mark.systemd, pytest.mark.usefixtures("systemd_tools")]

UNIT = "[Unit]\nDescription=A unit\n[Service]\nType=notify\nExecStart=/usr/bin/lab-program\n"


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    """A unit file that starts a program of ours."""
    path = tmp_path / "lab.service"
    path.write_text(UNIT)
    return path


def test_a_clean_unit_is_said_to_be_clean(unit: Path) -> None:
    """Nothing is told of it."""
    assert systemd.verify([unit], programs=["/usr/bin/lab-program"]) == ""


@pytest.mark.parametrize(
    ("line", "word"),
    [("WatchdogSecs=3", "WatchdogSecs"), ("ExecStartPre=/usr/bin/nowhere", "nowhere"), ("Type=notfy", "notfy")],
)
def test_a_mistake_is_told(unit: Path, line: str, word: str) -> None:
    """A key, a value or a program that does not exist."""
    unit.write_text(f"{UNIT}{line}\n")
    assert word in systemd.verify([unit], programs=["/usr/bin/lab-program"])


def test_the_exposure_of_a_unit_is_measured(unit: Path) -> None:
    """A sandbox setting lowers the number."""
    exposed = systemd.security(unit).splitlines()[-1]
    unit.write_text(f"{UNIT}DynamicUser=yes\nProtectSystem=strict\nPrivateDevices=yes\n")
    assert "9." in exposed
    assert "9." not in systemd.security(unit).splitlines()[-1]


@pytest.mark.docker
def test_a_machine_boots_and_runs_a_unit(lab_engine: Engine, tmp_path: Path) -> None:
    """systemd is process 1 and starts what a unit says."""
    (tmp_path / "hello.service").write_text("[Service]\nType=oneshot\nExecStart=/bin/echo hello from a unit\n")
    mount = f"{tmp_path}/hello.service:/etc/systemd/system/hello.service:ro"
    with systemd.booted(lab_engine, "machine", "-v", mount) as machine:
        assert machine.run("systemctl", "is-system-running", check=False).strip() == "running"
        machine.run("systemctl", "start", "hello")
        assert "hello from a unit" in machine.run("journalctl", "-u", "hello")
