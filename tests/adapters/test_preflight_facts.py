"""The facts of this host, from a real /proc, real sockets and made-up roots."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from agent.adapters.nvml import NvmlGpus
from agent.adapters.preflight_facts import GatheredFacts, HostPorts, Once
from agent.adapters.preflight_facts_proc import HostTables, peer_of
from agent.adapters.preflight_facts_runtime import RuntimeQuestions, neighbour_of
from agent.adapters.procfs_host import ProcHost
from agent.adapters.procfs_processes import ProcProcesses
from agent.adapters.procfs_sockets import ProcSockets
from agent.clock import SystemClock
from agent.container.port import ContainerView, ImageFacts, RunState, Runtime, RuntimeFacts
from agent.errors import RuntimeTrouble
from agent.host.reading import Known, Unknown
from agent.preflight.case import Case
from agent.preflight.checks import memory_available, port_free
from agent.preflight.facts import Facts, MemoryUser, Neighbour, Toolkit
from agent.preflight.model import Level
from agent.preflight.run import run
from agent.quantity import Bytes
from tests.preflight.build import need, plan

CLOCK = SystemClock()


@pytest.fixture
async def facts() -> AsyncIterator[GatheredFacts]:
    gpus = NvmlGpus(CLOCK)
    ports = HostPorts(CLOCK, gpus, ProcHost(CLOCK), ProcProcesses(CLOCK), ProcSockets(CLOCK), None)
    gathered = GatheredFacts(ports)
    yield gathered
    await gathered.close()
    await gpus.close()


async def test_a_port_that_this_process_listens_on_is_taken_by_it(facts: Facts) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        asked = Case(plan(host=bindings(port)), facts)
        answer = await port_free.look(asked)
        assert answer.level is Level.FAIL
        assert f"pid {os.getpid()} (" in answer.found
    assert (await port_free.look(asked)).level is Level.PASS


def bindings(port: int) -> Mapping[str, Any]:
    return {"PortBindings": {"80/tcp": [{"HostIp": "127.0.0.1", "HostPort": str(port)}]}}


async def test_this_host_has_not_all_the_memory_of_the_world(facts: Facts) -> None:
    answer = await memory_available.look(Case(plan(need("memory.available", Bytes.gib(10**6), "much")), facts))
    assert answer.level is Level.FAIL
    assert "this host has" in answer.hint


async def test_everything_is_asked_on_a_bare_host_and_nothing_raises(facts: Facts) -> None:
    host = {"DeviceRequests": [{"Count": -1, "Capabilities": [["gpu"]]}], "Binds": ["/nowhere:/models"]}
    findings = await run(Case(plan(host=host, model="/models/x"), facts))
    assert not any("the check itself failed" in one.found for one in findings)
    assert {"runtime.reachable", "binds", "weights"} <= {one.check for one in findings if one.level is Level.FAIL}


async def test_this_process_holds_memory(facts: Facts) -> None:
    users = await facts.memory_users()
    assert isinstance(users, Known)
    own = next(user for user in users.value if user.pid == os.getpid())
    assert own.resident > Bytes.mib(5)
    assert [user.holds for user in users.value] == sorted((user.holds for user in users.value), reverse=True)


class Counted:
    def __init__(self) -> None:
        self.asked = 0
        self.open = asyncio.Event()

    async def __call__(self) -> int:
        self.asked += 1
        await self.open.wait()
        return self.asked


async def test_what_all_checks_share_is_asked_once_and_survives_an_impatient_asker() -> None:
    source = Counted()
    once = Once(source)
    impatient = asyncio.create_task(once())
    patient = asyncio.create_task(once())
    await asyncio.sleep(0)
    impatient.cancel()
    source.open.set()
    assert await patient == 1
    assert await once() == 1
    assert impatient.cancelled()


async def test_a_question_without_an_answer_leaves_no_task() -> None:
    once = Once(Counted())
    asker = asyncio.create_task(once())
    await asyncio.sleep(0)
    await once.end()
    with pytest.raises(asyncio.CancelledError):
        await asker
    await Once(Counted()).end()


def root(tmp_path: Path, files: Mapping[str, str]) -> HostTables:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "proc").mkdir(parents=True, exist_ok=True)
    return HostTables(CLOCK, tmp_path)


ID = "c" * 64
WORKER = """\
Name:	VLLM::Worker
RssAnon:	 1048576 kB
RssFile:	      99 kB
RssShmem:	 2097152 kB
VmLck:	       0 kB
VmPin:	       4 kB
"""


async def test_memory_users_of_a_made_up_host(tmp_path: Path) -> None:
    tables = root(
        tmp_path,
        {
            "proc/7/status": WORKER,
            "proc/7/cgroup": f"0::/system.slice/docker-{ID}.scope\n",
            "proc/2/status": "Name:\tkthreadd\n",
            "proc/9/status": "Name:\tpinned\nRssAnon:\t1 kB\nVmLck:\t 1024 kB\n",
        },
    )
    users = await tables.memory_users()
    assert isinstance(users, Known)
    assert users.value == (
        MemoryUser(7, "VLLM::Worker", Bytes.gib(3), Bytes(4096), ID, Bytes.gib(2)),
        MemoryUser(9, "pinned", Bytes(1024), Bytes.mib(1)),
    )


@pytest.mark.parametrize(
    ("cgroup", "file", "figures"),
    [
        ("0::/docker/x\n", "sys/fs/cgroup/docker/x/memory.stat", "anon 100\nfile 999\nshmem 20\n"),
        (
            "5:memory:/docker/x\n0::/\n",
            "sys/fs/cgroup/memory/docker/x/memory.stat",
            "rss 1\ntotal_rss 100\ntotal_shmem 20\ntotal_cache 999\n",
        ),
    ],
    ids=["v2", "v1"],
)
async def test_a_cgroups_memory_without_page_cache(tmp_path: Path, cgroup: str, file: str, figures: str) -> None:
    tables = root(tmp_path, {"proc/7/cgroup": cgroup, file: figures})
    reading = await tables.cgroup_memory(7)
    assert isinstance(reading, Known)
    assert reading.value == 120
    assert isinstance(await tables.cgroup_memory(8), Unknown)


async def test_memory_that_no_account_shows(tmp_path: Path) -> None:
    figures = "MemTotal: 1000 kB\nMemFree: 100 kB\nCached: 200 kB\nShmem: 50 kB\nAnonPages: 300 kB\n"
    tables = root(tmp_path, {"proc/meminfo": figures})
    reading = await tables.unattributed()
    assert isinstance(reading, Known)
    assert reading.value == 400 * 1024


LIMITS = """\
Limit                     Soft Limit           Hard Limit           Units
Max locked memory         8388608              {}             bytes
"""


def stat(pid: int, name: str, parent: int) -> str:
    return f"{pid} ({name}) S {parent} " + " ".join(["0"] * 40)


@pytest.mark.parametrize("parent", [7, 1], ids=["of dockerd", "of the host"])
@pytest.mark.parametrize(
    ("hard", "capabilities", "expect"),
    [
        ("unlimited", "0", (None, False)),
        ("8388608", "0", (Bytes.mib(8), False)),
        ("8388608", "000001ffffffffff", (Bytes.mib(8), True)),
    ],
)
async def test_what_starts_containers_may_lock(
    tmp_path: Path, hard: str, capabilities: str, expect: Any, parent: int
) -> None:
    files = {
        "proc/7/comm": "dockerd\n",
        "proc/8/comm": "containerd\n",
        "proc/8/stat": stat(8, "containerd", parent),
        "proc/9/comm": "containerd\n",
        "proc/9/stat": stat(9, "containerd", 4711),
        "proc/8/limits": LIMITS.format(hard),
        "proc/8/status": f"Name:\tcontainerd\nCapEff:\t{capabilities}\n",
    }
    limit = await root(tmp_path, files).lock_limit(True)
    assert isinstance(limit, Known)
    assert (limit.value.who, limit.value.hard, limit.value.raises) == ("containerd (pid 8)", *expect)


async def test_two_daemons_cannot_be_told_apart(tmp_path: Path) -> None:
    files = {"proc/7/comm": "dockerd\n", "proc/8/comm": "dockerd\n"}
    assert isinstance(await root(tmp_path, files).lock_limit(True), Unknown)
    assert isinstance(await root(tmp_path / "none", {}).lock_limit(True), Unknown)


async def test_who_listens_on_the_socket_is_asked_of_the_kernel(tmp_path: Path) -> None:
    """Of two daemons of that name, the one behind the socket counts: here this process, by another name."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "docker.sock"))
        server.listen()
        assert peer_of(str(tmp_path / "docker.sock")) == os.getpid()
        files = {
            f"proc/{os.getpid()}/comm": "dockerd\n",
            f"proc/{os.getpid()}/limits": LIMITS.format("unlimited"),
            f"proc/{os.getpid()}/status": "CapEff:\t0\n",
            "proc/999999/comm": "dockerd\n",
        }
        root(tmp_path, files)
        limit = await HostTables(CLOCK, tmp_path, str(tmp_path / "docker.sock")).lock_limit(True)
    assert isinstance(limit, Known)
    assert limit.value.who == f"dockerd (pid {os.getpid()})"
    assert peer_of(str(tmp_path / "none.sock")) is None


