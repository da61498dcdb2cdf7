"""The container engine, the image, names and ports."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agent.engines.model import EngineKind, EngineLaunch
from agent.host.process import Listener
from agent.host.reading import Unknown
from agent.preflight.case import Credit
from agent.preflight.checks import image, name_free, port_free, runtime_api, runtime_reachable, toolkit
from agent.preflight.facts import Image, Neighbour, Toolkit
from agent.preflight.model import Level
from agent.preflight.ports import Published, published
from tests.preflight.build import (
    ENGINE,
    FOREIGN,
    HANGS,
    SLUG,
    WITH_GPUS,
    FakeFacts,
    as_reading,
    case,
    known,
    plan,
    process,
)

PASS, WARN, FAIL, UNKNOWN = Level.PASS, Level.WARN, Level.FAIL, Level.UNKNOWN
OURS = "0" * 64


def engine(**more: Any) -> FakeFacts:
    return FakeFacts(engine=known(replace(ENGINE, **more)))


@pytest.mark.parametrize(
    ("facts", "level", "says"),
    [
        (engine(), PASS, "docker 28.2.2"),
        (engine(rootless=True), WARN, "rootless"),
        (engine(live_restore=False), WARN, "without live-restore"),
        (engine(operating_system="Docker Desktop"), FAIL, "is Docker Desktop"),
        (engine(hidden="the agent runs in a container without …: start it with pid: host"), FAIL, "pid: host"),
        (FakeFacts(engine=Unknown("cannot list containers: permission denied")), FAIL, "permission denied"),
        (engine(passed_over="tcp://rig:2376"), WARN, "and not tcp://rig:2376, which DOCKER_HOST names"),
    ],
)
async def test_the_engine_of_containers(facts: FakeFacts, level: Level, says: str) -> None:
    answer = await runtime_reachable.look(case(facts))
    assert answer.level is level
    assert says in answer.found


async def test_an_engine_on_another_host_is_refused_in_words() -> None:
    """Not as one that happens not to answer: its processes and cards cannot be watched from here."""
    elsewhere = Unknown("docker.host is tcp://rig:2376, which is not this host", unsupported=True)
    answer = await runtime_reachable.look(case(FakeFacts(engine=elsewhere)))
    assert answer.level is FAIL
    assert "is not this host" in answer.found
    assert answer.hint == runtime_reachable.ELSEWHERE


CDI = {"DeviceRequests": [{"Driver": "cdi", "DeviceIDs": ["nvidia.com/gpu=all"]}]}


@pytest.mark.parametrize(
    ("api", "host", "level"),
    [
        ("1.41", WITH_GPUS, PASS),
        ("1.39", WITH_GPUS, FAIL),
        ("1.41", CDI, FAIL),
        ("1.44", CDI, PASS),
        ("1.42", {"Annotations": {"a": "b"}}, FAIL),
        ("1.9", {}, FAIL),  # numbers, not letters
        (None, {}, UNKNOWN),
    ],
)
async def test_the_api_knows_the_body(api: Any, host: Any, level: Level) -> None:
    assert (await runtime_api.look(case(engine(api_version=api), host=host))).level is level


@pytest.mark.parametrize(
    ("kit", "more", "host", "level"),
    [
        (Toolkit("/usr/bin/hook"), {}, WITH_GPUS, PASS),
        (Toolkit("/usr/bin/hook"), {"runtimes": ("runc",)}, WITH_GPUS, WARN),  # daemon-reload takes the cards away
        (Toolkit("/usr/bin/hook"), {"runtimes": ("runc",), "cgroup_driver": "cgroupfs"}, WITH_GPUS, PASS),
        (Toolkit("/usr/bin/hook", ("/etc/cdi/nvidia.yaml",)), {"runtimes": ("runc",)}, WITH_GPUS, PASS),
        (Toolkit(None), {"runtimes": ("runc",)}, WITH_GPUS, FAIL),
        (Toolkit(None, complete=False), {"runtimes": ("runc",)}, WITH_GPUS, UNKNOWN),
        (HANGS, {}, WITH_GPUS, UNKNOWN),
    ],
)
async def test_gpus_get_into_containers(kit: Any, more: Any, host: Any, level: Level) -> None:
    facts = engine(**more)
    facts.kit = as_reading(kit)
    assert (await toolkit.look(case(facts, host=host))).level is level


def test_the_toolkit_is_asked_for_only_with_gpus() -> None:
    assert toolkit.CHECK.applies(case(host=WITH_GPUS))
    assert not toolkit.CHECK.applies(case())


@pytest.mark.parametrize(
    ("holder", "credit", "level", "says"),
    [
        (None, None, PASS, "tiny is free"),
        (Neighbour(FOREIGN, "tiny", True), None, FAIL, "container tiny, id ffffffffffff, running"),
        (Neighbour(FOREIGN, "tiny", False), None, FAIL, "still there"),
        (Neighbour(FOREIGN, "tiny", True, slug="other"), None, FAIL, "recipe other"),
        (Neighbour(OURS, "tiny", True, slug=SLUG), None, PASS, "of this deployment"),
        (Neighbour(OURS, "tiny", True, slug="other"), Credit(container=OURS), PASS, "own"),
        (HANGS, None, UNKNOWN, "no answer"),
    ],
)
async def test_the_name(holder: Any, credit: Any, level: Level, says: str) -> None:
    answer = await name_free.look(case(FakeFacts(names=as_reading(holder)), credit=credit))
    assert answer.level is level
    assert says in answer.found


PORT = {"PortBindings": {"8095/tcp": [{"HostIp": "", "HostPort": "8095"}]}}
LOCAL = {"PortBindings": {"8095/tcp": [{"HostIp": "127.0.0.1", "HostPort": "8095"}]}}


def listener(address: str = "0.0.0.0", pid: Any = 50) -> dict[int, Any]:
    return {8095: known((Listener(address, 8095, 7, as_reading(pid)),))}


@pytest.mark.parametrize(
    ("host", "listening", "level", "says"),
    [
        (PORT, {}, PASS, "8095 free"),
        (PORT, listener(), FAIL, "port 8095 is taken by pid 50 (nginx), listening on 0.0.0.0"),
        (PORT, listener("127.0.0.1"), FAIL, "127.0.0.1"),
        (LOCAL, listener("0.0.0.0"), FAIL, "nginx"),
        (LOCAL, listener("::"), FAIL, "nginx"),
        (LOCAL, listener("10.0.0.5"), PASS, "127.0.0.1:8095 free"),
        (PORT, listener(pid=Unknown("no right to look")), FAIL, "cannot be named (no right to look)"),
        (PORT, {8095: HANGS}, UNKNOWN, "port 8095"),
    ],
)
async def test_a_port_and_its_holder(host: Any, listening: Any, level: Level, says: str) -> None:
    facts = FakeFacts(listening=listening, processes={50: process(50, "nginx")})
    answer = await port_free.look(case(facts, host=host))
    assert answer.level is level
    assert says in answer.found


async def test_a_container_that_publishes_the_port_is_named_before_dockers_proxy() -> None:
    facts = FakeFacts(
        listening=listener(),
        processes={50: process(50, "docker-proxy")},
        around=known((Neighbour(FOREIGN, "chat", True, slug="old-recipe", ports=frozenset({8095})),)),
    )
    answer = await port_free.look(case(facts, host=PORT))
    assert answer.found == "port 8095 is taken by container chat (recipe old-recipe)"
    assert "docker stop chat" in answer.hint


async def test_a_published_port_without_a_listener_is_taken_too() -> None:
    """With Docker's proxy off a packet rule publishes the port, and no socket shows it."""
    facts = FakeFacts(around=known((Neighbour(FOREIGN, "chat", True, ports=frozenset({8095})),)))
    assert (await port_free.look(case(facts, host=PORT))).level is FAIL


