"""The short form of the endurance run, and what counts as a leak."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.soak.holding import Holding, leaks
from tests.soak.run import soak

MINUTES, EVERY_S = 2.0, 5.0
HELD = Holding(
    agent=7,
    memory_mb=80.0,
    anonymous_mb=60.0,
    descriptors=40,
    threads=12,
    agent_processes=2,
    engine_processes=3,
    records=1,
    files=9,
)


@pytest.mark.parametrize(
    ("last", "words"),
    [
        (HELD, ""),
        (replace(HELD, anonymous_mb=64.0, descriptors=42, threads=13), ""),
        (replace(HELD, anonymous_mb=72.0), "anonymous mb of agent 7: 60 → 72"),
        (replace(HELD, memory_mb=92.0), ""),  # another program ended, and shares its libraries no more
        (replace(HELD, descriptors=60), "descriptors"),
        (replace(HELD, threads=20), "threads"),
        (replace(HELD, agent_processes=3), "agent processes"),
        (replace(HELD, engine_processes=4), "engine processes: 3 → 4"),
        (replace(HELD, records=2), "records"),
        (replace(HELD, files=10), "files"),
        (replace(HELD, agent=8, anonymous_mb=120.0), ""),
        (replace(HELD, agent=8, files=10), "files"),
    ],
)
def test_a_leak_is_what_grew_beyond_what_comes_and_goes(last: Holding, words: str) -> None:
    """The agent's own figures count within one life of it, what is left on the host over all lives."""
    found = leaks([HELD, last])
    assert (len(found) == 1 and words in found[0]) if words else found == []


@pytest.mark.long
@pytest.mark.timeout(420)
def test_faults_for_two_minutes_leave_nothing_behind(tmp_path: Path) -> None:
    """Stall, zombie, exit 0, a killed core, a killed agent: flat memory, no descriptor, thread, process or file."""
    seen = soak(tmp_path, MINUTES, EVERY_S, print)
    assert {"stall", "agent killed"} <= {one.fault for one in seen}
    assert leaks([one.held for one in seen]) == []
