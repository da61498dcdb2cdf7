"""The unit under a real systemd: it starts, it is watched, and it leaves its engines alone."""

from __future__ import annotations

import json
import sysconfig
import tarfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lab import images, systemd
from tests.lab.engine import Engine
from tests.lab.place import REPOSITORY
from tests.lab.systemd import Machine

pytestmark = [
    pytest.mark.slow,
    pytest.mark.docker,
    pytest.mark.systemd,
    pytest.mark.usefixtures("systemd_tools"),
    pytest.mark.timeout(240),
]

HOME = "/usr/lib/recipe-agent"
PROGRAM = """#!{python}
import runpy, sys
sys.path[:0] = ["{home}/checkout", "{home}/packages"]
runpy.run_module("{module}", run_name="__main__", alter_sys=True)
"""
SITE = """
runtime: process
sources: []
variables: {DEMO_NAME: demo, DEMO_PORT: "18095", DEMO_LISTEN: 127.0.0.1}
"""
CAPABILITIES = {"DAC_READ_SEARCH": 2, "KILL": 5, "SYS_PTRACE": 19, "SYSLOG": 34}
"""Name → number of what the unit gives the agent."""


@pytest.fixture(scope="module")
def machine(lab_engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A host with the service installed as units/README.md says, its engine a simulator, and the demo's recipe."""
    folder = tmp_path_factory.mktemp("machine")
    given = [f"--cap-add={name}" for name in CAPABILITIES]  # a host has them, a container by default does not
    with systemd.booted(lab_engine, "agent-machine", *given, *mounts(folder)) as booted:
        lab_engine.docker("cp", "-", "agent-machine:/", stdin=python(folder / "python.tar"))
        booted.run("chmod", "755", "/root")  # where Python may lie
        booted.run("systemd-sysusers")
        booted.run("systemd-tmpfiles", "--create")
        booted.run("systemctl", "daemon-reload")
        yield booted


def mounts(folder: Path) -> list[str]:
    """The checkout, its packages and the service's files, where a package would have put them."""
    write(folder / "recipe-agent", "agent")
    write(folder / "agentctl", "agent.cli.main")
    write(folder / "vllm", "simulator")
    (folder / "agent.yaml").write_text(SITE)
    units = REPOSITORY / "units"
    places = {
        REPOSITORY / "agent": f"{HOME}/checkout/agent",
        images.SIMULATOR: f"{HOME}/checkout/simulator",
        REPOSITORY / "config" / "profiles": f"{HOME}/config/profiles",
        Path(sysconfig.get_path("purelib")): f"{HOME}/packages",
        folder / "recipe-agent": "/usr/bin/recipe-agent",
        folder / "agentctl": "/usr/bin/agentctl",
        folder / "vllm": "/usr/local/bin/vllm",
        folder / "agent.yaml": "/etc/recipe-agent/agent.yaml",
        REPOSITORY / "config" / "demo" / "demo.json": "/etc/recipe-agent/recipes/demo.json",
        REPOSITORY / "config" / "demo" / "demo.yaml": "/etc/recipe-agent/profiles/demo.yaml",
        units / "recipe-agent.service": "/etc/systemd/system/recipe-agent.service",
        units / "recipe-agent.sysusers": "/usr/lib/sysusers.d/recipe-agent.conf",
        units / "recipe-agent.tmpfiles": "/usr/lib/tmpfiles.d/recipe-agent.conf",
    }
    return [word for source, target in places.items() for word in ("-v", f"{source}:{target}:ro")]


def write(path: Path, module: str) -> None:
    """A program that runs a module."""
    path.write_text(PROGRAM.format(python=images.interpreter(), home=HOME, module=module))
    path.chmod(0o755)


def python(path: Path) -> Path:
    """This machine's Python as an archive for `docker cp`."""
    with tarfile.open(path, "w") as archive:
        for file in images.python_files():
            archive.add(file.resolve(), str(file).removeprefix("/"))
    return path


def show(machine: Machine, key: str) -> str:
    """A property of the service."""
    return machine.run("systemctl", "show", "--value", "--property", key, "recipe-agent").strip()


def deployment(machine: Machine) -> dict[str, Any]:
    """What `agentctl status` says of the demo."""
    (one,) = json.loads(machine.run("agentctl", "status", "-o", "json"))
    return dict(one)


def engine_pid(machine: Machine) -> str:
    """The pid of the engine's server, which has the port of the recipe in its command line."""
    return machine.run("pgrep", "--full", "--oldest", "vllm serve demo/model").strip()


def until(true: Callable[[], bool], within: float = 30.0) -> bool:
    """Whether it came true in time."""
    end = time.monotonic() + within
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(0.2)
    return True


def capabilities(machine: Machine, pid: str) -> set[int]:
    """The numbers of a process's effective ones."""
    lines = machine.run("cat", f"/proc/{pid}/status").splitlines()
    mask = int(next(line.split()[1] for line in lines if line.startswith("CapEff:")), 16)
    return {number for number in range(64) if mask >> number & 1}


def test_it_starts_deploys_and_leaves_its_engine_alone(machine: Machine) -> None:
    """`systemctl start` waits for READY=1; a restart ends the agent, and the next one adopts the same engine."""
    machine.run("systemctl", "start", "recipe-agent")
    assert show(machine, "ActiveState") == "active"
    first = show(machine, "MainPID")
    assert machine.run("stat", "-c", "%U", f"/proc/{first}").strip() == "recipe-agent"
    machine.run("agentctl", "deploy", "demo", "--yes", "--wait")
    engine, before = engine_pid(machine), deployment(machine)

    machine.run("systemctl", "restart", "recipe-agent")

    assert show(machine, "MainPID") != first
    assert until(lambda: deployment(machine)["state"] == "ready")
    after = deployment(machine)
    assert engine_pid(machine) == engine
    assert (after["generation"], after["container"]) == (before["generation"], before["container"])
    assert capabilities(machine, show(machine, "MainPID")) == set(CAPABILITIES.values())
    assert capabilities(machine, engine) == set()


def test_the_watchdog_is_fed_and_bites(machine: Machine) -> None:
    """An agent that turns is left alone for many times the watchdog's patience; one that hangs is started again."""
    machine.run("mkdir", "-p", "/run/systemd/system/recipe-agent.service.d")
    short = "[Service]\\nWatchdogSec=3\\nTimeoutAbortSec=2\\n"
    machine.run("sh", "-c", f"printf '{short}' > /run/systemd/system/recipe-agent.service.d/short.conf")
    machine.run("systemctl", "daemon-reload")
    machine.run("systemctl", "restart", "recipe-agent")
    engine, agent = engine_pid(machine), show(machine, "MainPID")
    assert not until(lambda: show(machine, "MainPID") != agent, within=10)

    machine.run("kill", "-STOP", agent)

    assert until(lambda: show(machine, "MainPID") not in (agent, "0") and show(machine, "ActiveState") == "active")
    assert show(machine, "NRestarts") == "1"
    assert until(lambda: deployment(machine)["state"] == "ready")
    assert engine_pid(machine) == engine


def test_the_engine_outlives_a_stopped_service(machine: Machine) -> None:
    """`systemctl stop` ends the agent alone; removing the deployment afterwards ends the engine."""
    engine = engine_pid(machine)
    machine.run("systemctl", "stop", "recipe-agent")
    assert engine_pid(machine) == engine
    machine.run("systemctl", "start", "recipe-agent")
    assert until(lambda: deployment(machine)["state"] == "ready")
    machine.run("agentctl", "remove", "demo")
    assert machine.run("pgrep", "--full", "vllm serve demo/model", check=False) == ""