async def test_the_agents_own_limit(tmp_path: Path) -> None:
    limit = await root(tmp_path, {"proc/self/status": "CapEff:\t0\n"}).lock_limit(False)
    assert isinstance(limit, Known)
    hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)[1]
    assert limit.value.hard == (None if hard == resource.RLIM_INFINITY else hard)


@pytest.mark.parametrize(
    ("said", "limit"), [("infinity", None), ("8388608", Bytes.mib(8)), ("", Unknown), ("no bus; exit 1", Unknown)]
)
async def test_where_engines_have_units_their_limit_is_the_units(
    said: str, limit: Bytes | type[Unknown] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever asks, from whatever shell: that one's own limit says nothing of an engine."""
    program = tmp_path / "systemctl"
    program.write_text(f"#!/bin/sh\necho {said}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    (tmp_path / "run").mkdir()
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(tmp_path / "run/recipe-agent-engine.sock"))
        reading = await HostTables(CLOCK, tmp_path).lock_limit(False)
    if limit is Unknown:
        assert isinstance(reading, Unknown)
    else:
        assert isinstance(reading, Known)
        assert (reading.value.hard, reading.value.raises) == (limit, False)


async def test_the_hook_is_looked_for_where_dockerd_looks(tmp_path: Path) -> None:
    tables = root(
        tmp_path,
        {
            "proc/7/comm": "dockerd\n",
            "proc/7/environ": "HOME=/\0PATH=/opt/none:/opt/kit\0",
            "proc/7/root/proc/version": "",
            "proc/7/root/opt/kit/nvidia-container-runtime-hook": "#!/bin/sh\n",
            "proc/7/root/etc/cdi/nvidia.yaml": "",
        },
    )
    (tmp_path / "proc/7/root/opt/kit/nvidia-container-runtime-hook").chmod(0o755)
    reading = await tables.toolkit()
    assert isinstance(reading, Known)
    assert reading.value == Toolkit("/opt/kit/nvidia-container-runtime-hook", ("/etc/cdi/nvidia.yaml",), True)


async def test_without_dockerds_environment_a_hook_may_be_anywhere(tmp_path: Path) -> None:
    reading = await root(tmp_path, {}).toolkit()
    assert isinstance(reading, Known)
    assert reading.value == Toolkit(None, (), complete=False)


async def test_a_reboot_that_the_distribution_asks_for(tmp_path: Path) -> None:
    calm = await root(tmp_path, {"proc/uptime": "61.5 100.0\n"}).boot()
    files = {"run/reboot-required": "", "run/reboot-required.pkgs": "linux-base\nnvidia\nlinux-base\n"}
    asking = await root(tmp_path, files).boot()
    assert isinstance(calm, Known)
    assert isinstance(asking, Known)
    assert (calm.value.seconds, calm.value.requested) == (61.5, False)
    assert (asking.value.wants, asking.value.requested) == (("linux-base", "nvidia"), True)


INSPECTED = {
    "Id": ID,
    "Name": "/chat",
    "State": {"Running": True},
    "Config": {"Labels": {"recipe-agent.recipe": "tiny"}},
    "HostConfig": {"NetworkMode": "bridge"},
    "NetworkSettings": {
        "Ports": {
            "8095/tcp": [{"HostIp": "0.0.0.0", "HostPort": "8095"}, {"HostIp": "::", "HostPort": "8095"}],
            "53/udp": [{"HostIp": "", "HostPort": "53"}],
            "9000/tcp": None,
        }
    },
}


def test_a_container_by_its_inspection() -> None:
    assert neighbour_of(INSPECTED) == Neighbour(ID, "chat", True, "tiny", frozenset({8095}))
    bare = neighbour_of({"Id": ID, "HostConfig": {"NetworkMode": "host"}, "Config": None, "NetworkSettings": None})
    assert bare == Neighbour(ID, "", False, host_network=True)
    assert neighbour_of(None) is None


class StandIn:
    """A runtime that knows one container of ours and one foreign."""

    kind = "docker"

    async def facts(self) -> RuntimeFacts:
        return RuntimeFacts("docker", "28", api_version="1.50", runtimes=("runc",), default_runtime="runc")

    async def image(self, reference: str) -> ImageFacts | None:
        return ImageFacts("sha256:a", size=5) if reference == "tiny:1" else None

    async def name_holder(self, name: str) -> ContainerView | str | None:
        views: dict[str, Any] = {"ours": ContainerView("1", "ours", "tiny", "p", 1, RunState.RUNNING), "chat": ID}
        return views.get(name)

    async def inspect(self, container_id: str) -> Mapping[str, Any] | None:
        return INSPECTED if container_id == ID else None


class Down(StandIn):
    async def facts(self) -> RuntimeFacts:
        raise RuntimeTrouble(action="ask Docker", why="permission denied")


def questions(runtime: StandIn) -> RuntimeQuestions:
    asked: Any = runtime
    port: Runtime = asked
    return RuntimeQuestions(port, CLOCK)


async def test_a_runtime_in_the_checks_words() -> None:
    ask = questions(StandIn())
    engine, image, absent = await ask.engine(), await ask.image("tiny:1"), await ask.image("none")
    assert isinstance(engine, Known)
    assert isinstance(image, Known)
    assert isinstance(absent, Known)
    assert (engine.value.api_version, engine.value.default_runtime) == ("1.50", "runc")
    assert image.value is not None
    assert image.value.size == Bytes(5)
    assert absent.value is None


@pytest.mark.parametrize(("name", "expect"), [("ours", "ours"), ("chat", "chat"), ("free", None)])
async def test_who_has_a_name(name: str, expect: str | None) -> None:
    reading = await questions(StandIn()).named(name)
    assert isinstance(reading, Known)
    assert (reading.value.name if reading.value else None) == expect


async def test_containers_that_are_gone_are_left_out() -> None:
    reading = await questions(StandIn()).these({ID, "d" * 64})
    assert isinstance(reading, Known)
    assert [one.name for one in reading.value] == ["chat"]


async def test_a_runtime_that_says_no_is_a_reason() -> None:
    assert await questions(Down()).engine() == Unknown("cannot ask Docker: permission denied")
