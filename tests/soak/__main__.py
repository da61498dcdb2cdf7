"""Endurance: a fault every minute of real time, and nothing may grow.

    SOAK_MINUTES=60 python -m tests.soak

Plain processes and the simulator. One line a fault as it is mended; ends with 1 when memory, a descriptor, a thread, a
process, a record or a file is left of what has gone.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from tests.soak.holding import leaks
from tests.soak.run import Round, soak

EVERY_S = 60.0
HEADS = ("minute", "fault", "named s", "serves s", "PSS MB", "fds", "threads", "agent", "engine", "records", "files")


def main() -> int:
    minutes = float(os.environ.get("SOAK_MINUTES") or 60)
    every = float(os.environ.get("SOAK_EVERY_S") or EVERY_S)
    print(f"| {' | '.join(HEADS)} |\n|{' --- |' * len(HEADS)}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        seen = soak(Path(folder), minutes, every, lambda one: print(row(one), flush=True))
    found = leaks([one.held for one in seen])
    print(f"\n{len(seen)} faults in {minutes:g} minutes: " + ("; ".join(found) or "nothing grew"))
    return 1 if found else 0


def row(one: Round) -> str:
    held = one.held
    cells = (
        f"{one.minute:.1f}", one.fault, f"{one.mended.found_s:.1f}", f"{one.mended.ready_s:.1f}",
        f"{held.memory_mb:.1f}", held.descriptors, held.threads, held.agent_processes, held.engine_processes,
        held.records, held.files,
    )  # fmt: skip
    return f"| {' | '.join(map(str, cells))} |"


if __name__ == "__main__":
    sys.exit(main())
