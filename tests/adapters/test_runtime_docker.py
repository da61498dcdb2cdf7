"""What only a real Docker Engine can show."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any

import pytest

from agent.adapters.docker_runtime import DockerRuntime
from agent.container.body import LogBounds, spec_for
from agent.container.labels import Identity
from agent.container.port import ContainerSpec, ContainerView, RunState
from agent.container.trouble import NoImage, PullFailed, RuntimeSilent, RuntimeUnreachable
from agent.errors import RuntimeTrouble
from agent.plan.model import ContainerPlan
from tests.container.contract import until, view_in
from tests.container.programs import RUNS, Program
from tests.lab import images
from tests.lab.engine import Engine
from tests.lab.procs import stop

pytestmark = pytest.mark.docker

IMAGE = "busybox:lab"


def spec(name: str = "engine", program: Program = RUNS, **body: Any) -> ContainerSpec:
    plan = ContainerPlan(name, None, {"Image": IMAGE, "Cmd": program.argv(), **body})
    return spec_for(plan, Identity("some-recipe", "plan-1", 1, 8000), LogBounds("1m", 2), lambda name: name)


@pytest.fixture
async def runtime(lab_engine: Engine) -> AsyncIterator[DockerRuntime]:
    images.busybox(lab_engine, IMAGE)
    runtime = DockerRuntime(lab_engine.docker_host)
    yield runtime
    await runtime.close()


@pytest.fixture(autouse=True)
def _clean(lab_engine: Engine) -> Iterator[None]:
    yield
    if left := lab_engine.docker("ps", "--all", "--quiet").split():
        lab_engine.docker("rm", "--force", "--volumes", *left)


async def run(runtime: DockerRuntime, what: ContainerSpec) -> ContainerView:
    container_id = await runtime.create(what)
    await runtime.start(container_id)
    return await view_in(runtime, container_id, RunState.RUNNING)


async def test_many_containers_are_asked_about_over_few_connections(runtime: DockerRuntime) -> None:
    """A deployment's container has a new id at every restart: the months of a daemon must not show in descriptors."""
    before = sockets()
    for number in range(40):
        assert await runtime.inspect(f"{number:064x}") is None
    assert sockets() <= before + 2


def sockets() -> int:
    """What this process has open of them."""
    found = 0
    for link in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            found += os.readlink(link).startswith("socket:")
    return found


async def test_the_body_arrives_as_it_is(runtime: DockerRuntime) -> None:
    gpus = [{"Driver": "", "Count": 0, "DeviceIDs": ["0", "1"], "Capabilities": [["gpu"]], "Options": {}}]
    host = {"IpcMode": "host", "ShmSize": 1 << 26, "DeviceRequests": gpus, "AutoRemove": True}
    view = await run(runtime, spec(HostConfig=host, Env=["A=b c"], WorkingDir="/tmp", Tty=True))
    word = await runtime.inspect(view.id)
    assert word is not None
    assert word["HostConfig"]["IpcMode"] == "host"
    assert word["HostConfig"]["DeviceRequests"] == gpus
    assert word["HostConfig"]["AutoRemove"] is False
    assert word["HostConfig"]["RestartPolicy"]["Name"] == "no"
    assert word["HostConfig"]["LogConfig"] == {"Type": "json-file", "Config": {"max-size": "1m", "max-file": "2"}}
    assert (word["Config"]["WorkingDir"], word["Config"]["Tty"]) == ("/tmp", False)
    assert "A=b c" in word["Config"]["Env"]


async def test_the_pid_is_one_of_this_host_s_processes(runtime: DockerRuntime) -> None:
    view = await run(runtime, spec())
    assert view.pid is not None
    os.kill(view.pid, 0)


