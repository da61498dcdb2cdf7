"""What the agent adds to an engine's life: to its start, and between its crash and its next start.

    python -m tests.bench.bench_life

Plain processes. The baseline of a deploy is the same engine started by hand until it answers; that of a crash is a
shell that starts it again in a loop. Backoff is 0 and an exit is looked for as quickly as on Docker, whose events wake
the agent. Prints one line of JSON, medians in seconds.
"""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.e2e import recipes, traffic
from tests.e2e.rig import LOOK_S, Rig, running
from tests.lab.children import free_port

TURNS = 5
ENGINE = {"SIM_SCALE": "1", "SIM_START_S": "1", "SIM_BOOT_S": "0.2"}
LIMIT_S = 60.0
AT_ONCE: dict[str, Any] = {"backoff": [0], "release": 20}


def main() -> int:
    with tempfile.TemporaryDirectory() as folder, running(Path(folder)) as rig:
        rig.site["budget"] = {"restarts": 100, "host_restarts": 1000, "backoff_s": [0]}
        rig.terminate()
        rig.start()
        by_hand = [start_by_hand(rig) for _ in range(TURNS)]
        deploys, checks = zip(*(deploy(rig, f"deployed-{number}") for number in range(TURNS)), strict=True)
        looped = crash_in_loop(rig)
        crashed = crashes(rig)
    figures = {
        "start_by_hand_s": round(statistics.median(by_hand), 3),
        "deploy_s": round(statistics.median(deploys), 3),
        "preflight_s": round(statistics.median(checks), 3),
        "deploy_overhead_s": round(
            statistics.median(deploys) - statistics.median(checks) - statistics.median(by_hand), 3
        ),
        "loop_restart_s": round(statistics.median(looped), 3),
        "crash_restart_s": round(statistics.median(crashed), 3),
    }
    print(json.dumps(figures))
    return 0


def words(rig: Rig, port: int) -> list[str]:
    return [str(rig.folder / "bin" / "vllm"), "serve", "sim", "--port", str(port)]


def until_healthy(port: int) -> None:
    end = time.monotonic() + LIMIT_S
    while traffic.get(port, "/health")[0] != 200:
        if time.monotonic() > end:
            raise SystemExit(f"no engine answers on port {port}")
        time.sleep(LOOK_S / 4)


def start_by_hand(rig: Rig) -> float:
    port, began = free_port(), time.monotonic()
    with subprocess.Popen(words(rig, port), env=rig.environment | ENGINE, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL) as child:  # fmt: skip
        until_healthy(port)
        took = time.monotonic() - began
        end_engine(port)
        child.wait(LIMIT_S)
    return took


def end_engine(port: int) -> None:
    """The server and its cores, at once."""
    cores, server = traffic.cores(port), traffic.server(port)
    for pid in (server, *cores):
        os.kill(pid, signal.SIGKILL)


def deploy(rig: Rig, slug: str) -> tuple[float, float]:
    """Until it is ready by the agent's own word, the command's own start included, and how long its checks took."""
    rig.publish(recipes.recipe(slug, free_port(), env=ENGINE), recipes.profile(**AT_ONCE))
    began = time.monotonic()
    rig.ok("deploy", slug, "--yes", "-q", "--wait=60")
    took = time.monotonic() - began
    checks = checked(rig.events(slug))
    rig.ok("remove", slug)
    return took, checks


def checked(events: Sequence[Mapping[str, Any]]) -> float:
    """Seconds from the state `preflight` to the next one."""
    states = [
        (event["data"]["to"], datetime.fromisoformat(event["at"])) for event in events if event["kind"] == "state"
    ]
    begin = [name for name, _ in states].index("preflight")
    return (states[begin + 1][1] - states[begin][1]).total_seconds()


def crash_in_loop(rig: Rig) -> list[float]:
    """From the kill until another process is the engine's server, in a shell's loop."""
    port = free_port()
    script = f"while :; do {' '.join(words(rig, port))} >/dev/null 2>&1; done"
    child = subprocess.Popen(["sh", "-c", script], env=rig.environment | ENGINE)
    try:
        until_healthy(port)
        return [crash(port) for _ in range(TURNS)]
    finally:
        child.kill()
        child.wait()
        end_engine(port)


def crashes(rig: Rig) -> list[float]:
    """The same under the agent."""
    port, slug = free_port(), "crashing"
    rig.publish(recipes.recipe(slug, port, env=ENGINE), recipes.profile(**AT_ONCE))
    rig.ok("deploy", slug, "--yes", "-q", "--wait=60")
    taken = []
    for number in range(TURNS):
        rig.until(slug, "ready", "busy", generation=number + 1, within=LIMIT_S)
        taken.append(crash(port))
    return taken


def crash(port: int) -> float:
    """Kills all of an engine; seconds until another one answers, its own start among them."""
    began = time.monotonic()
    end_engine(port)
    until_healthy(port)
    return time.monotonic() - began


if __name__ == "__main__":
    raise SystemExit(main())
