"""A body becomes a docker run line that means the same body, or is refused."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from agent.launch.equal import differing
from agent.launch.model import ContainerLaunch, Context
from agent.launch.read import read_argv, read_shell
from agent.launch.refusal import LaunchRefused, NotCarried
from agent.launch.write import as_line, to_docker_run
from tests.launch.strategies import command_lines

LINES = [
    "-d --name n --rm --gpus all --ipc=host -p 127.0.0.1:80:80/udp -v /a:/b:ro img serve 'a b'",
    """--gpus '"device=0,1",capabilities=compute,driver=nvidia' --device nvidia.com/gpu=1 --device /dev/a:/b:r img""",
    "--network n --network-alias A --ip 1.2.3.4 --network name=m,alias=x,driver-opt=k=v,gw-priority=3 img",
    "-it --entrypoint '' -e 'A=b c' --tmpfs /t:size=1g --mount 'type=volume,src=v,dst=/d,volume-opt=o=1' img",
    """--mount '"type=bind","source=/a,b","target=/c","bind-propagation=rslave"' --ulimit nofile=1:2 img""",
    "--health-cmd 'x || y' --health-interval 1m --cpus 1.5 --init=false --memory-swappiness 0 -l a=b img",
    "--security-opt systempaths=unconfined --security-opt label=disable --cap-drop ALL --restart on-failure:2 img",
    "-a stderr --expose 9 --add-host a:::1 --dns 1.1.1.1 --link a:b --volumes-from c --network default img",
    "--platform arm64 --pull always --annotation a=b --sysctl net.a=1 --log-driver x --log-opt a=b img",
]  # fmt: skip


@pytest.mark.parametrize("line", LINES)
def test_there_and_back(line: str):
    """Read, written and read again: the same body, name and platform."""
    launch = read_argv(["docker", "run", *shlex.split(line)], Context())
    assert isinstance(launch, ContainerLaunch)
    words = to_docker_run(launch)
    again = read_argv(words, Context())
    assert isinstance(again, ContainerLaunch)
    assert differing(launch.body, again.body) == []
    assert (again.name, again.platform, again.client.pull) == (launch.name, launch.platform, launch.client.pull)
    through_a_shell = read_shell(as_line(words), Context())[0]
    assert isinstance(through_a_shell, ContainerLaunch)
    assert differing(launch.body, through_a_shell.body) == []


@given(argv=command_lines())
@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
def test_nothing_is_lost_silently(argv: list[str]):
    """Whatever can be read can be written back, or is refused with the keys that stand in the way."""
    try:
        launch = read_argv(argv, Context({"USER": "u"}, {}, "/w"))
    except LaunchRefused:
        return
    assert isinstance(launch, ContainerLaunch)
    try:
        again = read_argv(to_docker_run(launch), Context())
    except NotCarried:
        return
    assert isinstance(again, ContainerLaunch)
    assert differing(launch.body, again.body) == []


UNSAYABLE: list[tuple[str, dict[str, Any], str]] = [
    ("Healthcheck", {"Test": ["CMD", "x"]}, "Healthcheck"),
    ("HostConfig", {"CpuCount": 2}, "HostConfig.CpuCount"),
    ("HostConfig", {"SecurityOpt": ['seccomp={"a":1}']}, "seccomp"),
    ("HostConfig", {"DeviceRequests": [{"Count": -1, "Capabilities": [["a"], ["b"]]}]}, "DeviceRequests"),
    ("OnBuild", ["x"], "OnBuild"),
]


@pytest.mark.parametrize(("key", "value", "named"), UNSAYABLE, ids=[named for _, _, named in UNSAYABLE])
def test_what_no_flag_says_is_refused(key: str, value: Any, named: str):
    """The keys are named; nothing is dropped."""
    launch = read_argv(["docker", "run", "img"], Context())
    assert isinstance(launch, ContainerLaunch)
    changed = {**launch.body[key], **value} if key == "HostConfig" else value
    with pytest.raises(NotCarried) as caught:
        to_docker_run(replace(launch, body={**launch.body, key: changed}))
    assert named in caught.value.text


def test_a_long_entrypoint_runs_the_same_program():
    """`--entrypoint` takes one word; the rest goes before the command."""
    launch = read_argv(["docker", "run", "img", "c"], Context())
    assert isinstance(launch, ContainerLaunch)
    words = to_docker_run(replace(launch, body={**launch.body, "Entrypoint": ["a", "b"]}))
    assert words[-5:] == ["--entrypoint", "a", "img", "b", "c"]