SERVES = ["httpd", "-f", "-p", "8000", "-h", "/etc"]


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ({"PortBindings": {"8000/tcp": [{"HostIp": "", "HostPort": "18500"}]}}, ("127.0.0.1", 18500)),
        ({"PortBindings": {"8000/tcp": [{"HostIp": "127.0.0.1", "HostPort": "18501"}]}}, ("127.0.0.1", 18501)),
        ({"PortBindings": {"8000/tcp": [{"HostIp": "", "HostPort": ""}]}}, None),
        ({"NetworkMode": "host"}, ("127.0.0.1", 8000)),
        ({}, None),
    ],
    ids=["published", "on loopback", "on any port", "host network", "not published"],
)
async def test_the_engine_answers_at_the_address(
    runtime: DockerRuntime, host: dict[str, Any], address: tuple[str, int] | None
) -> None:
    what = spec(Cmd=SERVES, HostConfig=host, ExposedPorts={"8000/tcp": {}})
    view = await run(runtime, what)
    assert view.address is not None
    assert address is None or view.address == address
    found: list[bytes] = []

    async def answers() -> bool:
        assert view.address is not None
        try:
            reader, writer = await asyncio.open_connection(*view.address)
            writer.write(b"GET /passwd HTTP/1.0\r\n\r\n")
            found.append(await reader.read())
        except OSError:  # Docker's proxy takes a connection and resets it while nobody listens behind it yet
            return False
        writer.close()
        return b"root:" in found[-1]

    await until(answers, f"an answer at {view.address}")


async def test_a_port_that_is_taken_is_said_so(runtime: DockerRuntime) -> None:
    host = {"PortBindings": {"8000/tcp": [{"HostIp": "", "HostPort": "18502"}]}}
    exposed = {"8000/tcp": dict[str, str]()}
    await run(runtime, spec("first", HostConfig=host, ExposedPorts=exposed))
    second = await runtime.create(spec("second", HostConfig=host, ExposedPorts=exposed))
    with pytest.raises(RuntimeTrouble) as caught:
        await runtime.start(second)
    assert caught.value.code == "docker.port_taken"
    assert "18502" in caught.value.text


async def test_an_image_that_is_missing_is_said_so(runtime: DockerRuntime) -> None:
    with pytest.raises(NoImage) as caught:
        await runtime.create(spec(Image="no-such-image:1"))
    assert "no-such-image:1" in caught.value.text


async def test_an_image_s_facts(runtime: DockerRuntime) -> None:
    facts = await runtime.image(IMAGE)
    assert facts is not None
    assert facts.size
    assert facts.env
    assert "PATH" in facts.env


async def test_a_foreign_holder_of_a_name_is_its_id(runtime: DockerRuntime, lab_engine: Engine) -> None:
    foreign = lab_engine.docker("create", "--name", "engine", IMAGE, "true").strip()
    assert await runtime.name_holder("engine") == foreign
    assert await runtime.name_holder(foreign[:12]) is None
    assert await runtime.list() == ()


async def test_long_lines_and_both_streams_arrive_whole(runtime: DockerRuntime) -> None:
    """Also a last line without an end, once the container has exited: of one that is written in the very moment of the
    exit an Engine's follower (20.10) brings the first 16 KiB alone now and then; the log itself has it whole."""
    script = "printf '%040000d\\n' 7; printf 'to err\\n' >&2; sleep 1; printf '%020000d' 8"
    container_id = await runtime.create(spec(Cmd=["/bin/sh", "-c", script]))
    await runtime.start(container_id)
    living = [len(line.text) async for line in runtime.follow(container_id, None)]
    assert sorted(living[:2]) == [6, 40000]
    assert living[2:] in ([20000], [16384])
    await view_in(runtime, container_id, RunState.EXITED)
    assert sorted([len(line.text) async for line in runtime.follow(container_id, None)]) == [6, 20000, 40000]
    assert sorted(len(line.text) for line in await runtime.tail(container_id, 10)) == [6, 20000, 40000]


async def test_anonymous_volumes_go_with_the_container(runtime: DockerRuntime, lab_engine: Engine) -> None:
    container_id = await runtime.create(spec(program=Program(code=0), Volumes={"/scratch": {}}))
    await runtime.start(container_id)
    await view_in(runtime, container_id, RunState.EXITED)
    assert lab_engine.docker("volume", "ls", "--quiet").split()
    await runtime.remove(container_id)
    assert lab_engine.docker("volume", "ls", "--quiet").split() == []


