"""The demo from the first line to the last: `make demo`, or `.venv/bin/python -m tests.lab.demo`.

Ends with 0 when all went as it should, 1 when not, 130 on Ctrl-C; nothing is left running in any case.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from types import FrameType

from agent.errors import AgentError
from tests.lab.children import free_port
from tests.lab.demo import runtimes, story
from tests.lab.demo.agent import Agent, Events, Failed
from tests.lab.demo.screen import Screen
from tests.lab.demo.traffic import Traffic

INTERRUPTED = 130
ENDINGS = (signal.SIGTERM, signal.SIGHUP)
REMOVE_S = 30


def main() -> int:
    """The exit status."""
    for number in ENDINGS:
        signal.signal(number, interrupted)
    screen = Screen(sys.stdout, os.environ)
    runtime = runtimes.choose(os.environ)
    screen.title(f"runtime: {runtime.title}")
    screen.text(
        "The engine is a simulator: vLLM's flags, API, log and metrics from real processes, without a model or a GPU. "
        "Everything else is the product as it ships."
    )
    screen.gap()
    folder = Path(tempfile.mkdtemp(prefix="recipe-agent-demo-"))
    try:
        return Demo(screen, runtime, folder).run()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def interrupted(_number: int, _frame: FrameType | None) -> None:
    """Any polite end is Ctrl-C."""
    raise KeyboardInterrupt


class Demo:
    """One run in `folder`."""

    def __init__(self, screen: Screen, runtime: runtimes.Runtime, folder: Path) -> None:
        self._screen = screen
        self._runtime = runtime
        self._folder = folder
        self._name = folder.name
        self._port = free_port()
        self._traffic = Traffic(self._port, clients=3)
        self._agent: Agent | None = None

    def run(self) -> int:
        """All acts, then whatever came, the end."""
        try:
            self._play()
            status = 0
        except KeyboardInterrupt:
            self._screen.event("Ctrl-C", "everything is taken away")
            status = INTERRUPTED
        except (Failed, AgentError, OSError) as error:
            self._screen.event("failed", str(error))
            status = 1
        for number in (signal.SIGINT, *ENDINGS):
            signal.signal(number, signal.SIG_IGN)
        left = self._end()
        if left and status == 0:
            self._screen.event("failed", f"left behind, and ended now: {', '.join(left)}")
            return 1
        self._screen.event("done", f"nothing is left running; {self._folder} is removed")
        return status

    def _play(self) -> None:
        environment = self._runtime.prepare(self._folder)
        variables = {"DEMO_NAME": self._name, "DEMO_PORT": str(self._port), **self._runtime.variables()}
        settings = {"runtime": self._runtime.kind, "variables": variables, **self._runtime.settings()}
        self._agent = Agent(self._folder, settings, environment, free_port())
        self._agent.start()
        self._screen.event("agent", f"runs, with a site of its own in {self._folder}")
        stage = story.Stage(self._screen, self._agent, Events(self._agent.client), self._traffic, self._port)
        for act in (story.deploy, story.serve, story.stall, story.lose_the_agent, story.finish):
            act(stage)

    def _end(self) -> list[str]:
        """What was left of the demo after its deployment was removed; all of it is gone afterwards."""
        self._traffic.stop()
        if self._agent is not None:
            if self._agent.alive:
                with suppress(Exception):  # the sweep ends what this did not
                    self._agent.ctl("remove", "demo", "--quiet").communicate(timeout=REMOVE_S)
            self._agent.leave()
        return self._runtime.sweep(self._name, self._folder)


if __name__ == "__main__":
    sys.exit(main())
