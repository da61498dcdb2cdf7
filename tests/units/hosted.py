"""A host with the service installed as units/README.md says: one machine for all tests of this folder."""

from __future__ import annotations

import json
import sysconfig
import tarfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.lab import images
from tests.lab.place import REPOSITORY
from tests.lab.systemd import Machine

UNITS = REPOSITORY / "units"
SERVICE = (
    *("recipe-agent.service", "recipe-agent-engine.socket"),
    *("recipe-agent-engine@.service", "recipe-agent-engine.slice"),
)
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
secrets: {HF_TOKEN: /etc/recipe-agent/hf_token}
"""
SECRET = "hf_ATokenThatNobodyMayRead"
SLUG, PORT = "demo", 18095
CAPABILITIES = {"DAC_READ_SEARCH": 2, "KILL": 5, "SYS_PTRACE": 19, "SYSLOG": 34}
"""Name → number of what the unit gives the agent."""


@dataclass(frozen=True)
class Group:
    """A control group as folders: where systemd puts processes, and where their memory is counted."""

    folder: str
    memory: str

    @property
    def unit(self) -> str:
        return self.folder.rpartition("/")[2]


def mounts(folder: Path) -> list[str]:
    """The checkout, its packages and the service's files, where a package would have put them."""
    write(folder / "recipe-agent", "agent")
    write(folder / "agentctl", "agent.cli.main")
    write(folder / "recipe-agent-engine", "agent.adapters.process_launcher")
    write(folder / "vllm", "simulator")
    (folder / "agent.yaml").write_text(SITE)
    (folder / "demo.json").write_text(json.dumps(recipe()))
    (folder / "hf_token").write_text(SECRET)
    places = {
        REPOSITORY / "agent": f"{HOME}/checkout/agent",
        images.SIMULATOR: f"{HOME}/checkout/simulator",
        REPOSITORY / "config" / "profiles": f"{HOME}/config/profiles",
        Path(sysconfig.get_path("purelib")): f"{HOME}/packages",
        folder / "recipe-agent": "/usr/bin/recipe-agent",
        folder / "agentctl": "/usr/bin/agentctl",
        folder / "recipe-agent-engine": "/usr/bin/recipe-agent-engine",
        folder / "vllm": "/usr/local/bin/vllm",
        folder / "agent.yaml": "/etc/recipe-agent/agent.yaml",
        folder / "hf_token": "/etc/recipe-agent/hf_token",
        folder / "demo.json": "/etc/recipe-agent/recipes/demo.json",
        REPOSITORY / "config" / "demo" / "demo.yaml": "/etc/recipe-agent/profiles/demo.yaml",
        **{UNITS / name: f"/etc/systemd/system/{name}" for name in SERVICE},
        UNITS / "recipe-agent.sysusers": "/usr/lib/sysusers.d/recipe-agent.conf",
        UNITS / "recipe-agent.tmpfiles": "/usr/lib/tmpfiles.d/recipe-agent.conf",
    }
    return [word for source, target in places.items() for word in ("-v", f"{source}:{target}:ro")]


def recipe() -> dict[str, Any]:
    """The demo's, quick to start, with a secret in its environment."""
    document: dict[str, Any] = json.loads((REPOSITORY / "config" / "demo" / "demo.json").read_text())
    words = [word.replace("SIM_START_S=8", "SIM_START_S=2") for word in document["config"]["launch"]]
    document["config"]["launch"] = [*words[:3], "-e", "HF_TOKEN=$HF_TOKEN", *words[3:]]
    return document


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
    """The pid of the engine's server, which has the model in its command line; empty where none runs."""
    return machine.run("pgrep", "--full", "--oldest", "vllm serve demo/model", check=False).strip()


def until(true: Callable[[], bool], within: float = 60.0) -> bool:
    """Whether it came true in time."""
    end = time.monotonic() + within
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(0.2)
    return True


def status_of(machine: Machine, pid: str) -> dict[str, str]:
    """A process's status, by key."""
    lines = (line.partition(":") for line in machine.run("cat", f"/proc/{pid}/status").splitlines())
    return {key: value.strip() for key, _, value in lines}


def group_of(machine: Machine, pid: str) -> Group:
    """The control group that a process is in."""
    lines = [line.split(":", 2) for line in machine.run("cat", f"/proc/{pid}/cgroup").splitlines()]
    by_tree = {tree: path for _, trees, path in lines for tree in trees.split(",")}
    in_tree = f"cat /sys/fs/cgroup/unified{by_tree['']}/cgroup.procs /sys/fs/cgroup{by_tree['']}/cgroup.procs"
    if pid in machine.run("sh", "-c", f"{in_tree} 2>/dev/null", check=False).split():
        hybrid = "name=systemd" in by_tree
        folder = f"/sys/fs/cgroup{'/unified' if hybrid else ''}{by_tree['']}"
    else:
        folder = f"/sys/fs/cgroup/systemd{by_tree['name=systemd']}"
    memory = f"/sys/fs/cgroup/memory{by_tree['memory']}" if "memory" in by_tree else folder
    return Group(folder, memory)


def pids_in(machine: Machine, group: Group) -> list[str]:
    """The members of a control group, its wrapper first."""
    return machine.run("cat", f"{group.folder}/cgroup.procs").split()


def state(machine: Machine) -> str:
    """The deployment's, empty while no agent answers."""
    said = machine.run("agentctl", "status", "-o", "json", check=False)
    return str(json.loads(said)[0]["state"]) if said else ""


def ready(machine: Machine) -> bool:
    """Whether the agent answers and says so."""
    return state(machine) == "ready"


def interpreter(machine: Machine) -> str:
    """The Python that the agent runs by."""
    return machine.run("sed", "-n", "1s/^#!//p", "/usr/bin/agentctl").strip()
