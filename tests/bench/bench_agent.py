"""What the agent itself costs with 1 and with 16 engines: memory and processor of all its processes, a scrape, state.

    python -m tests.bench.bench_agent

Plain processes, simulators, a look every 10 s as by default. Beside it a bare interpreter with the libraries that the
agent is made of. The wrapper that the process runtime keeps around an engine is told apart: Docker has its own.
Prints one line of JSON; megabytes are 10^6 bytes, shares are of one core.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.bench import processes
from tests.e2e import recipes
from tests.e2e.rig import Rig, running
from tests.lab.children import free_port, get

MANY = 16
SETTLE_S = 15.0
WATCH_S = 40.0
SCRAPES = 15
LIBRARIES = "import aiohttp, apscheduler, docker, prometheus_client, pydantic, structlog, sys; sys.stdin.read()"
QUICK_START = {"SIM_SCALE": "1", "SIM_START_S": "1", "SIM_BOOT_S": "0.2"}


def main() -> int:
    figures: dict[str, Any] = {"libraries_mb": round(libraries(), 1)}
    with tempfile.TemporaryDirectory() as folder, running(Path(folder)) as rig:
        deploy(rig, 1)
        figures |= {f"{name}_1": value for name, value in watch(rig).items()}
        for number in range(2, MANY + 1):
            deploy(rig, number)
        figures |= {f"{name}_{MANY}": value for name, value in watch(rig).items()}
        figures["wrapper_mb"] = round(processes.pss(processes.wrappers(folder)) / MANY, 2)
        figures["state_kb_16"] = size(Path(folder) / "state") // 1000
    for name in ("mb", "cpu_percent"):
        more = figures[f"{name}_{MANY}"] - figures[f"{name}_1"]
        figures[f"{name}_each_further"] = round(more / (MANY - 1), 3)
    print(json.dumps(figures))
    return 0


def deploy(rig: Rig, number: int) -> None:
    slug = f"engine-{number:02}"
    rig.publish(recipes.recipe(slug, free_port(), env=QUICK_START))
    rig.ok("deploy", slug, "--yes", "-q", "--wait=60")


def watch(rig: Rig) -> dict[str, float]:
    """Once things have settled: memory at the end of the watch, processor time over it, the median scrape."""
    assert rig.daemon is not None
    time.sleep(SETTLE_S)
    pids = processes.own(rig.daemon.pid)
    before, began = processes.cpu_s(pids), time.monotonic()
    time.sleep(WATCH_S)
    used, seconds = processes.cpu_s(pids) - before, time.monotonic() - began
    return {
        "mb": round(processes.pss(pids), 1),
        "processes": len(pids),
        "cpu_percent": round(100 * used / seconds, 2),
        "scrape_ms": fetched(rig, "/metrics"),
        "healthz_ms": fetched(rig, "/healthz"),
    }


def fetched(rig: Rig, path: str) -> float:
    times = []
    for _ in range(SCRAPES):
        began = time.perf_counter()
        get(rig.port, path)
        times.append(time.perf_counter() - began)
    return round(statistics.median(times) * 1000, 2)


def libraries() -> float:
    """Megabytes of an interpreter that has imported them and does nothing."""
    with subprocess.Popen([sys.executable, "-c", LIBRARIES], stdin=subprocess.PIPE) as child:
        time.sleep(5.0)
        found = processes.pss([child.pid])
        child.communicate()
    return found


def size(folder: Path) -> int:
    """Bytes that its files take on disk."""
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())


if __name__ == "__main__":
    raise SystemExit(main())
