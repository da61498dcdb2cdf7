"""The package on the releases that it is for: what it installs runs, is upgraded, and goes again without a trace."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator

import pytest

from tests.lab import debian, images
from tests.lab.engine import Engine
from tests.lab.fixtures import without
from tests.lab.place import REPOSITORY, Unavailable
from tests.lab.systemd import Machine

pytestmark = [pytest.mark.long, pytest.mark.docker, pytest.mark.systemd, pytest.mark.timeout(400)]

CAPABILITIES = ("DAC_READ_SEARCH", "KILL", "SYS_PTRACE", "SYSLOG")
HOME = "/usr/lib/recipe-agent"
VLLM = """#!/usr/bin/python3
import runpy, sys
sys.path.insert(0, "/opt/lab")
runpy.run_module("simulator", run_name="__main__", alter_sys=True)
"""
SITE = """runtime: process
sources: []
variables: {DEMO_NAME: demo, DEMO_PORT: "18095", DEMO_LISTEN: 127.0.0.1}
"""
NEWER = """set -e
dpkg-deb -R /recipe-agent.deb /tmp/newer
sed -i 's/^Version: .*/Version: 99.0/' /tmp/newer/DEBIAN/control
echo '# a newer comment' >> /tmp/newer/etc/recipe-agent/agent.yaml
dpkg-deb -Znone --build /tmp/newer /tmp/newer.deb
rm -r /tmp/newer
"""
LEFT = r"""find / \( -path /proc -o -path /sys -o -path /run/systemd -o -path /opt/lab \) -prune -o \
  \( -name '*recipe-agent*' -o -name '*agentctl*' \) -print
"""
OFFERED = """. /usr/share/bash-completion/bash_completion
_comp_load agentctl 2>/dev/null || _completion_loader agentctl  # its names since and before bash-completion 2.12
COMP_WORDS=({words}) COMP_CWORD={at}; _agentctl; echo ${{COMPREPLY[@]}}
"""


@pytest.fixture(scope="module", params=debian.RELEASES)
def machine(
    request: pytest.FixtureRequest, lab_engine: Engine, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Machine]:
    """A host of a release with the package installed as README says, and with the simulator as an engine."""
    folder = tmp_path_factory.mktemp("host")
    (folder / "vllm").write_text(VLLM)
    (folder / "vllm").chmod(0o755)
    mounts = {images.SIMULATOR: "/opt/lab/simulator", folder / "vllm": "/usr/local/bin/vllm"}
    words = [word for source, target in mounts.items() for word in ("-v", f"{source}:{target}:ro")]
    given = [f"--cap-add={name}" for name in CAPABILITIES]  # a host has them, a container by default does not
    try:
        with debian.booted(lab_engine, request.param, f"deb-{request.param}", *given, *words) as booted:
            install(booted, "/recipe-agent.deb")
            yield booted
    except Unavailable as gap:
        without(gap)


def install(machine: Machine, deb: str) -> None:
    """As an administrator does, who keeps the settings that were changed here."""
    keep = ("-o", "Dpkg::Options::=--force-confold", "-o", "APT::Sandbox::User=root")
    machine.run("env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "install", "--yes", *keep, deb)


def shell(machine: Machine, text: str) -> str:
    return machine.run("bash", "-c", text)


def main_pid(machine: Machine) -> str:
    return machine.run("systemctl", "show", "--value", "--property", "MainPID", "recipe-agent").strip()


def state(machine: Machine) -> str:
    """Of the demo, as `agentctl status` has it."""
    (one,) = json.loads(machine.run("agentctl", "status", "-o", "json"))
    return str(one["state"])


def engine_pid(machine: Machine) -> str:
    return machine.run("pgrep", "--full", "--oldest", "vllm serve demo/model", check=False).strip()


def until(true: Callable[[], bool], within: float = 40.0) -> bool:
    end = time.monotonic() + within
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(0.3)
    return True


def test_the_service_runs_once_it_is_installed(machine: Machine) -> None:
    """Started and enabled, as its own user, with its own packages and the release's Python; every command answers."""
    assert machine.run("systemctl", "is-active", "recipe-agent").strip() == "active"
    assert machine.run("systemctl", "is-enabled", "recipe-agent").strip() == "enabled"
    pid = main_pid(machine)
    assert machine.run("stat", "-c", "%U:%G", f"/proc/{pid}").strip() == "recipe-agent:recipe-agent"
    assert machine.run("readlink", f"/proc/{pid}/exe") == machine.run("readlink", "-f", "/usr/bin/python3")
    assert machine.run("agentctl", "status", "-o", "json").strip() == "[]"
    assert "recipe-agent" in machine.run("agentctl", "version")
    assert machine.run("stat", "-c", "%U:%a", "/run/recipe-agent/agent.sock").strip() == "recipe-agent:660"
    assert machine.run("agentctl", "config", "check").strip() == "good: /etc/recipe-agent/agent.yaml"
    findings = json.loads(machine.run("agentctl", "doctor", "-o", "json", check=False))
    assert {one["check"]: one["level"] for one in findings["findings"]}["service"] == "pass"


def test_it_is_compiled_for_the_release_s_python(machine: Machine) -> None:
    """And for no other: those files would be dead weight."""
    minor = machine.run("python3", "-c", "import sys; print(sys.version_info[1])").strip()
    compiled = machine.run("find", HOME, "-name", "*.pyc").split()
    assert len(compiled) > 500
    assert all(f"/python3.{minor}/" in path for path in compiled)