async def test_a_pull_shows_progress_and_ends_with_the_image(
    runtime: DockerRuntime, lab_engine: Engine, lab_registry: str
) -> None:
    name = f"{lab_registry}/team/engine:1"
    lab_engine.docker("tag", IMAGE, name)
    lab_engine.docker("push", name)
    # Docker knows layers by content: only one that is gone altogether is fetched again.
    everything = lab_engine.docker("image", "ls", "--quiet", "--no-trunc").split()
    lab_engine.docker("image", "rm", "--force", *dict.fromkeys(everything))
    assert await runtime.image(name) is None
    seen = [progress async for progress in runtime.pull(name)]
    assert seen[-1].layers_done == seen[-1].layers == 1
    assert seen[-1].done == seen[-1].total
    assert seen[-1].done > 100_000
    facts = await runtime.image(name)
    assert facts is not None
    (digest,) = facts.digests
    assert digest.startswith(f"{lab_registry}/team/engine@sha256:")
    assert await runtime.image(digest) is not None
    assert [progress.text async for progress in runtime.pull(digest)][-1].startswith("Status: Image is up to date")


async def test_a_pull_of_what_is_not_there_says_why(runtime: DockerRuntime, lab_registry: str) -> None:
    with pytest.raises(PullFailed) as caught:
        await anext(runtime.pull(f"{lab_registry}/team/nothing:1"))
    assert not caught.value.retryable
    with pytest.raises(PullFailed) as caught:
        await anext(runtime.pull("127.0.0.1:1/team/engine:1"))
    assert caught.value.retryable
    assert "refused" in caught.value.text


async def test_a_frozen_engine_costs_one_call_its_deadline(own_engine: Engine) -> None:
    images.busybox(own_engine, IMAGE)
    runtime, hasty = DockerRuntime(own_engine.docker_host), DockerRuntime(own_engine.docker_host, timeout_s=1)
    view = await run(runtime, spec())
    stop(own_engine.pid)
    begun = time.monotonic()
    with pytest.raises(RuntimeSilent):
        await hasty.list()
    assert time.monotonic() - begun < 3
    os.kill(own_engine.pid, signal.SIGCONT)
    assert [found.id for found in await runtime.list()] == [view.id]
    await hasty.close()
    await runtime.close()


@pytest.mark.parametrize("own_engine", [("--live-restore",)], indirect=True, ids=["live-restore"])
async def test_an_engine_that_is_started_again_is_found_again(own_engine: Engine) -> None:
    """Streams end, calls say that nobody answers, and then the same container is there."""
    images.busybox(own_engine, IMAGE)
    runtime = DockerRuntime(own_engine.docker_host, timeout_s=10)
    view = await run(runtime, spec(program=Program(output="up\n")))
    async with aclosing(runtime.follow(view.id, None)) as lines, aclosing(runtime.events()) as events:
        assert (await anext(lines)).text == "up"
        heard: list[str] = []

        async def listen() -> None:
            async for slug in events:
                heard.append(slug)  # noqa: PERF401 - as they come

        waiting = [asyncio.ensure_future(anext(lines, None)), asyncio.ensure_future(listen())]
        while not heard:  # the stream of events is open once one of them came
            passing = await runtime.create(spec("passing", Program(code=0)))
            await runtime.start(passing)
            await view_in(runtime, passing, RunState.EXITED)
            await runtime.remove(passing)
        await asyncio.to_thread(own_engine.end, signal.SIGKILL)
        async with asyncio.timeout(30):
            assert await asyncio.gather(*waiting) == [None, None]
    with pytest.raises(RuntimeUnreachable):
        await runtime.list()
    await asyncio.to_thread(own_engine.start)
    assert await runtime.list() == (view,)
    await runtime.close()
