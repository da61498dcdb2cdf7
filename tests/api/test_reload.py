"""SIGHUP reads the site file again: a good one is used from then on, a broken one is refused and the old one kept."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.api.conftest import TOKEN, open_rig
from tests.api.tcp import ask
from tests.e2e import recipes
from tests.e2e.rig import Rig, wait_for
from tests.lab.children import free_port


class Manager:
    """systemd's end of the notification socket."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = str(folder / "notify")
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(self.path)
        self._socket.settimeout(20)

    def next(self, word: str) -> list[str]:
        """The lines of the next message that has this one, all before it passed over."""
        while True:
            lines = self._socket.recv(65536).decode().splitlines()
            if word in lines:
                return lines

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    found = Manager(tmp_path / "manager")
    yield found
    found.close()


@pytest.fixture
def own(tmp_path: Path, manager: Manager) -> Iterator[Rig]:
    """A daemon that a test may send signals, under a service manager."""
    rig = open_rig(tmp_path / "rig")
    rig.environment["NOTIFY_SOCKET"] = manager.path
    try:
        rig.start()
        manager.next("READY=1")
        yield rig
    finally:
        rig.close()


def reload(rig: Rig, manager: Manager) -> dict[str, Any]:
    """As `systemctl reload` does it; the settings' state afterwards."""
    assert rig.daemon is not None
    os.kill(rig.daemon.pid, signal.SIGHUP)
    begins = manager.next("RELOADING=1")
    assert [line for line in begins if line.startswith("MONOTONIC_USEC=")]
    manager.next("READY=1")
    found: dict[str, Any] = rig.api("/v1/host")["settings"]
    return found


def told(rig: Rig) -> dict[str, Any]:
    """The agent's last event about itself."""
    events = rig.api("/v1/events?follow=0&limit=5000")
    return [event for event in events if event["kind"] == "agent"][-1]  # type: ignore[no-any-return]


def test_a_good_file_is_used_from_the_next_plan_on(own: Rig, manager: Manager) -> None:
    own.publish(recipes.recipe("sim", free_port(), env={"GREETING": "$GREETING"}), recipes.profile())
    missing = own.ok("plan", "sim", "-o", "json").json["missing"]
    assert [one["key"] for one in missing] == ["variables.GREETING"]
    before = own.api("/v1/host")["settings"]
    assert (before["refused"], before["needs_restart"]) == (None, [])
    own.site["variables"] = {"GREETING": "hello"}
    own.site["budget"] = {"restarts": 7}
    own.configure()
    state = reload(own, manager)
    assert (state["refused"], state["needs_restart"]) == (None, [])
    assert state["loaded"] > before["loaded"]
    assert told(own)["data"]["changed"] == ["budget.restarts", "variables.GREETING"]
    own.ok("deploy", "sim", "--yes", "-q", "--wait=60")
    assert own.status("sim")["restart_budget"] == 7


def test_a_broken_file_is_refused_and_everything_goes_on(own: Rig, manager: Manager) -> None:
    (own.folder / "agent.yaml").write_text("listen: {prot: 1}\n")
    state = reload(own, manager)
    assert "unknown key 'listen.prot', did you mean 'port'?" in state["refused"]
    assert "refused the site file" in told(own)["text"]
    assert "site_file_refused" in own.log.read_text()
    assert ask(own.port, "/v1/host", token=TOKEN).status == 200, "the old settings are in force"
    own.configure()
    assert reload(own, manager)["refused"] is None


def test_a_token_file_that_is_no_use_refuses_the_whole_file(own: Rig, manager: Manager) -> None:
    own.site["listen"]["token_file"] = str(own.folder / "nothing")
    own.site["variables"] = {"NEW": "1"}
    own.configure()
    assert "nothing" in reload(own, manager)["refused"]
    assert ask(own.port, "/v1/host", token=TOKEN).status == 200


def test_the_rest_waits_for_a_restart_and_says_so(own: Rig, manager: Manager) -> None:
    own.site["listen"]["port"] = free_port()
    own.site["paths"]["state"] = "/nowhere/else"
    own.site["logs"]["form"] = "json"
    own.configure()
    state = reload(own, manager)
    assert state["needs_restart"] == ["listen.port", "logs.form", "paths.state"]
    assert "only a restart of the agent takes up listen.port" in told(own)["text"]
    assert ask(own.port, "/healthz").status == 200
    own.port = own.site["listen"]["port"]
    with pytest.raises(OSError):  # noqa: PT011 - nobody listens there
        ask(own.port, "/healthz")


def test_the_level_of_the_log_and_the_keys_of_the_door_change_at_once(own: Rig, manager: Manager) -> None:
    own.site["logs"]["level"] = "error"
    own.site["listen"] |= {"names": ["rig.example"], "rate_per_s": 0.5, "burst": 20}
    assert ask(own.port, "/", host="rig.example").status == 421
    own.configure()
    reload(own, manager)
    size = own.log.stat().st_size
    assert ask(own.port, "/", host="rig.example").status == 200
    assert [ask(own.port, "/healthz").status for _ in range(25)].count(429) > 0
    own.ok("status", "-q")
    assert own.log.stat().st_size == size, own.log.read_text()[size:]


def test_new_sources_are_asked(own: Rig, manager: Manager, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    document = own.folder / "recipes" / "sim.json"
    own.publish(recipes.recipe("sim", free_port()), recipes.profile())
    document.rename(other / "sim.json")
    own.site["paths"]["recipes"] = str(own.folder / "recipes")
    body = b'{"slug": "sim"}'
    assert ask(own.port, "/v1/plans", "POST", body, token=TOKEN).status == 404
    own.site["sources"] = [str(other)]
    own.configure()
    reload(own, manager)
    assert ask(own.port, "/v1/plans", "POST", body, token=TOKEN).status == 200


def test_many_hangups_at_once_end_in_one_state(own: Rig, manager: Manager) -> None:
    assert own.daemon is not None
    for number in range(4):
        own.site["variables"] = {"NUMBER": str(number)}
        own.configure()
        os.kill(own.daemon.pid, signal.SIGHUP)
    wait_for(lambda: reload(own, manager)["refused"] is None, "a whole file")
    assert own.daemon.poll() is None


def test_environment_and_credentials_reach_the_daemon(tmp_path: Path) -> None:
    """A unit's environment wins over the file, and its credentials are found by name."""
    rig = open_rig(tmp_path)
    credentials = tmp_path / "credentials"
    credentials.mkdir()
    (credentials / "door").write_text("a-token-from-the-credentials-1\n")
    rig.environment |= {
        "CREDENTIALS_DIRECTORY": str(credentials),
        "RECIPE_AGENT_LISTEN__TOKEN_FILE": "door",
        "RECIPE_AGENT_SUPERVISION": "observe",
    }
    try:
        rig.start()
        assert ask(rig.port, "/v1/host", token=TOKEN).status == 401
        assert ask(rig.port, "/v1/host", token="a-token-from-the-credentials-1").status == 200
        rig.publish(recipes.recipe("sim", free_port()), recipes.profile())
        rig.ok("deploy", "sim", "--yes", "-q")
        assert rig.status("sim")["supervision"] == "observe"
        rows = rig.ok("config", "show", "--origin", "-o", "json").json
        assert rows["listen.token_file"]["origin"] == "environment RECIPE_AGENT_LISTEN__TOKEN_FILE"
    finally:
        rig.close()
