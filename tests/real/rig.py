"""The real daemon over a real engine: a site of its own, one recipe that is a bare command line, and what is seen.

Every process is ended by the pid (and start time) that it was started with or that /proc names as a child of such a
one; nothing is ever looked for by name.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent.adapters import process_records as records
from agent.adapters.agent_client import ApiError, Client, Target
from agent.adapters.process_table import alive
from agent.adapters.sqlite_store import SqliteStore
from agent.errors import Unreachable
from tests.conftest import REPOSITORY

POLL_S = 0.1
UP_S = 30.0


class NotSeen(AssertionError):
    """What was waited for did not come; the message holds the time line, so that a person can see what came instead."""


@dataclass
class Site:
    """Where one daemon lives, and the one recipe that it is given."""

    folder: Path
    slug: str
    command: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)
    watch: Mapping[str, float] = field(default_factory=dict)
    """Windows in seconds, scaled down so that a fault is found within a test."""
    restarts: int = 3

    def write(self) -> Path:
        """The site file; its path."""
        for name in ("recipes", "profiles", "state", "cache"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        words = ["env", *(f"{name}={value}" for name, value in self.env.items()), *self.command]
        document = {
            "slug": self.slug,
            "title": self.slug,
            "revision": {"no": 1, "content_hash": "0" * 8},
            "config": {"launch": words if self.env else list(self.command)},
        }
        (self.folder / "recipes" / f"{self.slug}.json").write_text(json.dumps(document))
        profile = {"recipe": {"slug": self.slug}, "watch": dict(self.watch)}
        (self.folder / "profiles" / f"{self.slug}.yaml").write_text(json.dumps(profile))
        paths = {name: str(self.folder / name) for name in ("recipes", "profiles", "state", "cache")}
        site = {
            "runtime": "process",
            "sources": [paths["recipes"]],
            "paths": paths | {"socket": str(self.folder / "agent.sock")},
            "listen": {"port": 0},
            "logs": {"form": "json"},
            "budget": {"restarts": self.restarts, "backoff_s": [1]},
        }
        file = self.folder / "agent.yaml"
        file.write_text(json.dumps(site))  # JSON is YAML
        return file


class Rig:
    """One daemon and its deployment."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self._config = site.write()
        self._log = (site.folder / "agent.log").open("ab")
        self.agent = subprocess.Popen(
            [sys.executable, "-m", "agent", "--config", str(self._config)],
            cwd=REPOSITORY,
            stdout=self._log,
            stderr=self._log,
        )
        self.client = Client(Target(str(site.folder / "agent.sock")), timeout_s=20.0)
        try:
            self._until(self._answers, UP_S, "the agent answers")
        except NotSeen:
            self.close()
            raise

    def _answers(self) -> bool:
        try:
            self.client.get("/v1/deployments")
        except (Unreachable, OSError):
            return False
        return True

    def ctl(self, *words: str, timeout_s: float = 60.0) -> subprocess.CompletedProcess[str]:
        """agentctl, as a person types it."""
        return subprocess.run(
            [sys.executable, "-m", "agent.cli.main", *words, "--config", str(self._config)],
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )

    def deploy(self, *accepted: str) -> None:
        """Ask for it, some checks accepted; returns when the engine's process runs."""
        done = self.ctl(
            "deploy", self.site.slug, "--yes", *(word for check in accepted for word in ("--accept", check))
        )
        assert done.returncode == 0, done.stderr

    def status(self) -> Mapping[str, Any]:
        try:
            found: Mapping[str, Any] = self.client.get(f"/v1/deployments/{self.site.slug}")
        except ApiError:
            return {"state": "none", "why": "", "generation": 0}
        return found

    def wait(self, states: Sequence[str], seconds: float, *, generation: int | None = None) -> float:
        """Seconds until one of these states is seen (of this generation, where one is named)."""
        began = time.monotonic()

        def there() -> bool:
            now = self.status()
            return now["state"] in states and generation in (None, now["generation"])

        self._until(there, seconds, f"{' or '.join(states)}" + (f" of generation {generation}" if generation else ""))
        return time.monotonic() - began

    def _until(self, holds: Callable[[], bool], seconds: float, what: str) -> None:
        end = time.monotonic() + seconds
        while not holds():
            if self.agent.poll() is not None:
                raise NotSeen(f"the agent ended with {self.agent.returncode}:\n{self.agent_log()[-3000:]}")
            if time.monotonic() > end:
                raise NotSeen(f"not within {seconds:.0f} s: {what}\n{self.told()}")
            time.sleep(POLL_S)

    def events(self) -> list[Mapping[str, Any]]:
        """What the agent saw and did, oldest first."""
        done = self.ctl("events", self.site.slug, "-o", "json")
        found: list[Mapping[str, Any]] = json.loads(done.stdout) if done.returncode == 0 else []
        return found

    def learned(self) -> Mapping[str, float]:
        """What the agent has measured of this engine, as it lies on its disk."""

        async def read() -> Mapping[str, float]:
            store = SqliteStore(self.site.folder / "state/state.db")
            try:
                return await store.learned(self.site.slug)
            finally:
                await store.close()

        return asyncio.run(read())

    def incidents(self) -> list[Mapping[str, Any]]:
        found: list[Mapping[str, Any]] = self.client.get("/v1/incidents")
        return found

    def told(self) -> str:
        """The time line, for a person."""
        lines = [f"{one.get('at')} {one.get('kind')}: {one.get('text')}" for one in self.events()]
        return "\n".join([*lines, f"now: {dict(self.status())}"])

    def agent_log(self) -> str:
        return (self.site.folder / "agent.log").read_text(errors="replace")

    def processes(self) -> dict[str, int]:
        """The engine's processes by the name that the kernel knows them by (`llama-server`, `VLLM::EngineCor`)."""
        root = self.root()
        return {name(pid): pid for pid in reversed(family(root))} if root else {}

    def root(self) -> int | None:
        """The engine's first process, by the process runtime's own records; None where none runs."""
        for folder in records.folders(self.site.folder / "state/processes"):
            started = records.started(records.read(folder))
            if started is not None and alive(started.main):
                return started.main.pid
        return None

    def close(self) -> None:
        """Remove the deployment, end the agent; what is left of the engine is ended by its pid."""
        left = family(self.root() or 0)
        for pid in left:
            send(pid, signal.SIGCONT)
        if self.agent.poll() is None:
            with suppress(NotSeen, subprocess.TimeoutExpired):
                self.ctl("remove", self.site.slug)
                self._until(lambda: self.status()["state"] == "none", 30.0, "removed")
            self.agent.send_signal(signal.SIGTERM)
            try:
                self.agent.wait(20)
            except subprocess.TimeoutExpired:
                self.agent.kill()
                self.agent.wait(10)
        for pid in left:
            send(pid, signal.SIGKILL)
        self._log.close()


# ── processes ─────────────────────────────────────────────────────────────────────────────────────────────────────


def family(root: int) -> list[int]:
    """A process and its descendants, parents first; empty where it is gone."""
    if root <= 0 or not Path(f"/proc/{root}").exists():
        return []
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (parent := parent_of(int(entry.name))) is not None:
            children.setdefault(parent, []).append(int(entry.name))
    found = [root]
    for pid in found:
        found.extend(children.get(pid, []))
    return found


def parent_of(pid: int) -> int | None:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, IndexError, ValueError):
        return None


def name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def send(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return
