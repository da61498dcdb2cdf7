"""Rights, record, service and bus, from made-up roots and from this host."""

from __future__ import annotations

import os
import pwd
import socket
import sqlite3
from pathlib import Path

import pytest

from agent.adapters.preflight_facts_doctor import HostSurroundings, Place, unit_of
from agent.adapters.sqlite_store import VERSION
from agent.clock import SystemClock
from agent.host.reading import Known, Unknown
from agent.preflight.surroundings import Apart, Unit


def around(root: Path, *places: Place, record: str = "state.db") -> HostSurroundings:
    return HostSurroundings(SystemClock(), root / record, places, root)


async def test_the_kernels_clock_tells_whether_it_is_kept(tmp_path: Path) -> None:
    reading = await around(tmp_path).sync()
    assert isinstance(reading, Known)
    assert reading.value.synchronised is (reading.value.error_s is not None)


async def test_rights_are_those_of_this_process(tmp_path: Path) -> None:
    places = (Place(tmp_path, os.R_OK | os.W_OK, "state"), Place(tmp_path / "none", os.R_OK, "nothing"))
    reading = await around(tmp_path, *places).rights()
    assert isinstance(reading, Known)
    assert [(one.there, one.lacks) for one in reading.value.places] == [(True, ""), (False, "read")]


@pytest.mark.parametrize("version", [VERSION, VERSION + 7])
async def test_the_records_version_is_read_without_opening_it(tmp_path: Path, version: int) -> None:
    with sqlite3.connect(tmp_path / "state.db") as record:
        record.execute("CREATE TABLE t (x)")
        record.execute(f"PRAGMA user_version = {version}")
    record.close()
    reading = await around(tmp_path).state()
    assert isinstance(reading, Known)
    assert (reading.value.version, reading.value.known) == (version, VERSION)


async def test_no_record_and_no_database(tmp_path: Path) -> None:
    none = await around(tmp_path).state()
    assert isinstance(none, Known)
    assert none.value.version is None
    (tmp_path / "state.db").write_text("no database")
    assert isinstance(await around(tmp_path).state(), Unknown)


async def test_cards_on_the_bus_are_counted_without_their_sound(tmp_path: Path) -> None:
    for name, vendor, kind in (
        ("0000:41:00.0", "0x10de", "0x030200"),
        ("0000:41:00.1", "0x10de", "0x040300"),
        ("0000:42:00.0", "0x10de", "0x030000"),
        ("0000:00:02.0", "0x8086", "0x030000"),
    ):
        device = tmp_path / "sys/bus/pci/devices" / name
        device.mkdir(parents=True)
        (device / "vendor").write_text(vendor + "\n")
        (device / "class").write_text(kind + "\n")
    reading = await around(tmp_path).nvidia_devices()
    assert isinstance(reading, Known)
    assert reading.value == 2


async def test_no_bus_and_no_systemd_are_reasons(tmp_path: Path) -> None:
    assert isinstance(await around(tmp_path).nvidia_devices(), Unknown)
    assert await around(tmp_path).unit() == Unknown("systemd does not run this host")


async def test_the_door_to_units_of_engines(tmp_path: Path) -> None:
    """A socket of somebody's; any other thing of that name is none."""
    (tmp_path / "run/systemd/system").mkdir(parents=True)
    door = tmp_path / "run/recipe-agent-engine.sock"
    none = await around(tmp_path).apart()
    door.touch()
    file = await around(tmp_path).apart()
    door.unlink()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(door))
        there = await around(tmp_path).apart()
    found = [reading.value for reading in (none, file, there) if isinstance(reading, Known)]
    owner = pwd.getpwuid(os.getuid()).pw_name
    assert found == [Apart(True, f"/{door.relative_to(tmp_path)}", name) for name in ("", "", owner)]


async def test_systemctl_is_asked_and_its_refusal_is_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "run/systemd/system").mkdir(parents=True)
    program = tmp_path / "systemctl"
    program.write_text('#!/bin/sh\n[ -e "$0.fails" ] && { echo no bus >&2; exit 1; }\necho LoadState=loaded\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    reading = await around(tmp_path).unit()
    assert isinstance(reading, Known)
    assert reading.value.load == "loaded"
    (tmp_path / "systemctl.fails").touch()
    assert await around(tmp_path).unit() == Unknown("systemctl: no bus")


def test_what_systemctl_shows() -> None:
    shown = "LoadState=loaded\nActiveState=active\nUnitFileState=enabled\nNRestarts=2\nResult=success\n"
    assert unit_of(shown) == Unit("loaded", "active", "enabled", 2, "success")
    assert unit_of("").restarts is None
