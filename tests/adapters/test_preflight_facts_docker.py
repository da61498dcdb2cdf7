"""The checks on a real Docker Engine: who has a port or a name, what may be locked, how GPUs get in."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from agent.adapters.docker_runtime import DockerRuntime
from agent.adapters.nvml import NvmlGpus
from agent.adapters.preflight_facts import GatheredFacts, HostPorts
from agent.adapters.procfs_host import ProcHost
from agent.adapters.procfs_processes import ProcProcesses
from agent.adapters.procfs_sockets import ProcSockets
from agent.clock import SystemClock
from agent.preflight.case import Case
from agent.preflight.checks import image, memlock, name_free, port_free, runtime_api, runtime_reachable, toolkit
from agent.preflight.credit import Running, credit_for
from agent.preflight.model import Level
from tests.lab import images
from tests.lab.children import served
from tests.lab.engine import Engine
from tests.preflight.build import WITH_GPUS, plan

pytestmark = pytest.mark.docker
NAME = "tiny"
"""What the plan's container is called."""
PORT = 18095
PUBLISHED = {"PortBindings": {"80/tcp": [{"HostIp": "", "HostPort": str(PORT)}]}}
SERVE = ("busybox:lab", "httpd", "-f", "-h", "/etc", "-p")


@pytest.fixture
def foreign(lab_engine: Engine) -> Iterator[Engine]:
    """An Engine on which the test may run a container called `tiny` or `stranger`."""
    images.busybox(lab_engine, "busybox:lab", "tiny:1")
    yield lab_engine
    lab_engine.docker("rm", "--force", NAME, "stranger", check=False)


@pytest.fixture
async def facts(foreign: Engine) -> AsyncIterator[GatheredFacts]:
    clock = SystemClock()
    gpus, runtime = NvmlGpus(clock), DockerRuntime(foreign.docker_host)
    ports = HostPorts(
        clock,
        gpus,
        ProcHost(clock),
        ProcProcesses(clock),
        ProcSockets(clock),
        runtime,
        docker_socket=str(foreign.socket),
    )
    gathered = GatheredFacts(ports)
    yield gathered
    await gathered.close()
    await gpus.close()
    await runtime.close()


def asked(facts: GatheredFacts, **more: Any) -> Case:
    return Case(plan(**more), facts)


async def test_a_foreign_container_that_publishes_the_port_is_named(foreign: Engine, facts: GatheredFacts) -> None:
    foreign.docker("run", "-d", "--name", "stranger", "-p", f"{PORT}:80", *SERVE, "80")
    answer = await port_free.look(asked(facts, host=PUBLISHED))
    assert (answer.level, answer.found) == (Level.FAIL, f"port {PORT} is taken by container stranger")


async def test_a_process_on_the_hosts_network_is_named_with_its_container(
    foreign: Engine, facts: GatheredFacts
) -> None:
    foreign.docker("run", "-d", "--name", "stranger", "--network", "host", *SERVE, str(PORT))
    assert served(PORT, "/passwd")[0] == 200
    answer = await port_free.look(asked(facts, host=PUBLISHED))
    assert answer.level is Level.FAIL
    assert "in container stranger on the host's network" in answer.found


async def test_its_own_port_and_name_are_credited(foreign: Engine, facts: GatheredFacts) -> None:
    container = foreign.docker("run", "-d", "--name", NAME, "-p", f"{PORT}:80", *SERVE, "80").strip()
    credit = await credit_for(facts, Running(container, NAME, ports=frozenset({PORT})))
    assert credit.pids
    assert credit.host_memory > 0
    for check, host in ((port_free, PUBLISHED), (name_free, {})):
        assert (await check.look(asked(facts, host=host))).level is Level.FAIL
        assert (await check.look(Case(plan(host=host), facts, credit))).level is Level.PASS


@pytest.mark.parametrize("words", [("run", "-d"), ("create",)], ids=["running", "created"])
async def test_a_name_that_is_taken(foreign: Engine, facts: GatheredFacts, words: tuple[str, ...]) -> None:
    container = foreign.docker(*words, "--name", NAME, "busybox:lab", "sleep", "60").strip()
    answer = await name_free.look(asked(facts))
    assert (answer.level, answer.details["container_id"]) == (Level.FAIL, container)
    assert answer.details["running"] is (words[0] == "run")


async def test_a_free_host_passes(facts: GatheredFacts) -> None:
    for check in (name_free, port_free, runtime_reachable, runtime_api, toolkit, image):
        answer = await check.look(asked(facts, host=PUBLISHED | WITH_GPUS))
        assert answer.level in (Level.PASS, Level.WARN), (check.ID, answer)


async def test_the_limit_is_that_of_this_engines_containerd(foreign: Engine, facts: GatheredFacts) -> None:
    """The lab's runtime drops the limit where the machine may not raise it, so there it is a doubt and no refusal."""
    host = {"Ulimits": [{"Name": "memlock", "Soft": -1, "Hard": -1}]}
    answer = await memlock.look(asked(facts, host=host))
    assert answer.details["who"].startswith("containerd (pid ")
    assert answer.level is (Level.PASS if answer.details["raises"] or answer.details["hard"] is None else Level.WARN)
