"""A host of its own for one test: a site, the daemon as a real process, and `agentctl`.

    with rig.running(folder, engine) as host:      # engine: the lab's Engine, or None for plain processes
        host.publish(recipe("small", port), profile())
        host.ok("deploy", "small", "--yes", "--wait")
        host.until("small", "stalled", within=20)

Everything that it started has ended after the block, each by its pid. What a person would want to see when a test
fails is in `report()`.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import yaml

from agent.adapters.agent_client import ApiError, Client, Target
from agent.errors import Unreachable
from tests.e2e import recipes
from tests.lab.children import free_port
from tests.lab.children import get as http_get
from tests.lab.engine import Engine
from tests.lab.place import REPOSITORY

PROGRAMS = Path(sys.executable).parent
LOOK_S = 0.1
START_S = 60.0
"""What must come is waited for: a busy machine takes ten seconds for what a quiet one does in one."""
LEAVE_S = 15.0
COMMAND_S = 90.0


@dataclass(frozen=True, slots=True)
class Said:
    """What a command answered."""

    words: tuple[str, ...]
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def error(self) -> dict[str, Any]:
        """The error object of `-o json`."""
        found: dict[str, Any] = json.loads(self.err)["error"]
        return found


class UnixConnection(http.client.HTTPConnection):
    """HTTP on a unix socket: to look at containers many times a second, which the docker client is too slow for."""

    def __init__(self, path: Path) -> None:
        super().__init__("docker", timeout=30)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


class Rig:
    """One site, its daemon and its command line."""

    def __init__(self, folder: Path, engine: Engine | None = None, more: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.engine = engine
        self.port = free_port()
        self.site: dict[str, Any] = {
            "sources": [str(folder / "recipes")],
            "runtime": "docker" if engine else "process",
            "paths": {name: str(folder / name) for name in ("state", "cache", "profiles")}
            | {"socket": str(folder / "agent.sock"), "recipes": str(folder / "recipes")},
            "listen": {"port": self.port},
            "docker": {"host": engine.docker_host if engine else "unix:///nonexistent/docker.sock"},
            "logs": {"form": "text", "level": "debug"},
        }
        self.environment = {**os.environ, **(more or {}), "RECIPE_AGENT_CONFIG": str(folder / "agent.yaml")}
        self.environment["PATH"] = f"{folder / 'bin'}:{PROGRAMS}:{os.environ.get('PATH', '')}"
        self.daemon: subprocess.Popen[bytes] | None = None
        self.slugs: set[str] = set()
        for name in ("recipes", "profiles", "bin"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        self._install_simulator()

    # -- the site -----------------------------------------------------------------------------------------------------

    def _install_simulator(self) -> None:
        """`vllm` on the PATH of what the daemon starts as plain processes."""
        program = self.folder / "bin" / "vllm"
        where = REPOSITORY / "tests" / "lab"
        program.write_text(f'#!/bin/sh\nPYTHONPATH={where} exec {sys.executable} -m simulator "$@"\n')
        program.chmod(0o755)

    def publish(self, document: Mapping[str, Any], profile: str | None = None) -> str:
        """Puts a recipe into the site's folder, with a profile of the site's own; its slug."""
        slug = str(document["slug"])
        (self.folder / "recipes" / f"{slug}.json").write_text(json.dumps(document))
        if profile is not None:
            (self.folder / "profiles" / f"{slug}.yaml").write_text(profile)
        self.slugs.add(slug)
        return slug

    def configure(self) -> None:
        """Writes the site file from `site`."""
        (self.folder / "agent.yaml").write_text(yaml.safe_dump(self.site))

    # -- the daemon ---------------------------------------------------------------------------------------------------

    @property
    def log(self) -> Path:
        return self.folder / "daemon.log"

    def launch(self) -> subprocess.Popen[bytes]:
        """Begins a daemon and does not wait for it."""
        self.configure()
        with self.log.open("ab") as log:
            self.daemon = subprocess.Popen(
                [sys.executable, "-X", "faulthandler", "-m", "agent"],
                env=self.environment,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        return self.daemon

    def start(self) -> float:
        """Starts the daemon; the seconds until it answered."""
        began = time.monotonic()
        process = self.launch()
        while not self.answers():
            assert process.poll() is None, f"the daemon ended with {process.returncode}\n{self.report()}"
            if time.monotonic() - began > START_S:
                process.send_signal(signal.SIGABRT)  # its stacks go to its log
                process.wait()
                raise AssertionError(f"the daemon does not answer\n{self.report()}")
            time.sleep(0.02)
        return time.monotonic() - began

    def answers(self) -> bool:
        try:
            self.api("/v1/deployments")
        except (Unreachable, OSError):
            return False
        return True

    def terminate(self) -> int:
        """SIGTERM, as systemd does it; the exit status."""
        return self._end(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL, as the kernel does it when memory is short."""
        self._end(signal.SIGKILL)

    def _end(self, number: signal.Signals) -> int:
        process, self.daemon = self.daemon, None
        assert process is not None, "the daemon does not run"
        process.send_signal(number)
        try:
            return process.wait(LEAVE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise AssertionError(f"the daemon did not end within {LEAVE_S:.0f} s of {number.name}") from None

    # -- the command line ---------------------------------------------------------------------------------------------

    def ctl(self, *words: str, timeout: float = COMMAND_S) -> Said:
        """Runs `agentctl` with no terminal."""
        done = subprocess.run(
            [PROGRAMS / "agentctl", *words],
            env=self.environment,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        return Said(words, done.returncode, done.stdout, done.stderr)

    def ok(self, *words: str, timeout: float = COMMAND_S) -> Said:
        """`ctl`, and it must have succeeded."""
        said = self.ctl(*words, timeout=timeout)
        assert said.code == 0, f"agentctl {' '.join(words)} ended with {said.code}: {said.out}{said.err}"
        return said

    # -- looking ------------------------------------------------------------------------------------------------------

    def api(self, path: str) -> Any:
        """A GET on the unix socket: as `agentctl` asks, without the cost of a process."""
        return Client(Target(str(self.folder / "agent.sock")), 30.0).get(path)

    def status(self, slug: str) -> dict[str, Any]:
        found: dict[str, Any] = self.api(f"/v1/deployments/{slug}")
        return found

    def until(self, slug: str, *states: str, within: float = 45.0, generation: int | None = None) -> dict[str, Any]:
        """The status once it is one of `states` (and of that generation); fails with everything there is to see."""

        def there(one: dict[str, Any]) -> bool:
            return one["state"] in states and generation in (None, one["generation"])

        what = f"{slug} to become {' or '.join(states)}" + (f" in generation {generation}" if generation else "")
        return self.until_status(slug, there, what, within)

    def until_status(
        self, slug: str, true: Callable[[dict[str, Any]], bool], what: str, within: float = 45.0
    ) -> dict[str, Any]:
        """The first status that fits."""
        end = time.monotonic() + within
        while True:
            one = self.status(slug)
            if true(one):
                return one
            assert time.monotonic() < end, f"waited {within:.0f} s for {what}: it is {one['state']}: {one['why']}"
            time.sleep(LOOK_S)

    def never(self, slug: str, *states: str, seconds: float) -> set[str]:
        """Looks for so many seconds and fails when it is ever in one of `states`; the states that were seen."""
        end, seen = time.monotonic() + seconds, set()
        while time.monotonic() < end:
            one = self.status(slug)
            seen.add(one["state"])
            assert one["state"] not in states, f"{slug} is {one['state']}: {one['why']}"
            time.sleep(LOOK_S)
        return seen

    def events(self, slug: str, after: int = 0) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.api(f"/v1/events?follow=0&limit=5000&after={after}&slug={slug}")
        return found

    def path(self, slug: str, after: int = 0) -> list[str]:
        """The states that it has been in, in their order, by its events."""
        return [event["data"]["to"] for event in self.events(slug, after) if event["kind"] == "state"]

    def incidents(self, slug: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.api(f"/v1/incidents?slug={slug}")
        return found

    def metrics(self) -> str:
        """The exposition, as Prometheus gets it."""
        status, body = http_get(self.port, "/metrics")
        assert status == 200
        return body.decode()

    def value(self, name: str, **labels: str) -> float | None:
        """One series of /metrics by name and (some) labels; None where there is none."""
        for line in self.metrics().splitlines():
            series, _, value = line.rpartition(" ")
            if series.partition("{")[0] == name and all(f'{key}="{text}"' in series for key, text in labels.items()):
                return float(value)
        return None

    # -- what runs ----------------------------------------------------------------------------------------------------

    def containers(self, slug: str) -> list[str]:
        """`ID STATE` of every container of it, running or not."""
        if self.engine is None:
            folder = self.folder / "state" / "processes"
            records = sorted(folder.iterdir()) if folder.is_dir() else []
            return [one.name for one in records if not one.name.startswith(".")]
        mine = quote(json.dumps({"label": [f"recipe-agent.recipe={slug}"]}))
        with closing(UnixConnection(self.engine.socket)) as connection:
            connection.request("GET", f"/containers/json?all=1&filters={mine}")
            found = json.loads(connection.getresponse().read())
        return [f"{one['Id']} {one['State']}" for one in found]

    def report(self) -> str:
        """Everything that a person would look at."""
        parts = [f"-- daemon log (end) --\n{tail(self.log, 60)}"]
        with suppress(ApiError, Unreachable, OSError):
            parts += [f"-- {one['slug']} --\n{json.dumps(one)}" for one in self.api("/v1/deployments")]
            lines = [f"{event['at']} {event['slug']} {event['kind']} {event['text']}" for event in self.api(
                "/v1/events?follow=0&limit=40")]  # fmt: skip
            parts.append("-- events --\n" + "\n".join(lines))
        if self.engine is not None:
            parts.append("-- docker ps -a --\n" + self.engine.docker("ps", "--all", check=False))
        return "\n".join(parts)

    # -- the end ------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Ends the daemon and every engine that it started."""
        if self.daemon is not None:
            self.daemon.kill()
            self.daemon.wait()
            self.daemon = None
        if self.engine is None:
            end = time.monotonic() + LEAVE_S
            while (pids := engine_pids(self.folder)) and time.monotonic() < end:  # one may have just made another
                for pid in pids:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                time.sleep(0.02)
            return
        for slug in sorted(self.slugs):
            for line in self.containers(slug):
                self.engine.docker("rm", "--force", "--volumes", line.split()[0], check=False)


def engine_pids(folder: Path) -> list[int]:
    """Processes that were started out of this rig's folder: its wrappers, simulators and their children."""
    mark = f"PATH={folder / 'bin'}:".encode()
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if mark in (path / "environ").read_bytes() or str(folder).encode() in (path / "cmdline").read_bytes():
                found.append(int(path.name))
    return [pid for pid in found if pid != os.getpid()]


def tail(path: Path, lines: int) -> str:
    text = path.read_text(errors="replace") if path.is_file() else ""
    return "\n".join(line[:400] for line in text.splitlines()[-lines:])


def wait_for(true: Callable[[], Any], what: str, within: float = 40.0) -> Any:
    """The first answer that is true, or a failure that says what was waited for."""
    end = time.monotonic() + within
    while not (found := true()):
        assert time.monotonic() < end, f"waited {within:.0f} s for {what}"
        time.sleep(LOOK_S)
    return found


@contextmanager
def running(folder: Path, engine: Engine | None = None, more: Mapping[str, str] | None = None) -> Iterator[Rig]:
    """A rig whose daemon answers; ended with all that it started."""
    rig = Rig(folder, engine, more)
    try:
        rig.start()
        yield rig
    finally:
        rig.close()


def deployed(rig: Rig, slug: str, windows: Mapping[str, Any] | None = None, wait: bool = True, **env: str) -> int:
    """Publishes a simulator as `slug`, deploys it and waits until it is ready; its port."""
    port = free_port()
    rig.publish(recipes.recipe(slug, port, env=env), recipes.profile(**(windows or {})))
    rig.ok("deploy", slug, "--yes", "-q", *(["--wait=60"] if wait else []))
    return port