async def test_a_container_on_the_hosts_network_is_named() -> None:
    facts = FakeFacts(
        listening=listener(),
        processes={50: process(50, "vllm", container=FOREIGN)},
        around=known((Neighbour(FOREIGN, "chat", True, host_network=True),)),
    )
    answer = await port_free.look(case(facts, host=PORT))
    assert "pid 50 (vllm) in container chat on the host's network" in answer.found


async def test_own_ports_are_credited() -> None:
    own = Neighbour(OURS, "tiny", True, slug=SLUG, ports=frozenset({8095}))
    facts = FakeFacts(listening=listener(), processes={50: process(50, "docker-proxy")}, around=known((own,)))
    credit = Credit(container=OURS, ports=frozenset({8095}))
    assert (await port_free.look(case(facts, host=PORT, credit=credit))).level is PASS
    assert (await port_free.look(case(facts, host=PORT))).level is FAIL


@pytest.mark.parametrize(
    ("more", "ports"),
    [
        ({"host": PORT}, (Published(8095),)),
        ({"host": LOCAL}, (Published(8095, "127.0.0.1"),)),
        ({"host": {"PortBindings": {"8095/udp": [{"HostPort": "8095"}]}}}, ()),
        ({"host": {"PortBindings": {"8095/tcp": [{"HostPort": ""}]}}}, ()),
        ({"host": {"NetworkMode": "host"}}, (Published(8095),)),
        ({"runtime": "process"}, (Published(8095),)),
        (
            {"runtime": "process", "engine": EngineLaunch(EngineKind.VLLM, port=1, host="127.0.0.1")},
            (Published(1, "127.0.0.1"),),
        ),
        ({}, ()),
    ],
)
def test_ports_that_a_plan_takes(more: Any, ports: tuple[Published, ...]) -> None:
    assert published(plan(**more)) == ports


@pytest.mark.parametrize(
    ("found", "how", "body", "level", "says"),
    [
        (Image("sha256:" + "a" * 64, architecture="amd64"), "local", {}, PASS, "aaaaaaaaaaaa"),
        (Image("sha256:a", architecture="arm64"), "local", {}, WARN, "for arm64"),
        (None, "local", {}, FAIL, "tiny:1 is not on this host"),
        (None, "pull", {}, PASS, "will be pulled"),
        (None, "build", {}, PASS, "will be built"),
        (Image("sha256:a"), "local", {"Cmd": ["--model", "x"]}, FAIL, "only flags"),
        (Image("sha256:a", entrypoint=("serve",)), "local", {"Cmd": ["--model", "x"]}, PASS, "is here"),
        (Image("sha256:a"), "local", {"Cmd": ["--model"], "Entrypoint": ["vllm"]}, PASS, "is here"),
        (HANGS, "local", {}, UNKNOWN, "no answer"),
    ],
)
async def test_the_image(found: Any, how: str, body: Any, level: Level, says: str) -> None:
    answer = await image.look(case(FakeFacts(images=as_reading(found)), how=how, body=body))
    assert answer.level is level
    assert says in answer.found
