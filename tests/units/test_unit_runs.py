"""The unit under a real systemd: it starts, it is watched, and it leaves its engines alone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.lab.systemd import Machine
from tests.units.hosted import CAPABILITIES, SLUG, deployment, engine_pid, show, status_of, until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.docker,
    pytest.mark.systemd,
    pytest.mark.usefixtures("systemd_tools"),
    pytest.mark.timeout(240),
]


@pytest.fixture(scope="module", autouse=True)
def cleared(machine: Machine) -> Iterator[None]:
    """What the tests deploy is gone behind them."""
    yield
    machine.run("agentctl", "remove", SLUG)


def capabilities(machine: Machine, pid: str) -> set[int]:
    """The numbers of a process's effective ones."""
    mask = int(status_of(machine, pid)["CapEff"], 16)
    return {number for number in range(64) if mask >> number & 1}


def test_it_starts_deploys_and_leaves_its_engine_alone(machine: Machine) -> None:
    """`systemctl start` waits for READY=1; a restart ends the agent, and the next one adopts the same engine."""
    machine.run("systemctl", "start", "recipe-agent")
    assert show(machine, "ActiveState") == "active"
    first = show(machine, "MainPID")
    assert machine.run("stat", "-c", "%U", f"/proc/{first}").strip() == "recipe-agent"
    machine.run("agentctl", "deploy", SLUG, "--yes", "--wait")
    engine, before = engine_pid(machine), deployment(machine)

    machine.run("systemctl", "restart", "recipe-agent")

    assert show(machine, "MainPID") != first
    assert until(lambda: deployment(machine)["state"] == "ready")
    after = deployment(machine)
    assert engine_pid(machine) == engine
    assert (after["generation"], after["container"]) == (before["generation"], before["container"])
    assert capabilities(machine, show(machine, "MainPID")) == set(CAPABILITIES.values())
    assert capabilities(machine, engine) == set()
    assert "no_sign_of_life" not in machine.run("journalctl", "--no-pager", "-u", "recipe-agent"), (
        "it began, it is not late"
    )


def test_the_watchdog_is_fed_and_bites(machine: Machine) -> None:
    """An agent that turns is left alone for many times the watchdog's patience; one that hangs is started again."""
    machine.run("mkdir", "-p", "/run/systemd/system/recipe-agent.service.d")
    short = "[Service]\\nWatchdogSec=5\\nTimeoutAbortSec=2\\n"
    machine.run("sh", "-c", f"printf '{short}' > /run/systemd/system/recipe-agent.service.d/short.conf")
    machine.run("systemctl", "daemon-reload")
    machine.run("systemctl", "restart", "recipe-agent")
    if not engine_pid(machine):
        machine.run("agentctl", "deploy", SLUG, "--yes", "--wait")
    engine, agent = engine_pid(machine), show(machine, "MainPID")
    assert not until(lambda: show(machine, "MainPID") != agent, within=16)

    machine.run("kill", "-STOP", agent)

    assert until(lambda: show(machine, "MainPID") not in (agent, "0") and show(machine, "ActiveState") == "active")
    assert show(machine, "NRestarts") == "1"
    assert until(lambda: deployment(machine)["state"] == "ready")
    assert engine_pid(machine) == engine
