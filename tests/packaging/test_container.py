"""The image of the agent: built as its Dockerfile says, run as compose.yaml says, on a real Engine beside its engines.

Base image and package index are the lab's; the host's folders and the socket are put in place of those of a whole host.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import docker
import pytest

from agent.launch.compose.load import load
from agent.launch.compose.project import Project
from agent.launch.compose.service import launch
from agent.launch.model import Context
from tests.e2e import recipes, traffic
from tests.lab import images, wheels
from tests.lab.children import free_port, get
from tests.lab.engine import Engine
from tests.lab.fixtures import without
from tests.lab.place import REPOSITORY, Unavailable

pytestmark = [pytest.mark.long, pytest.mark.docker, pytest.mark.timeout(300)]

IMAGE = "recipe-agent-lab/agent:built"
BASE = "recipe-agent-lab/base:lab"
SOURCES = ("pyproject.toml", "README.md", "LICENSE", "agent", "config/profiles", "packaging/container")
COMPOSE = REPOSITORY / "packaging" / "container"
AGENT = 64646
"""The number of the image's own user."""


@pytest.fixture(scope="module")
def image(lab_engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Built by the Engine from a copy of the checkout's parts, with no network."""
    context = tmp_path_factory.mktemp("context")
    for name in SOURCES:
        source, target = REPOSITORY / name, context / name
        target.parent.mkdir(parents=True, exist_ok=True)
        copy = shutil.copytree if source.is_dir() else shutil.copy
        copy(source, target, **({"symlinks": True} if source.is_dir() else {}))
    try:
        images.python(lab_engine, wheels.fetch(), BASE)
    except Unavailable as gap:
        without(gap)
    values = {"BASE": BASE, "PACKAGES": "", "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "/wheels"}
    words = [word for name, value in values.items() for word in ("--build-arg", f"{name}={value}")]
    file = context / "packaging" / "container" / "Dockerfile"
    lab_engine.docker("build", "--file", str(file), "--tag", IMAGE, *words, str(context))
    return IMAGE


class Host:
    """Folders as a host has them, a recipe, and the agent in a container of the lab's Engine."""

    def __init__(self, engine: Engine, folder: Path) -> None:
        self.engine, self.folder = engine, folder
        self.port, self.listen = free_port(), free_port()
        for name in ("etc/recipes", "etc/profiles", "state", "cache"):
            (folder / name).mkdir(parents=True)
        for name in ("state", "cache"):
            shutil.chown(folder / name, AGENT, AGENT)
        images.simulator(engine, recipes.IMAGE)
        (folder / "etc/recipes/sim.json").write_text(json.dumps(recipes.recipe("sim", self.port)))
        (folder / "etc/profiles/sim.yaml").write_text(recipes.profile())
        paths = {"state": str(folder / "state"), "cache": str(folder / "cache")}
        site = {"sources": [], "paths": paths, "listen": {"port": self.listen}}
        (folder / "etc/agent.yaml").write_text(json.dumps(site))

    def body(self, over: str = "", **changed: str) -> dict[str, Any]:
        """compose.yaml's service as it is posted, with this host's own places: the keys of the file `over` in place of
        its own, and `changed` in place of what its HostConfig has."""
        document = load((COMPOSE / "compose.yaml").read_text())
        service = dict(document["services"]["recipe-agent"])
        service |= load((COMPOSE / over).read_text())["services"]["recipe-agent"] if over else {}
        context = Context({"DOCKER_GID": str(self.engine.socket.stat().st_gid)}, cwd=str(REPOSITORY))
        body = launch("recipe-agent", service, Project(document, context)).body
        here = {
            "/var/run/docker.sock": (str(self.engine.socket), "/var/run/docker.sock"),
            "/var/lib/recipe-agent": (str(self.folder / "state"),) * 2,
            "/var/cache/recipe-agent": (str(self.folder / "cache"),) * 2,
            "/etc/recipe-agent": (str(self.folder / "etc"), "/etc/recipe-agent"),
        }
        given = [one for one in body["HostConfig"]["Mounts"] if one["Source"] in here]
        assert len(given) == len(here)
        mounts = [one | dict(zip(("Source", "Target"), here[one["Source"]], strict=True)) for one in given]
        body["HostConfig"] |= {"Mounts": mounts, "RestartPolicy": None, **changed}
        return body | {"Image": IMAGE}

    @contextmanager
    def agent(self, over: str = "", **changed: str) -> Iterator[None]:
        """The agent, as compose.yaml has it but for `changed`, once it answers; gone after the block."""
        client = docker.APIClient(base_url=self.engine.docker_host)
        made = client.create_container_from_config(self.body(over, **changed), name="agent-under-test")
        try:
            client.start(made["Id"])
            assert until(lambda: self.ctl("status")[0] == 0), client.logs(made["Id"]).decode()
            yield
        finally:
            client.remove_container(made["Id"], force=True, v=True)
            client.close()

    def ctl(self, *words: str) -> tuple[int, str]:
        """Exit status and output of `agentctl` in there."""
        command = ["docker", "exec", "agent-under-test", "agentctl", *words]
        done = self.engine.run(command)
        return done.returncode, done.stdout + done.stderr

    def status(self) -> dict[str, Any]:
        (one,) = json.loads(self.ctl("status", "-o", "json")[1])
        return dict(one)

    def metrics(self) -> str:
        """The agent's own, on the host's network where it is there."""
        return get(self.listen, "/metrics")[1].decode()


def until(true: Callable[[], bool], within: float = 30.0) -> bool:
    end = time.monotonic() + within
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(0.3)
    return True


@pytest.fixture(scope="module")
def host(lab_engine: Engine, image: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """One for all of these tests: what one of them deployed, the next agent finds."""
    host = Host(lab_engine, tmp_path_factory.mktemp("host"))
    yield host
    ours = lab_engine.docker("ps", "--all", "--quiet", "--filter", "label=recipe-agent.recipe=sim").split()
    if ours:
        lab_engine.docker("rm", "--force", *ours)


def test_the_image_holds_no_more_than_it_needs(lab_engine: Engine, image: str) -> None:
    """No pip, no sources, no secret; a user of its own; the healthcheck's words are a command of its own."""
    (document,) = json.loads(lab_engine.docker("image", "inspect", image))
    config = document["Config"]
    assert (config["User"], config["Entrypoint"]) == (f"{AGENT}:{AGENT}", ["recipe-agent"])
    assert config["Healthcheck"]["Test"][:2] == ["CMD", "agentctl"]
    (base,) = json.loads(lab_engine.docker("image", "inspect", BASE))
    assert document["Size"] - base["Size"] < 100 << 20
    inside = lab_engine.docker("run", "--rm", "--entrypoint", "sh", image, "-c", "ls / /usr/lib/recipe-agent/bin; env")
    assert "pip" not in inside.split()
    assert "source" not in inside.split()


def test_it_deploys_watches_and_mends_beside_its_engines(host: Host) -> None:
    """As on the host itself: ready through the published port, the processes seen, a stall found and restarted."""
    with host.agent():
        (health,) = json.loads(
            host.engine.docker("image", "inspect", "--format", "[{{json .Config.Healthcheck.Test}}]", IMAGE)
        )
        assert host.engine.run(["docker", "exec", "agent-under-test", *health[1:]]).returncode == 0
        code, said = host.ctl("deploy", "sim", "--yes", "--wait")
        assert code == 0, said
        one = host.status()
        assert (one["state"], one["generation"]) == ("ready", 1)
        assert not {"metrics", "connections", "processes"} & set(one["blind"])
        with traffic.client(host.port):
            assert until(lambda: host.status()["state"] == "busy")
            traffic.fault(host.port, "stall")
            assert until(lambda: host.status()["generation"] == 2 and host.status()["state"] == "ready", 60)
        assert 'recipe_agent_stalls_total{kind="busy",recipe="sim"} 1' in host.metrics()
        _, found = host.ctl("doctor", "-o", "json")
        assert {one["check"]: one["level"] for one in json.loads(found)["findings"]}["runtime.reachable"] != "fail"


@pytest.mark.parametrize(
    ("key", "value", "word"), [("PidMode", "", "pid: host"), ("NetworkMode", "bridge", "network_mode: host")]
)
def test_without_the_host_s_view_it_says_so_and_does_nothing(host: Host, key: str, value: str, word: str) -> None:
    """Neither healthy nor dead: unobservable, with what to change, in status, in doctor and before a deploy."""
    with host.agent(**{key: value}):
        assert until(lambda: host.status()["state"] == "unobservable")
        one = host.status()
        assert word in one["why"]
        assert {"metrics", "connections", "processes"} <= set(one["blind"])
        code, said = host.ctl("doctor")
        assert code == 1
        assert word in said
        code, said = host.ctl("preflight", "sim")
        assert code == 3
        assert word in said
        time.sleep(6)  # longer than any window of this profile that ends in a restart
        after = host.status()
        assert (after["state"], after["generation"]) == ("unobservable", 2)
    with host.agent():  # and the next one that sees it goes on from there
        assert until(lambda: host.status()["state"] == "ready")
        assert host.status()["generation"] == 2


def test_the_whole_of_the_evidence_needs_four_capabilities_of_root_s(host: Host) -> None:
    """compose.evidence.yaml: `doctor` misses nothing then, and nothing else of root's powers is there."""
    for path in (host.folder / "state", host.folder / "cache"):
        host.engine.run(["chown", "-R", "0:0", str(path)])
    with host.agent("compose.evidence.yaml"):
        assert until(lambda: host.status()["state"] == "ready")
        findings = {one["check"]: one for one in json.loads(host.ctl("doctor", "-o", "json")[1])["findings"]}
        assert "CAP_" not in findings["permissions"]["found"]
        held = findings["permissions"]["details"]["capabilities"]
        assert held == ["DAC_READ_SEARCH", "KILL", "SYSLOG", "SYS_PTRACE"]
        status = host.engine.docker("exec", "agent-under-test", "cat", "/proc/self/status")
        mask = int(status.partition("CapEff:")[2].split()[0], 16)
        assert mask.bit_count() == 4
