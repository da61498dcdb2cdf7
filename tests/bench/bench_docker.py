"""What the agent costs on a Docker Engine, beside what such a host has anyhow: dockerd, containerd, node_exporter.

    python -m tests.lab.inside --with exporter -- python -m tests.bench.bench_docker

Simulators in containers, a look every 10 s as by default, 1 and 16 of them. Memory (PSS) and processor of the agent;
of a node_exporter that is scraped every 10 s; and of dockerd with its containerd, in turns with the agent running and
stopped (SIGSTOP: nothing of it asks anything). Prints one line of JSON, medians of the turns; megabytes are 10^6 bytes,
shares are of one core.
"""

from __future__ import annotations

import json
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.bench import processes
from tests.e2e import recipes
from tests.e2e.rig import Rig, running
from tests.lab import engine, images, packages
from tests.lab.children import free_port, get, serving
from tests.lab.place import Unavailable

MANY, TURNS = 16, 3
SETTLE_S, TURN_S, SCRAPE_S = 12.0, 20.0, 10.0
QUICK_START = {"SIM_SCALE": "1", "SIM_START_S": "1", "SIM_BOOT_S": "0.2"}
Exporter = tuple[int, int]
"""Its pid and its port."""


def main() -> int:
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder, engine.running("bench-docker") as docker:
        images.simulator(docker, recipes.IMAGE)
        with running(Path(folder), docker) as rig, exporter(Path(folder)) as exporting:
            figures["dockerd_mb_before"] = round(processes.pss(engine_pids(docker)), 1)
            for count in (1, MANY):
                for number in range(len(rig.slugs) + 1, count + 1):
                    deploy(rig, number)
                figures |= {f"{name}_{count}": value for name, value in watch(rig, docker, exporting).items()}
    for name in ("mb", "cpu_percent", "docker_cpu_percent"):
        more = figures[f"{name}_{MANY}"] - figures[f"{name}_1"]
        figures[f"{name}_each_further"] = round(more / (MANY - 1), 3)
    print(json.dumps(figures))
    return 0


@contextmanager
def exporter(folder: Path) -> Iterator[Exporter | None]:
    """A node_exporter as a host runs it; None where its package is not unpacked."""
    try:
        program = packages.fetch(packages.EXPORTER) / "usr/bin/prometheus-node-exporter"
    except Unavailable as gap:
        print(f"bench: {gap}", file=sys.stderr)
        yield None
        return
    port = free_port()
    with serving([program, f"--web.listen-address=127.0.0.1:{port}"], port, folder / "exporter.log") as child:
        yield child.pid, port


def engine_pids(docker: engine.Engine) -> list[int]:
    """dockerd and containerd. Shims and proxies are there for the containers, whoever watches them."""
    found = [docker.pid, *children(docker.pid)]
    return [pid for pid in found if processes.read(pid, "comm").strip() in (b"dockerd", b"containerd")]


def children(pid: int) -> list[int]:
    return [int(word) for task in processes.tasks(pid) for word in processes.read(pid, f"task/{task}/children").split()]


def deploy(rig: Rig, number: int) -> None:
    slug = f"engine-{number:02}"
    rig.publish(recipes.recipe(slug, free_port(), env=QUICK_START))
    rig.ok("deploy", slug, "--yes", "-q", "--wait=60")


def watch(rig: Rig, docker: engine.Engine, exporting: Exporter | None) -> dict[str, float]:
    """Once things have settled. What the agent causes is dockerd's share with it less that without it."""
    assert rig.daemon is not None
    time.sleep(SETTLE_S)
    agent, of_docker = processes.own(rig.daemon.pid), engine_pids(docker)
    shares: dict[str, list[float]] = {"cpu_percent": [], "with": [], "without": [], "exporter_cpu_percent": []}
    beside = [exporting[0]] if exporting else []
    for _ in range(TURNS):
        mine, theirs, exported = used((agent, of_docker, beside), lambda: passed(exporting))
        shares["cpu_percent"].append(mine)
        shares["with"].append(theirs)
        shares["exporter_cpu_percent"].append(exported)
        os.kill(rig.daemon.pid, signal.SIGSTOP)
        try:
            shares["without"].append(used((of_docker,), lambda: passed(None))[0])
        finally:
            os.kill(rig.daemon.pid, signal.SIGCONT)
        time.sleep(SCRAPE_S / 2)  # what came in meanwhile is done
    found = {name: round(statistics.median(values), 3) for name, values in shares.items()}
    found |= {"docker_cpu_percent": round(found["with"] - found["without"], 3), "mb": round(processes.pss(agent), 1)}
    found |= {"dockerd_mb": round(processes.pss(of_docker), 1), "exporter_mb": round(processes.pss(beside), 1)}
    found |= {"dockerd_cpu_percent_with": found.pop("with"), "dockerd_cpu_percent_without": found.pop("without")}
    if not exporting:
        del found["exporter_mb"], found["exporter_cpu_percent"]
    return found


def used(groups: Sequence[Sequence[int]], work: Callable[[], None]) -> list[float]:
    """Percent of a core that each group of processes used meanwhile."""
    before, began = [processes.cpu_s(pids) for pids in groups], time.monotonic()
    work()
    seconds = time.monotonic() - began
    return [100 * (processes.cpu_s(pids) - earlier) / seconds for pids, earlier in zip(groups, before, strict=True)]


def passed(exporting: Exporter | None) -> None:
    """A turn, with the scrapes that Prometheus would make of the exporter."""
    for _ in range(round(TURN_S / SCRAPE_S)):
        if exporting:
            get(exporting[1], "/metrics")
        time.sleep(SCRAPE_S)


if __name__ == "__main__":
    raise SystemExit(main())
