"""Where the demo's engine runs: in a container where a Docker Engine answers, else as a plain process."""

from __future__ import annotations

import os
import platform
import shlex
import signal
import socket
import struct
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import docker
from docker.errors import APIError, DockerException
from requests import RequestException

from tests.lab import images
from tests.lab.place import REPOSITORY

IMAGE = "recipe-agent-demo"
USUAL_SOCKET = "unix:///var/run/docker.sock"
PATIENCE_S = 10
IMPORT_S = 120


class Runtime(Protocol):
    """What the demo needs of either kind."""

    kind: str
    title: str

    def settings(self) -> dict[str, object]:
        """Its part of the site file."""
        ...

    def variables(self) -> dict[str, str]:
        """Values of the recipe's variables."""
        ...

    def prepare(self, folder: Path) -> Mapping[str, str]:
        """Makes the engine available; what the agent's environment needs for it."""
        ...

    def sweep(self, name: str, folder: Path) -> list[str]:
        """Ends and removes whatever is left of the demo, in words."""
        ...


def choose(environment: Mapping[str, str]) -> Runtime:
    """Docker where an Engine of this host answers, else a plain process and why."""
    host = environment.get("DOCKER_HOST") or USUAL_SOCKET
    if not host.startswith("unix://"):
        return ProcessRuntime(f"DOCKER_HOST is {host}, and the agent supports a local Engine only")
    if (why := unreachable(host.removeprefix("unix://"))) is not None:
        return ProcessRuntime(why)
    try:
        return DockerRuntime(host)
    except (DockerException, RequestException) as error:
        return ProcessRuntime(f"the Docker Engine at {host} does not answer: {error}")


def unreachable(path: str) -> str | None:
    """Why the Engine behind a socket cannot be used from here, None where it seems that it can."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(PATIENCE_S)
        try:
            probe.connect(path)
            pid = struct.unpack("3i", probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
        except FileNotFoundError:
            return "no Docker Engine on this machine"
        except OSError as error:
            return f"the Docker Engine at {path} cannot be asked: {error.strerror or error}"
    # the kernel names a peer that this process cannot see 0: a socket that was mounted into a container
    return None if pid else f"the Docker Engine at {path} belongs to another machine or a container's host"


class DockerRuntime:
    """A container of an image that is made of this machine's Python."""

    kind = "docker"

    def __init__(self, host: str) -> None:
        self._host = host
        self._client = docker.DockerClient(base_url=host, version="auto", timeout=IMPORT_S)
        about = self._client.info()
        if about.get("OSType") != "linux" or about.get("KernelVersion") != platform.release():
            raise DockerException("it runs in a virtual machine, where the agent cannot look")
        self.title = f"docker: Engine {about['ServerVersion']} at {host}"

    def settings(self) -> dict[str, object]:
        return {"docker": {"host": self._host}}

    def variables(self) -> dict[str, str]:
        return {"DEMO_LISTEN": "0.0.0.0"}  # within the container; it is published on 127.0.0.1 alone

    def prepare(self, folder: Path) -> Mapping[str, str]:
        archive = folder / "image.tar"
        images.write_engine(archive)
        self._client.api.import_image_from_file(str(archive), repository=IMAGE, tag="latest", changes=[images.PATH])
        archive.unlink()
        return {}

    def sweep(self, name: str, folder: Path) -> list[str]:
        left = self._client.containers.list(all=True, filters={"name": f"^/{name}$"})
        for container in left:
            container.remove(force=True, v=True)
        with suppress(APIError):  # another demo runs with it, and removes it
            self._client.images.remove(IMAGE)
        self._client.close()
        return [f"container {container.name}" for container in left]


class ProcessRuntime:
    """A plain process: `vllm` on a PATH of its own is the simulator."""

    kind = "process"

    def __init__(self, why: str) -> None:
        self.title = f"process: {why}"

    def settings(self) -> dict[str, object]:
        return {}

    def variables(self) -> dict[str, str]:
        return {"DEMO_LISTEN": "127.0.0.1"}

    def prepare(self, folder: Path) -> Mapping[str, str]:
        program = folder / "bin" / "vllm"
        program.parent.mkdir()
        home = shlex.quote(str(REPOSITORY / "tests" / "lab"))
        program.write_text(f'#!/bin/sh\nPYTHONPATH={home} exec {shlex.quote(sys.executable)} -m simulator "$@"\n')
        program.chmod(0o755)
        return {"PATH": f"{program.parent}:{os.environ.get('PATH', os.defpath)}"}

    def sweep(self, name: str, folder: Path) -> list[str]:
        """Every process that was started with the demo's own PATH."""
        left = [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if marked(pid, str(folder))]
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        return [f"process {pid}" for pid in left]


def marked(pid: int, folder: str) -> bool:
    """Whether a process, not this one, has the folder in its environment. One that is not ours cannot be read."""
    try:
        return pid != os.getpid() and f"{folder}/".encode() in Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False
