"""How long all checks of a four-card recipe take on a healthy host, with everything cold and again.

    python -m tests.lab.inside -- python -m tests.bench.bench_preflight

Needs the lab: a real Docker Engine, the stand-in NVML with four cards, and 160 shards of 2 GiB each (sparse files with
real headers). Prints one line of JSON; ends with 1 when a first run takes longer than the promised 2 s.

`parser_s` is `image.arguments` alone, with the simulator's parser: a throw-away container made, run and removed. It
stands apart since it takes as long as an engine's imports (9 to 13 s for vLLM 0.32 on two slow cores).
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import struct
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from agent.adapters.docker_runtime import DockerRuntime
from agent.adapters.nvml import NvmlGpus
from agent.adapters.preflight_facts import GatheredFacts, HostPorts
from agent.adapters.preflight_facts_trial import Trials
from agent.adapters.procfs_host import ProcHost
from agent.adapters.procfs_processes import ProcProcesses
from agent.adapters.procfs_sockets import ProcSockets
from agent.clock import SystemClock
from agent.plan.model import Plan
from agent.preflight.case import Case
from agent.preflight.catalogue import CHECKS
from agent.preflight.checks import image_arguments
from agent.preflight.model import Finding, Level
from agent.preflight.run import run, without
from agent.quantity import Bytes
from tests.lab import engine, images
from tests.lab.nvml import hosts, standin
from tests.preflight.build import WITH_GPUS, need, plan

PROMISED_S = 2.0
SHARDS = 160
SHARD = 2 << 30
TENSORS = 200
AGAIN = 5


def main() -> int:
    with tempfile.TemporaryDirectory() as folder, engine.running("bench") as docker:
        images.simulator(docker, "tiny:1")
        show_cards(Path(folder))
        model = Path(folder) / "models" / "tiny"
        write_model(model)
        figures = asyncio.run(measure(docker, recipe(model)))
    print(json.dumps(figures))
    return 0 if figures["cold_s"] <= PROMISED_S else 1


async def measure(docker: engine.Engine, asked: Plan) -> dict[str, Any]:
    """The first run pays for NVML's process, docker's import and first connection; later ones do not."""
    clock = SystemClock()
    gpus, runtime = NvmlGpus(clock), DockerRuntime(docker.docker_host)
    ports = HostPorts(
        clock,
        gpus,
        ProcHost(clock),
        ProcProcesses(clock),
        ProcSockets(clock),
        runtime,
        docker_socket=str(docker.socket),
        trials=Trials(docker.docker_host, clock),
    )
    usual = without(CHECKS, {image_arguments.ID})
    times: list[float] = []
    findings: tuple[Finding, ...] = ()
    for _ in range(1 + AGAIN):
        started = time.perf_counter()
        facts = GatheredFacts(ports)
        findings = await run(Case(asked, facts), usual)
        times.append(time.perf_counter() - started)
        await facts.close()
    started = time.perf_counter()
    facts = GatheredFacts(ports)
    findings += await run(Case(asked, facts), (image_arguments.CHECK,))
    parser = time.perf_counter() - started
    await facts.close()
    await gpus.close()
    await runtime.close()
    return {
        "cold_s": round(times[0], 3),
        "warm_s": round(statistics.median(times[1:]), 3),
        "parser_s": round(parser, 3),
        "checks": len(findings),
        "shards": SHARDS,
        "not_passed": {one.check: one.found for one in findings if one.level is not Level.PASS},
    }


def recipe(model: Path) -> Plan:
    host = {
        **WITH_GPUS,
        "IpcMode": "host",
        "Ulimits": [{"Name": "memlock", "Soft": -1, "Hard": -1}],
        "Binds": [f"{model.parent}:/models:ro"],
        "PortBindings": {"8095/tcp": [{"HostIp": "", "HostPort": "8095"}]},
    }
    return plan(
        need("gpu.count", 4),
        need("gpu.model", "cmp-170hx"),
        need("gpu.memory", Bytes.gb(64)),
        need("gpu.architecture", "8.0"),
        need("gpu.busy", Bytes.mib(2000)),
        need("driver.version", "610.57.04"),
        need("memory.total", Bytes.gib(1)),
        need("memory.available", Bytes.gib(1)),
        need("disk.free", Bytes.gib(1)),
        host=host,
        body={"Entrypoint": ["vllm"], "Cmd": ["serve", "/models/tiny", "--port", "8095"]},
        model="/models/tiny",
    )


def show_cards(folder: Path) -> None:
    """Before NVML's own process starts, which takes this environment over."""
    library = standin.build(folder)
    shown = standin.StandIn(library, folder / "nvml.json")
    shown.show(hosts.cmp170hx(4))
    os.environ.update(shown.environment)


def write_model(folder: Path) -> None:
    """Shards whose data is a hole: only the headers take room."""
    folder.mkdir(parents=True)
    names = [f"model-{number:05d}-of-{SHARDS:05d}.safetensors" for number in range(1, SHARDS + 1)]
    for name in names:
        write_shard(folder / name)
    index = {"weight_map": {f"layer.{number}": name for number, name in enumerate(names)}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def write_shard(path: Path) -> None:
    size = SHARD // TENSORS
    ends = [(number * size, (number + 1) * size) for number in range(TENSORS)]
    entries = {f"layer.{start}": {"dtype": "U8", "shape": [size], "data_offsets": [start, end]} for start, end in ends}
    header = json.dumps(entries).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        file.truncate(8 + len(header) + ends[-1][1])


if __name__ == "__main__":
    sys.exit(main())
