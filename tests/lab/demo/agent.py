"""The agent of the demo: the real daemon with a site of its own, asked through its socket and its commands."""

from __future__ import annotations

import json
import os
import queue
import re
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent.adapters.agent_client import Client, Target
from agent.errors import AgentError
from tests.lab.place import REPOSITORY

SLUG = "demo"
START_S = 30.0
LEAVE_S = 15.0
DEMO = REPOSITORY / "config" / "demo"


class Failed(Exception):
    """The demo did not go as it should."""


class Agent:
    """One daemon in `folder`, with its site file, its log and its state."""

    def __init__(self, folder: Path, settings: Mapping[str, object], environment: Mapping[str, str], port: int) -> None:
        self.log = folder / "agent.log"
        self.metrics_url = f"http://127.0.0.1:{port}/metrics"
        self._config = folder / "agent.yaml"
        self._environment = {**os.environ, **environment, "RECIPE_AGENT_CONFIG": str(self._config)}
        self._process: subprocess.Popen[bytes] | None = None
        socket = folder / "agent.sock"
        self.client = Client(Target(str(socket)), timeout_s=30)
        paths = {"state": folder / "state", "cache": folder / "cache", "socket": socket}
        site = {
            **settings,
            "sources": [],
            "paths": {name: str(path) for name, path in paths.items()} | {"recipes": str(DEMO), "profiles": str(DEMO)},
            "listen": {"port": port},
        }
        self._config.write_text(json.dumps(site, indent=2))  # YAML holds JSON

    @property
    def alive(self) -> bool:
        """Whether its process runs."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Starts it, out of the terminal's reach, and returns when it answers."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "agent"],
                cwd=REPOSITORY,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        deadline = time.monotonic() + START_S
        while not self.answers():
            if not self.alive or time.monotonic() > deadline:
                raise Failed(f"the agent did not start: {self.last_words()}")
            time.sleep(0.05)

    def answers(self) -> bool:
        """Whether its socket does."""
        try:
            self.client.get("/v1/deployments")
        except AgentError:
            return False
        return True

    def kill(self) -> None:
        """SIGKILL, as the kernel's OOM killer would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def leave(self) -> None:
        """SIGTERM, and no more patience than it needs."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(LEAVE_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def ctl(self, *words: str) -> subprocess.Popen[str]:
        """`agentctl`, as a person would run it."""
        return subprocess.Popen(
            [sys.executable, "-m", "agent.cli.main", *words],
            cwd=REPOSITORY,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def deployment(self) -> dict[str, Any]:
        """The demo's one, as `agentctl status -o json` shows it."""
        found: dict[str, Any] = self.client.get(f"/v1/deployments/{SLUG}")
        return found

    def deployments(self) -> list[dict[str, Any]]:
        """All of them: none or one."""
        found: list[dict[str, Any]] = self.client.get("/v1/deployments")
        return found

    def incidents(self) -> list[dict[str, Any]]:
        """What evidence was kept."""
        found: list[dict[str, Any]] = self.client.get(f"/v1/incidents?slug={SLUG}")
        return found

    def metric(self, name: str) -> dict[str, float]:
        """The series of one metric, by their labels as they are written."""
        with urllib.request.urlopen(self.metrics_url, timeout=10) as answer:
            text = answer.read().decode()
        found = re.findall(rf"^recipe_agent_{name}(\{{.*\}}) (\S+)$", text, re.MULTILINE)
        return {labels: float(value) for labels, value in found}

    def last_words(self) -> str:
        """The end of its log."""
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return " | ".join(lines[-3:])[-600:]


class Events:
    """Every change of state, in order, also over the agent's death: what came meanwhile is asked for again."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._queue: queue.Queue[dict[str, Any]] = queue.Queue()
        self._last = 0
        threading.Thread(target=self._follow, daemon=True).start()

    def next(self, within: float) -> dict[str, Any] | None:
        """The next one, None where none came in so many seconds."""
        try:
            return self._queue.get(timeout=within)
        except queue.Empty:
            return None

    def _follow(self) -> None:
        while True:
            try:
                for event in self._client.events(f"/v1/events?slug={SLUG}&after={self._last}"):
                    self._last = event["seq"]
                    if event["kind"] == "state":
                        self._queue.put(event)
            except (AgentError, OSError, ValueError):
                time.sleep(0.2)  # the agent is gone for the moment
