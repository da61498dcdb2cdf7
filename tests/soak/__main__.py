"""Endurance: a fault every minute of real time, and nothing may grow.

    SOAK_MINUTES=60 python -m tests.soak

The simulator on plain processes, and at the same time in containers of the lab's Docker Engine where it can be had (in
the lab: `make soak`), an agent each. One line a fault as it is mended; ends with 1 when memory, a descriptor, a thread,
a process, a record, a container, a volume or a file is left of what has gone.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from tests.e2e import recipes
from tests.lab import engine, images
from tests.lab.engine import Engine
from tests.lab.place import Unavailable
from tests.soak.holding import leaks
from tests.soak.run import Round, soak

EVERY_S = 60.0
HEADS = ("runtime", "minute", "fault", "named s", "serves s", "PSS MB", "of no file", "fds", "threads", "agent",
         "engine", "records", "files")  # fmt: skip


def main() -> int:
    minutes = float(os.environ.get("SOAK_MINUTES") or 60)
    every = float(os.environ.get("SOAK_EVERY_S") or EVERY_S)
    with ExitStack() as stack:
        engines: list[Engine | None] = [None]
        try:
            engines.append(stack.enter_context(engine.running("soak")))
            images.simulator(engines[1], recipes.IMAGE)  # type: ignore[arg-type]
        except Unavailable as gap:
            print(f"plain processes alone: {gap}", flush=True)
        print(f"| {' | '.join(HEADS)} |\n|{' --- |' * len(HEADS)}", flush=True)
        with ThreadPoolExecutor() as pool:
            runs = [pool.submit(one_runtime, minutes, every, docker) for docker in engines]
        return max(run.result() for run in runs)


def one_runtime(minutes: float, every: float, docker: Engine | None) -> int:
    name = "docker" if docker else "process"
    with tempfile.TemporaryDirectory() as folder:
        try:
            seen = soak(Path(folder), minutes, every, lambda one: print(row(name, one), flush=True), docker)
        except AssertionError as error:  # the other runtime goes on; a person need not wait for its end to see this
            print(f"\n{name}: ended by a fault that was not mended as it should be: {error}", flush=True)
            return 1
    found = leaks([one.held for one in seen])
    print(f"\n{name}: {len(seen)} faults in {minutes:g} minutes: " + ("; ".join(found) or "nothing grew"), flush=True)
    return 1 if found else 0


def row(runtime: str, one: Round) -> str:
    held = one.held
    cells: Sequence[object] = (
        runtime, f"{one.minute:.1f}", one.fault, f"{one.mended.found_s:.1f}", f"{one.mended.ready_s:.1f}",
        f"{held.memory_mb:.1f}", f"{held.anonymous_mb:.1f}", held.descriptors, held.threads, held.agent_processes,
        held.engine_processes, held.records, held.files,
    )  # fmt: skip
    return f"| {' | '.join(map(str, cells))} |"


if __name__ == "__main__":
    sys.exit(main())
