"""How long the commands that people wait for take, and the lab's own parts: medians, in milliseconds.

.venv/bin/python -m tests.lab.inside -- .venv/bin/python -m tests.lab.bench
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.lab import engine, images, systemd
from tests.lab.place import Unavailable

TIMES = 7
AGENTCTL = Path(sys.executable).with_name("agentctl")


def main() -> int:
    """Prints a line for each thing; those of the Engine only in the lab."""
    show("bare interpreter", lambda: run(sys.executable, "-c", ""))
    show("agentctl version", lambda: run(AGENTCTL, "version"))
    show("agentctl status, no agent", lambda: run(AGENTCTL, "status", status=5))
    try:
        lab()
    except Unavailable as gap:
        print(f"the lab's parts: {gap}")
    return 0


def lab() -> None:
    """The lab's parts, with the images made beforehand."""
    began = time.monotonic()
    with engine.running("bench") as docker_engine:
        tell("Engine, until it answers", [time.monotonic() - began])
        tell("busybox image", [duration(lambda: images.busybox(docker_engine, "busybox:bench"))])
        tell("simulator image", [duration(lambda: images.simulator(docker_engine, "simulator:bench"))])
        show("a container's whole life", lambda: short_life(docker_engine))
        began = time.monotonic()
        with systemd.booted(docker_engine, "bench-machine"):
            tell("a machine with systemd, until it runs", [time.monotonic() - began])
        began = time.monotonic()
    tell("Engine, until it is gone", [time.monotonic() - began])


def short_life(docker_engine: engine.Engine) -> None:
    """A container that does nothing, created, started and removed."""
    docker_engine.docker("run", "--rm", "busybox:bench", "true")


def run(*words: str | Path, status: int = 0) -> None:
    """Runs a command that must end with `status`."""
    done = subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    if done.returncode != status:
        raise SystemExit(f"bench: {words[0]} {words[1]} ended with {done.returncode}: {done.stderr.strip()}")


def show(name: str, work: Callable[[], None]) -> None:
    """Does it a few times after a first that does not count, and prints the median."""
    work()
    tell(name, [duration(work) for _ in range(TIMES)])


def duration(work: Callable[[], None]) -> float:
    """Seconds that it takes."""
    began = time.monotonic()
    work()
    return time.monotonic() - began


def tell(name: str, seconds: list[float]) -> None:
    """One line: the median, and the extremes where there are several."""
    extremes = f"  ({min(seconds) * 1e3:.0f} to {max(seconds) * 1e3:.0f})" if len(seconds) > 1 else ""
    print(f"{name:<40}{statistics.median(seconds) * 1e3:8.0f} ms{extremes}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
