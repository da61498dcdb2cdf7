"""Engines that are plain processes have units of their own: outside of the agent's sandbox, and of what ends it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.lab.systemd import Machine
from tests.units.hosted import (
    CAPABILITIES,
    PORT,
    SECRET,
    SLUG,
    UNITS,
    deployment,
    engine_pid,
    group_of,
    interpreter,
    pids_in,
    ready,
    show,
    state,
    status_of,
    until,
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.docker,
    pytest.mark.systemd,
    pytest.mark.usefixtures("systemd_tools"),
    pytest.mark.timeout(240),
]

DOOR = "/run/recipe-agent-engine.sock"
KNOCK = f"import socket; s = socket.socket(socket.AF_UNIX); s.connect('{DOOR}'); print(s.recv(999).decode())"
ASK = f"""
import json, urllib.request
body = json.dumps({{"model": "demo", "prompt": "Once", "max_tokens": 3000}}).encode()
urllib.request.urlopen(urllib.request.Request(
    "http://127.0.0.1:{PORT}/v1/completions", body, {{"Content-Type": "application/json"}}), timeout=60)
"""
HOG = "hog = bytearray(300 << 20)"


@pytest.fixture(scope="module", autouse=True)
def deployed(machine: Machine) -> Iterator[None]:
    """The demo, ready."""
    machine.run("systemctl", "start", "recipe-agent")
    machine.run("agentctl", "deploy", SLUG, "--yes", "--wait")
    yield
    machine.run("systemctl", "start", "recipe-agent-engine.socket", "recipe-agent")
    machine.run("agentctl", "remove", SLUG)


def start(machine: Machine) -> None:
    """Anew, until it is ready."""
    machine.run("agentctl", "stop", SLUG)
    machine.run("agentctl", "start", SLUG)
    assert until(lambda: ready(machine))


def loaded(machine: Machine) -> list[str]:
    """The units of engines that systemd knows, whatever their state."""
    words = ("list-units", "--all", "--plain", "--no-legend", "recipe-agent-engine@*")
    return [line.split()[0] for line in machine.run("systemctl", *words).splitlines()]


def python(machine: Machine, code: str, *, user: str = "root", check: bool = True) -> str:
    """What a line of Python prints, or says in its traceback."""
    command = f'setpriv --reuid {user} --clear-groups -- {interpreter(machine)} -c "$0" 2>&1'
    return machine.run("sh", "-c", command, code, check=check)


def incidents(machine: Machine) -> list[dict[str, Any]]:
    """What was kept as evidence."""
    found: list[dict[str, Any]] = json.loads(machine.run("agentctl", "incidents", "-o", "json"))
    return found


def test_it_has_a_control_group_and_a_sandbox_of_its_own(machine: Machine) -> None:
    """Nothing of the agent's unit is on it: filter, privileges, capabilities, Docker's group, devices."""
    engine, agent = engine_pid(machine), show(machine, "MainPID")
    group = group_of(machine, engine)
    assert group.folder.endswith(f"/recipe-agent-engine.slice/{group.unit}")
    assert group_of(machine, agent).unit == "recipe-agent.service"
    inside = pids_in(machine, group)
    assert engine in inside
    assert agent not in inside
    assert loaded(machine) == [group.unit]

    its, agents = status_of(machine, engine), status_of(machine, agent)
    docker = machine.run("getent", "group", "docker").split(":")[2]
    mask = f"{sum(1 << number for number in CAPABILITIES.values()):016x}"
    assert (agents["Seccomp"], agents["NoNewPrivs"], agents["CapBnd"], agents["CapEff"]) == ("2", "1", mask, mask)
    assert (its["Seccomp"], its["NoNewPrivs"], its["CapEff"]) == ("0", "0", "0" * 16)
    assert its["CapBnd"] == status_of(machine, "1")["CapBnd"]
    assert its["Uid"] == agents["Uid"]
    assert (docker in agents["Groups"].split(), docker in its["Groups"].split()) == (True, False)
    assert machine.run("systemctl", "show", "--value", "--property", "DevicePolicy", group.unit).strip() == "auto"


def test_nothing_done_to_the_agent_or_to_systemd_touches_it(machine: Machine) -> None:
    """The same processes under the same agent's record, whatever happens around them."""
    engine, before = engine_pid(machine), deployment(machine)
    unit = group_of(machine, engine).unit
    machine.run("kill", "-9", show(machine, "MainPID"))
    assert until(lambda: ready(machine))
    for words in (
        ("daemon-reload",),
        ("daemon-reexec",),
        ("restart", "recipe-agent-engine.socket"),
        ("isolate", "graphical.target"),
        ("stop", "recipe-agent", "recipe-agent-engine.socket"),
        ("start", "recipe-agent"),
    ):
        machine.run("systemctl", *words)
        assert (words, engine_pid(machine)) == (words, engine)
    refused = machine.run("sh", "-c", f"systemctl restart '{unit}' 2>&1", check=False)
    assert "refused" in refused

    assert until(lambda: ready(machine))
    after = deployment(machine)
    assert (engine_pid(machine), group_of(machine, engine).unit) == (engine, unit)
    assert (after["generation"], after["container"]) == (before["generation"], before["container"])


def test_its_secrets_are_in_its_environment_and_nowhere_else(machine: Machine) -> None:
    """Not in a listing of systemd's, in the journal, in a unit's file, or in the agent's state folder."""
    engine = engine_pid(machine)
    unit = group_of(machine, engine).unit
    assert f"HF_TOKEN={SECRET}" in machine.run("cat", f"/proc/{engine}/environ").split("\0")
    told = [
        *(machine.run("systemctl", word, unit, "--no-pager") for word in ("show", "status", "cat")),
        machine.run("journalctl", "-o", "export", "--no-pager"),
    ]
    assert [SECRET in text for text in told] == [False] * 4
    places = ("/run/systemd", "/run/log", "/var/lib/recipe-agent", "/etc/systemd")
    assert machine.run("grep", "-rlF", SECRET, *places, check=False) == ""


