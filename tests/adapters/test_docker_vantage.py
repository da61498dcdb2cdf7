"""What an agent in a container sees of the Engine's, by the Engine's word on its own container and by /proc."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent.adapters.docker_vantage import Vantage, own_container
from agent.container.port import ContainerView, RunState

OWN, ENGINE, OTHER = "a" * 64, "b" * 64, "c" * 64
PID = 4242
VIEW = ContainerView(ENGINE, "engine", "r", "p", 1, RunState.RUNNING, pid=PID, address=("127.0.0.1", 8000))
MOUNTS = "31 25 0:27 / /sys rw - sysfs sysfs rw\n36 25 254:0 {} {} rw - ext4 /dev/vda rw\n"


def lacks(**modes: str) -> str:
    document = {"HostConfig": modes}
    return Vantage(OWN).lacks(lambda name: document if name == OWN else None)


@pytest.mark.parametrize(
    ("modes", "words"),
    [
        ({"PidMode": "host", "NetworkMode": "host"}, ()),
        ({"PidMode": "", "NetworkMode": "host"}, ("the host's processes", "pid: host")),
        ({"PidMode": f"container:{OTHER}", "NetworkMode": "host"}, ("pid: host",)),
        ({"PidMode": "host", "NetworkMode": "bridge"}, ("the host's network", "network_mode: host")),
        ({}, ("pid: host, network_mode: host",)),
    ],
)
def test_what_its_own_container_lacks_is_said_with_the_cure(modes: dict[str, str], words: tuple[str, ...]) -> None:
    said = lacks(**modes)
    assert bool(said) == bool(words)
    assert all(word in said for word in words)


def test_an_engine_that_does_not_know_the_agent_s_container_runs_beside_it() -> None:
    """As in a container that has a systemd and an Engine of its own."""
    assert Vantage(OWN).lacks(lambda name: None) == ""


def test_an_agent_on_the_host_asks_nobody() -> None:
    def never(name: str) -> dict[str, Any]:
        raise AssertionError(name)

    assert Vantage(None).lacks(never) == ""


def proc(folder: Path, cgroup: str | None, own: str = "0::/system.slice/recipe-agent.service\n") -> Path:
    """A /proc with the agent and a process of that number."""
    for name, text in {"self": own, str(PID): cgroup}.items():
        if text is not None:
            (folder / name).mkdir()
            (folder / name / "cgroup").write_text(text)
    return folder


@pytest.mark.parametrize(
    ("own", "cgroup", "seen"),
    [
        (None, f"0::/system.slice/docker-{ENGINE}.scope\n", True),
        (None, f"0::/docker/{OTHER}/docker/{ENGINE}/worker\n", True),
        (None, f"0::/system.slice/docker-{OTHER}.scope\n", False),
        (None, "0::/user.slice\n", True),  # a rootless Engine that has no control groups to give
        (None, None, True),  # it has ended, which is no blindness
        (OWN, f"0::/../docker-{ENGINE}.scope\n", True),
        (OWN, "0::/\n", False),  # in the agent's own container: somebody of ours
    ],
)
def test_a_pid_is_believed_only_where_it_is_the_container_s(
    tmp_path: Path, own: str | None, cgroup: str | None, seen: bool
) -> None:
    """A number that is somebody else's here would give wrong connections, and wrong processes to end."""
    view = Vantage(own, proc(tmp_path, cgroup, "0::/\n")).seen(VIEW, "")
    assert (view.pid, view.address, view.hidden) == (PID, VIEW.address, "") if seen else (None, None, view.hidden)
    assert bool(view.hidden) != seen


def test_what_is_lacking_hides_whatever_runs(tmp_path: Path) -> None:
    vantage = Vantage(OWN, proc(tmp_path, f"0::/docker-{ENGINE}.scope\n"))
    view = vantage.seen(VIEW, "the agent runs in a container without the host's network: …")
    assert (view.pid, view.address) == (None, None)
    assert "the host's network" in view.hidden


@pytest.mark.parametrize(
    ("root", "point", "found"),
    [
        (f"/var/lib/docker/containers/{OWN}/hostname", "/etc/hostname", OWN),
        (f"/srv/data/containers/{OWN}/resolv.conf", "/etc/resolv.conf", OWN),
        (f"/lib/containers/storage/overlay-containers/{OWN}/userdata/hosts", "/etc/hosts", OWN),
        ("/", "/etc/hosts", None),
        (f"/var/lib/docker/containers/{OTHER}/mounts/shm", f"/var/lib/docker/containers/{OTHER}/mounts/shm", None),
    ],
)
def test_its_own_container_is_known_by_the_files_that_were_mounted(
    tmp_path: Path, root: str, point: str, found: str | None
) -> None:
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "mountinfo").write_text(MOUNTS.format(root, point))
    assert own_container(tmp_path) == found
