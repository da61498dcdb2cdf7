"""Keys that an older engine would drop in silence are known by the version that brought them."""

from __future__ import annotations

import shlex

import pytest

from agent.launch.api_keys import unknown_keys, version
from agent.launch.model import ContainerLaunch, Context
from agent.launch.read import read_argv

CASES = [
    ("--gpus all", "1.40", "HostConfig.DeviceRequests"),
    ("--cgroupns host", "1.41", "HostConfig.CgroupnsMode"),
    ("--annotation a=b", "1.43", "HostConfig.Annotations"),
    ("--health-cmd x --health-start-interval 1s", "1.44", "Healthcheck.StartInterval"),
    ("--mac-address 02:42:ac:11:00:02", "1.44", "MacAddress"),
    ("--network a --network b", "1.44", "more than one network"),
    ("--device nvidia.com/gpu=0", "1.44", "Driver=cdi"),
    ("--mount type=bind,src=/a,dst=/b,bind-recursive=writable,ro", "1.44", "ReadOnlyNonRecursive"),
    ("--mount type=volume,src=v,dst=/b,volume-subpath=s", "1.45", "VolumeOptions.Subpath"),
    ("--mount type=image,src=i,dst=/b", "1.48", "Type=image"),
    ("--network name=a,gw-priority=2", "1.48", "GwPriority"),
]


def before(text: str) -> str:
    major, minor = version(text)
    return f"{major}.{minor - 1}"


@pytest.mark.parametrize(("flags", "since", "key"), CASES, ids=[flags for flags, _, _ in CASES])
def test_a_key_is_unknown_until_its_version(flags: str, since: str, key: str):
    """Refused by the version before, known by its own."""
    launch = read_argv(["docker", "run", *shlex.split(flags), "img"], Context())
    assert isinstance(launch, ContainerLaunch)
    assert any(key in found and since in found for found in unknown_keys(launch.body, before(since)))
    assert unknown_keys(launch.body, since) == []


def test_a_plain_launch_suits_every_engine():
    """Empty keys of newer versions say nothing."""
    launch = read_argv(["docker", "run", "-p", "1:1", "-v", "/a:/b", "--shm-size", "1g", "img"], Context())
    assert isinstance(launch, ContainerLaunch)
    assert unknown_keys(launch.body, "1.24") == []


def test_versions_compare_as_numbers():
    """1.9 is older than 1.41."""
    assert version("1.9") < version("1.41")
