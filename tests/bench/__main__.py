"""All benches, each in a process of its own, and one table of what was promised and what was measured.

    python -m tests.bench [--only WORD]…

It judges nothing: a machine that others use says little about the program, and a person reads the load above the table.
What cannot be measured here is named with its reason.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LIMIT_S = 900.0


@dataclass(frozen=True)
class Line:
    """One figure of a bench. `most` and `least` are the promise; `beside` the baseline of the same run."""

    what: str
    bench: str
    key: str
    unit: str
    most: float | None = None
    least: float | None = None
    beside: str = ""

    @property
    def target(self) -> str:
        if self.most is not None:
            return f"< {self.most:g} {self.unit}".strip()
        return f"≥ {self.least:g} {self.unit}".strip() if self.least is not None else ""


LINES = (
    Line("agent, all its processes, 1 engine: memory (PSS)", "agent", "mb_1", "MB", most=90, beside="libraries_mb"),
    Line("the same with 16 engines", "agent", "mb_16", "MB", beside="libraries_mb"),
    Line("each further engine: memory", "agent", "mb_each_further", "MB", most=4),
    Line("the process runtime's wrapper of an engine", "agent", "wrapper_mb", "MB"),
    Line("processor, 1 engine, a look every 10 s", "agent", "cpu_percent_1", "% of a core", most=0.5),
    Line("processor, 16 engines", "agent", "cpu_percent_16", "% of a core"),
    Line("each further engine: processor", "agent", "cpu_percent_each_further", "% of a core", most=0.2),
    Line("the agent on Docker, 1 engine: memory (PSS)", "docker", "mb_1", "MB", most=90, beside="exporter_mb_1"),
    Line("the same with 16 engines", "docker", "mb_16", "MB", beside="dockerd_mb_16"),
    Line("processor on Docker, 1 engine", "docker", "cpu_percent_1", "% of a core", most=0.5,
         beside="exporter_cpu_percent_1"),
    Line("processor on Docker, 16 engines", "docker", "cpu_percent_16", "% of a core",
         beside="dockerd_cpu_percent_without_16"),
    Line("each further engine on Docker: processor", "docker", "cpu_percent_each_further", "% of a core", most=0.2),
    Line("what the agent costs dockerd and containerd, 16 engines", "docker", "docker_cpu_percent_16", "% of a core",
         beside="dockerd_cpu_percent_with_16"),
    Line("a scrape of /metrics over HTTP, 1 engine", "agent", "scrape_ms_1", "ms", beside="healthz_ms_1"),
    Line("the same with 16 engines", "agent", "scrape_ms_16", "ms", beside="healthz_ms_16"),
    Line("rendering /metrics, 1 deployment", "metrics", "scrape_1_ms", "ms", most=5),
    Line("rendering /metrics, 16 deployments", "metrics", "scrape_16_ms", "ms", most=5),
    Line("agentctl status ÷ python -c pass, from a wheel", "commands", "status_ratio", "×", most=3.5),
    Line("agentctl status", "commands", "status_ms", "ms", beside="bare_ms"),
    Line("agentctl status ÷ docker ps", "docker_life", "status_by_docker_ps", "×", beside="docker_ps_ms"),
    Line("agentctl plan, the whole command", "commands", "plan_ms", "ms", most=600, beside="bare_ms"),
    Line("agentctl preflight, the whole command", "commands", "preflight_ms", "ms", beside="bare_ms"),
    Line("compiling a plan", "plan", "compile_s", "s", most=0.6),
    Line("reading and planning 1 MB of recipe", "plan", "plan_1mb_s", "s", most=1),
    Line("reading a launch of the largest size that is read", "launch", "heavy_largest_s", "s", most=1),
    Line("preflight of four cards and 160 shards, cold", "preflight", "cold_s", "s", most=2, beside="warm_s"),
    Line("checks of a deploy", "life", "preflight_s", "s"),
    Line("deploy until ready, over the engine's start and the checks", "life", "deploy_overhead_s", "s", most=0.5,
         beside="start_by_hand_s"),
    Line("deploy over `docker run`, without the checks", "docker_life", "deploy_overhead_s", "s", most=0.5,
         beside="docker_run_s"),
    Line("crash → container started, less the proof of release ÷ Docker's own restart", "docker_life", "crash_ratio",
         "×", most=1.1, beside="docker_restart_s"),
    Line("of it: evidence", "docker_life", "crash_saveevidence_s", "s"),
    Line("of it: the old container's log and removal", "docker_life", "crash_remove_s", "s"),
    Line("of it: the proof of release", "docker_life", "proof_of_release_s", "s"),
    Line("of it: the new container's creation and start", "docker_life", "crash_start_s", "s",
         beside="crash_create_s"),
    Line("crash → answers again, backoff 0", "life", "crash_restart_s", "s", beside="loop_restart_s"),
    Line("one look: folded and judged", "verdict", "verdict_ms", "ms"),
    Line("reading a scrape of vLLM", "sampling", "scrape_ms", "ms", most=5, beside="client_library_ms"),
    Line("engine's tokens/s with the agent ÷ without", "sampling", "tokens_per_s_ratio", "×", least=0.995,
         beside="standard_error"),
    Line("engine's tokens a processor second, with ÷ without", "sampling", "tokens_per_cpu_s_ratio", "×", least=0.995),
    Line("state of 16 deployments with trouble, 30 days", "state", "month_of_16_mb", "MB"),
    Line("state of 100 deployments, a day", "state", "day_of_100_mb", "MB"),
    Line("reading the state of 100 deployments", "state", "read_100_ms", "ms"),
)  # fmt: skip


def main() -> int:
    options = argparse.ArgumentParser(prog="python -m tests.bench")
    options.add_argument("--only", action="append", default=[], metavar="WORD", help="benches with this name")
    only = options.parse_args().only
    benches = [name for name in dict.fromkeys(line.bench for line in LINES) if not only or name in only]
    load = os.getloadavg()[0]
    found = {bench: figures_of(bench) for bench in benches}
    print(f"Measured on {machine()}; load {load:.1f} before, {os.getloadavg()[0]:.1f} after.\n")
    print("| what | promised | measured | baseline of the same run |\n| --- | --- | --- | --- |")
    for line in LINES:
        if line.bench in found:
            print(row(line, found[line.bench]))
    return 0


def figures_of(bench: str) -> dict[str, Any] | str:
    """What a bench printed, or why it did not. Its exit status is its own promise, which the table shows anyhow."""
    print(f"bench_{bench} …", file=sys.stderr, flush=True)
    try:
        done = subprocess.run(
            [sys.executable, "-m", f"tests.bench.bench_{bench}"],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S, check=False,
        )  # fmt: skip
        found = json.loads(done.stdout.splitlines()[-1])
    except subprocess.TimeoutExpired:
        return f"it took longer than {LIMIT_S:.0f} s"
    except (ValueError, IndexError):
        return (done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"])[-1][:160]
    return found if isinstance(found, dict) else "it printed no figures"


def row(line: Line, found: dict[str, Any] | str) -> str:
    if isinstance(found, str):
        return f"| {line.what} | {line.target} | not measured: {found} | |"
    value = found.get(line.key)
    beside = f"{line.beside.replace('_', ' ')} {found[line.beside]}" if line.beside in found else ""
    return f"| {line.what} | {line.target} | {value} {line.unit}{mark(line, value)} | {beside} |"


def mark(line: Line, value: Any) -> str:
    """What misses its promise is said to."""
    if not isinstance(value, int | float):
        return ""
    missed = (line.most is not None and value > line.most) or (line.least is not None and value < line.least)
    return " (missed)" if missed else ""


def machine() -> str:
    """Processors, their name, memory, kernel, Python."""
    names = [line.partition(":")[2].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()
             if line.startswith("model name")]  # fmt: skip
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    cpu = names[0] if names else platform.machine()
    kernel = platform.release().partition("-")[0]
    return f"{os.cpu_count()} × {cpu}, {memory:.0f} GiB, Linux {kernel}, Python {platform.python_version()}"


if __name__ == "__main__":
    raise SystemExit(main())