def test_only_the_agents_user_may_ask_for_one(machine: Machine) -> None:
    """Not root, who gets past the socket's mode; nobody else gets that far."""
    assert "only the agent's own user" in python(machine, KNOCK)
    assert "PermissionError" in python(machine, KNOCK, user="nobody", check=False)
    assert until(lambda: len(loaded(machine)) == 1), loaded(machine)


def test_a_stall_is_found_and_mended_in_a_new_unit(machine: Machine) -> None:
    """Stopped processes are ended whole, and the next generation has a group of its own."""
    engine = engine_pid(machine)
    group = group_of(machine, engine)
    machine.run("sh", "-c", f"{interpreter(machine)} -c '{ASK}' >/dev/null 2>&1 &")
    assert until(lambda: state(machine) == "busy")
    machine.run("pkill", "-STOP", "--full", "VLLM::EngineCore")
    assert until(lambda: engine_pid(machine) != engine and ready(machine))
    fresh = group_of(machine, engine_pid(machine)).unit
    assert fresh != group.unit
    assert loaded(machine) == [fresh]
    assert [one["kind"] for one in incidents(machine)] == ["busy"]


def test_a_stop_leaves_nothing(machine: Machine) -> None:
    """Also not what is in its group without being a descendant of it."""
    group = group_of(machine, engine_pid(machine))
    stray = f"echo $$ > {group.folder}/cgroup.procs; exec setpriv --reuid recipe-agent sleep 300"
    machine.run("sh", "-c", f"setsid sh -c '{stray}' >/dev/null 2>&1 &")
    assert until(lambda: machine.run("pgrep", "--full", "sleep 300", check=False) != "")
    machine.run("agentctl", "stop", SLUG)
    assert until(lambda: loaded(machine) == [])
    assert machine.run("pgrep", "--full", "sleep 300|vllm|VLLM|process_stub", check=False) == ""
    assert machine.run("ls", "-d", group.folder, check=False) == ""


def test_it_runs_with_the_narrow_drop_in_too(machine: Machine) -> None:
    """As units/README.md offers it; it holds from the next start on."""
    folder = "/run/systemd/system/recipe-agent-engine@.service.d"
    machine.run("mkdir", "-p", folder)
    drop_in = (UNITS / "recipe-agent-engine@.service.d" / "hardened.conf.example").read_text()
    machine.run("sh", "-c", f'printf %s "$0" > {folder}/hardened.conf', drop_in)
    machine.run("systemctl", "daemon-reload")
    start(machine)
    assert finding(machine, "memlock")["level"] == "pass"  # that of the unit, not of this shell
    its = status_of(machine, engine_pid(machine))
    assert (its["Seccomp"], its["NoNewPrivs"], its["CapBnd"]) == ("2", "1", "0" * 16)
    machine.run("rm", "-r", folder)
    machine.run("systemctl", "daemon-reload")


def test_a_person_may_stop_the_unit(machine: Machine) -> None:
    """As with `docker stop`, the deployment is stopped then, and nobody starts it again."""
    machine.run("systemctl", "stop", group_of(machine, engine_pid(machine)).unit)
    assert until(lambda: state(machine) == "stopped")


def test_a_kill_for_memory_is_known(machine: Machine) -> None:
    """The kernel's count of the unit's own group, also for a process that is not the engine's first."""
    start(machine)
    engine = engine_pid(machine)
    group = group_of(machine, engine)
    machine.run("systemctl", "set-property", "--runtime", group.unit, "MemoryMax=200M", "MemorySwapMax=0")
    join = f"for group in {group.folder} {group.memory}; do echo $$ > $group/cgroup.procs; done"
    hog = f"{join}; exec {interpreter(machine)} -c '{HOG}'"
    machine.run("sh", "-c", hog, check=False)
    assert engine_pid(machine) == engine
    machine.run("kill", "-9", engine)
    assert until(lambda: "host_oom" in [one["kind"] for one in incidents(machine)])
    newest = "ls -d /var/lib/recipe-agent/incidents/*host_oom* | tail -n 1"
    kept = json.loads(machine.run("sh", "-c", f"cat $({newest})/inspect.json"))
    assert (kept["Process"]["Unit"], kept["Process"]["Exited"]["oom_kills"]) == (group.unit, 1)
    machine.run("agentctl", "stop", SLUG)


def test_without_the_socket_it_starts_in_the_agents_unit_and_doctor_says_what_that_loses(machine: Machine) -> None:
    """The way without systemd, which still survives a restart of the agent."""
    machine.run("systemctl", "stop", "recipe-agent-engine.socket")
    start(machine)
    engine = engine_pid(machine)
    assert group_of(machine, engine).unit == "recipe-agent.service"
    said = finding(machine, "process.units")
    assert (said["level"], "they have its sandbox" in said["found"]) == ("warn", True)
    machine.run("systemctl", "restart", "recipe-agent")
    assert until(lambda: ready(machine))
    assert engine_pid(machine) == engine


def finding(machine: Machine, check: str) -> dict[str, Any]:
    """What doctor says of one thing."""
    said = json.loads(machine.run("agentctl", "doctor", "-o", "json", check=False))
    return dict(next(one for one in said["findings"] if one["check"] == check))
