"""Programs that checks try out: in a throw-away container of an image, or with the agent's own Python.

The container gets nothing: no network, no capability, a root that cannot be written, bounds on memory, processes and
time. It is removed whatever happens; one that the agent's own end left behind is removed by the next trial.
"""

from __future__ import annotations

import asyncio
import math
import os
import signal
import sys
import time
from contextlib import suppress
from functools import partial
from typing import Any

import requests
from docker import APIClient
from docker.errors import APIError, NotFound

from agent.adapters.docker_calls import Calls
from agent.clock import Clock
from agent.errors import RuntimeTrouble
from agent.host.reading import Known, Reading, Unknown
from agent.preflight.trial import NOT_FOUND, Ran, Trial

LABEL = "recipe-agent.trial"
"""Its value: until when the trial may run, seconds since the epoch."""
SPARE_S = 20.0
"""Beside the trial's own time: making and removing the container."""
SAID = 64_000
"""Characters of output that are kept."""
PROCESSES = 1024
NO_PROGRAM = ("executable file not found", "no such file or directory")


class TrialOverran(Exception):
    """It did not end in time."""


class Trials:
    """Runs trials on one Docker Engine (`host` is its socket), or on this host."""

    def __init__(self, host: str, clock: Clock, timeout_s: float = 30.0) -> None:
        self._calls = Calls(host, timeout_s)
        self._clock = clock

    async def run(self, trial: Trial) -> Reading[Ran]:
        try:
            ran = await (self._inside(trial) if trial.image else on_host(trial))
        except RuntimeTrouble as error:
            return Unknown(error.text)
        except (TrialOverran, TimeoutError):
            return Unknown(f"no end within {trial.seconds:g} s")
        except OSError as error:
            return Unknown(f"it could not be started: {error.strerror or error}")
        return Known(ran, self._clock.now())

    async def close(self) -> None:
        self._calls.close()

    async def _inside(self, trial: Trial) -> Ran:
        return await self._calls.run("try a program out", partial(in_container, trial=trial), trial.seconds + SPARE_S)


def in_container(client: APIClient, trial: Trial) -> Ran:
    """Blocks. Raises TrialOverran, and what docker-py raises."""
    sweep(client)
    answer = client.create_container_from_config(body_of(trial, time.time()))  # type: ignore[no-untyped-call]
    container = str(answer["Id"])
    try:
        return ended(client, container, trial)
    finally:
        with suppress(NotFound):
            client.remove_container(container, v=True, force=True)


def ended(client: APIClient, container: str, trial: Trial) -> Ran:
    try:
        client.start(container)
    except APIError as error:
        said = str(error.explanation or error)
        if any(words in said for words in NO_PROGRAM):
            return Ran(NOT_FOUND, err=f"the image has no {trial.words[0]}")
        raise
    try:
        status = int(client.wait(container, timeout=math.ceil(trial.seconds))["StatusCode"])
    except (requests.Timeout, requests.ConnectionError) as error:  # a read that times out comes as either
        raise TrialOverran from error
    out, err = (client.logs(container, stdout=one, stderr=not one, tail=2000) for one in (True, False))
    return Ran(status, text(out), text(err))


def text(said: bytes) -> str:
    return said.decode(errors="replace")[-SAID:]


def sweep(client: APIClient) -> None:
    """Remove what is left of trials whose time is over."""
    for found in client.containers(all=True, filters={"label": LABEL}):
        if float((found.get("Labels") or {}).get(LABEL) or 0) < time.time():
            with suppress(APIError):
                client.remove_container(found["Id"], v=True, force=True)


def body_of(trial: Trial, now: float) -> dict[str, Any]:
    """The body of POST /containers/create."""
    host: dict[str, Any] = {
        "NetworkMode": "none",
        "CapDrop": ["ALL"],
        "SecurityOpt": ["no-new-privileges"],
        "ReadonlyRootfs": True,
        "Tmpfs": {"/tmp": "rw,nosuid,nodev,size=512m"},  # noqa: S108
        "Memory": int(trial.memory),
        "MemorySwap": int(trial.memory),
        "PidsLimit": PROCESSES,
        "Mounts": [
            {"Type": "bind", "Source": source, "Target": target, "ReadOnly": True} for source, target in trial.binds
        ],
        "DeviceRequests": [dict(request) for request in trial.gpus],
        "RestartPolicy": {"Name": "no"},
        "LogConfig": {"Type": "json-file", "Config": {"max-size": "1m", "max-file": "1"}},
        **({"Runtime": trial.runtime} if trial.runtime else {}),
    }
    first, *rest = trial.words
    return {
        "Image": trial.image,
        "Entrypoint": [first],
        "Cmd": rest,
        "Env": [f"{key}={value}" for key, value in trial.env.items()],
        "Healthcheck": {"Test": ["NONE"]},
        "Labels": {LABEL: f"{now + trial.seconds + SPARE_S:.0f}"},
        "HostConfig": host,
    }


async def on_host(trial: Trial) -> Ran:
    """With the agent's own Python, in a process group that is ended as a whole."""
    words = [sys.executable, "-I", *trial.words[1:]] if trial.words[0] == "python3" else trial.words
    process = await asyncio.create_subprocess_exec(
        *words,
        env={**os.environ, **trial.env},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(trial.seconds):
            out, err = await process.communicate()
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
    return Ran(process.returncode or 0, text(out), text(err))