def test_messages_can_be_sent(machine: Machine) -> None:
    """The package has what notifications need."""
    machine.run(f"{HOME}/bin/python", "-c", "import apprise")


def test_an_engine_is_deployed(machine: Machine) -> None:
    """With the site's settings in a file of the administrator's, which `reload` takes."""
    machine.run("mkdir", "-p", "/etc/recipe-agent/conf.d")
    shell(machine, f"printf '%s' '{SITE}' > /etc/recipe-agent/conf.d/lab.yaml")
    for name, place in {"demo.json": "recipes/demo.json", "demo.yaml": "profiles/demo.yaml"}.items():
        source = REPOSITORY / "config" / "demo" / name
        machine.engine.docker("cp", str(source), f"{machine.name}:/etc/recipe-agent/{place}")
    machine.run("systemctl", "restart", "recipe-agent")
    machine.run("agentctl", "deploy", "demo", "--yes", "--wait")
    assert state(machine) == "ready"


def test_completions_offer_commands_and_deployments(machine: Machine) -> None:
    """In the shell of somebody who types."""
    assert sorted(shell(machine, OFFERED.format(words="agentctl sta", at=1)).split()) == ["start", "status"]
    assert shell(machine, OFFERED.format(words="agentctl logs d", at=2)).split() == ["demo"]


def test_another_python_restarts_the_agent(machine: Machine) -> None:
    """As when the host moves to the next release: compiled for it, running with it, and the engine runs on."""
    before, engine = main_pid(machine), engine_pid(machine)
    machine.run("find", HOME, "-name", "*.pyc", "-delete")
    old = f"{HOME}/lib/python3.12/site-packages/agent/__pycache__"  # of a release between the two
    shell(machine, f"mkdir {old} && touch {old}/errors.cpython-312.pyc")
    machine.run("dpkg-trigger", "--by-package=python3-minimal", "/usr/bin/python3")
    machine.run("dpkg", "--configure", "--pending")
    assert main_pid(machine) != before
    assert len(machine.run("find", HOME, "-name", "*.pyc").split()) > 500
    assert machine.run("find", HOME, "-name", "*-312.pyc") == ""
    assert engine_pid(machine) == engine
    assert until(lambda: state(machine) == "ready")


def test_an_upgrade_takes_the_new_agent_and_keeps_the_rest(machine: Machine) -> None:
    """The agent is started anew; settings that were changed here, the deployment and its engine stay."""
    before, engine = main_pid(machine), engine_pid(machine)
    shell(machine, "echo '# ours' >> /etc/recipe-agent/agent.yaml")
    shell(machine, NEWER)
    install(machine, "/tmp/newer.deb")
    assert machine.run("dpkg-query", "-W", "-f", "${Version}", "recipe-agent") == "99.0"
    assert main_pid(machine) not in (before, "0")
    assert "# ours" in machine.run("cat", "/etc/recipe-agent/agent.yaml")
    assert until(lambda: state(machine) == "ready")
    assert engine_pid(machine) == engine


def test_a_removal_ends_the_agent_and_keeps_settings_and_state(machine: Machine) -> None:
    """Installed again, it finds the engine that ran on meanwhile."""
    agent, engine = main_pid(machine), engine_pid(machine)
    machine.run("apt-get", "remove", "--yes", "recipe-agent")
    assert machine.run("sh", "-c", f"test -e /proc/{agent} || echo gone").strip() == "gone"
    assert "# ours" in machine.run("cat", "/etc/recipe-agent/agent.yaml")
    assert engine_pid(machine) == engine
    assert machine.run("find", HOME, check=False) == ""

    install(machine, "/tmp/newer.deb")

    assert machine.run("systemctl", "is-enabled", "recipe-agent").strip() == "enabled"
    assert until(lambda: state(machine) == "ready")
    assert engine_pid(machine) == engine


def test_a_service_that_was_disabled_stays_so(machine: Machine) -> None:
    """Over an upgrade, which is no reason to start it."""
    machine.run("systemctl", "disable", "--now", "recipe-agent")
    machine.run("apt-get", "install", "--reinstall", "--yes", "/tmp/newer.deb")
    assert machine.run("systemctl", "is-enabled", "recipe-agent", check=False).strip() == "disabled"
    assert machine.run("systemctl", "is-active", "recipe-agent", check=False).strip() == "inactive"
    machine.run("systemctl", "enable", "--now", "recipe-agent")
    assert until(lambda: state(machine) == "ready")


def test_a_purge_leaves_nothing(machine: Machine) -> None:
    """But the name of the user, as Debian's packages do: a file that it wrote elsewhere must not become another's."""
    machine.run("agentctl", "remove", "demo")
    machine.run("apt-get", "purge", "--yes", "recipe-agent")
    machine.run("rm", "/tmp/newer.deb")
    assert [line for line in shell(machine, LEFT).splitlines() if line != "/recipe-agent.deb"] == []
    assert machine.run("dpkg-query", "-W", "-f", "${Status}", "recipe-agent", check=False) == ""
    assert machine.run("systemctl", "--failed", "--quiet", "--plain", "--no-legend").strip() == ""
    assert machine.run("systemctl", "is-system-running", check=False).strip() == "running"
