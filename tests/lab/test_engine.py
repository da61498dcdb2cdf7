"""The lab's Engine does what the recipes need of one."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator

import pytest

from tests.lab import images
from tests.lab.children import served
from tests.lab.engine import Engine
from tests.lab.procs import stop

pytestmark = pytest.mark.docker


@pytest.fixture
def container(lab_engine: Engine) -> Iterator[str]:
    """A name for a container of the test's, gone afterwards."""
    images.busybox(lab_engine, "busybox:lab")
    yield "lab-test"
    lab_engine.docker("rm", "--force", "lab-test", check=False)


def test_the_hosts_settings_and_data_are_not_used(lab_engine: Engine) -> None:
    """Data, client settings and control groups are the session's own."""
    root = lab_engine.docker("info", "--format", "{{.DockerRootDir}}").strip()
    assert root == str(lab_engine.folder / "data")
    assert lab_engine.environment["DOCKER_CONFIG"].startswith(str(lab_engine.folder))


def test_gpus_memlock_and_privileged_are_accepted(lab_engine: Engine, container: str) -> None:
    """A recipe's verbatim arguments run on a machine with no GPU and without the right to lock memory."""
    words = ("--gpus", '"device=0,1"', "--ulimit", "memlock=-1", "--ipc=host", "--privileged")
    lab_engine.docker("run", "-d", "--name", container, *words, "busybox:lab", "sleep", "60")
    assert lab_engine.docker("exec", container, "echo", "in").strip() == "in"
    given = lab_engine.docker("exec", container, "cat", "/proc/1/environ").split("\0")
    assert "NVIDIA_VISIBLE_DEVICES=0,1" in given
    asked = json.loads(lab_engine.docker("inspect", container))[0]["HostConfig"]
    assert [limit["Name"] for limit in asked["Ulimits"]] == ["memlock"]


def test_a_published_port_answers_on_loopback(lab_engine: Engine, container: str) -> None:
    """127.0.0.1 of the test is the one that the Engine publishes on."""
    httpd = ("busybox:lab", "httpd", "-f", "-p", "80", "-h", "/etc")
    lab_engine.docker("run", "-d", "--name", container, "-p", "127.0.0.1:18080:80", *httpd)
    assert served(18080, "/passwd")[1].startswith(b"root:")


@pytest.mark.parametrize("own_engine", [("--live-restore",)], indirect=True, ids=["live-restore"])
def test_containers_outlive_an_engine_that_is_killed(own_engine: Engine) -> None:
    """With live restore, as a careful rig has it, a new dockerd finds what the old one started."""
    images.busybox(own_engine, "busybox:lab")
    own_engine.docker("run", "-d", "--name", "kept", "busybox:lab", "sleep", "600")
    before = own_engine.docker("inspect", "--format", "{{.State.Pid}}", "kept")
    own_engine.end(signal.SIGKILL)
    assert not own_engine.answers()
    os.kill(int(before), 0)
    own_engine.start()
    assert own_engine.docker("inspect", "--format", "{{.State.Pid}}", "kept") == before


def test_a_frozen_engine_does_not_answer(own_engine: Engine) -> None:
    """The socket takes connections and says nothing, as a dockerd that hangs does."""
    stop(own_engine.pid)
    assert not own_engine.answers()
    os.kill(own_engine.pid, signal.SIGCONT)
    assert own_engine.answers()
