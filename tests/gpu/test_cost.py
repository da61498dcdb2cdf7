"""Whether being watched slows a card down: products a second with the agent, and with the agent stopped, in turns."""

from __future__ import annotations

import os
import re
import signal
import statistics
import time
from pathlib import Path

import pytest

from tests.e2e import recipes
from tests.gpu.box import HostEngine
from tests.gpu.cards import size_for
from tests.gpu.conftest import Table
from tests.gpu.rigs import on_card, running

TURNS = 10
TURN_S = 5.0
COUNTED = re.compile(r"products (\d+) at ([0-9.]+)")


@pytest.mark.timeout(300)
def test_a_watched_card_works_as_fast_as_an_unwatched_one(docker: HostEngine, tmp_path: Path, table: Table) -> None:
    """Neighbouring turns are compared, so that a card that warms up counts for both. What is held against is wide (a
    tenth): a machine may be shared, and the figure itself goes into the table."""
    if "torch" not in docker.boxes:
        pytest.skip("RECIPE_AGENT_GPU_TORCH names no container with PyTorch")
    with running(tmp_path, docker) as rig:
        document, _ = on_card(tmp_path, docker.boxes["torch"], "counted", size_for(0.1))
        rig.publish(document, recipes.profile(release=60))
        rig.ok("deploy", "counted", "--yes", "-q", "--wait=60")
        container = rig.containers("counted")[-1].split()[0]
        assert rig.daemon is not None
        edges: list[tuple[float, float]] = []
        try:
            for turn in range(2 * TURNS):
                rig.daemon.send_signal(signal.SIGSTOP if turn % 2 else signal.SIGCONT)
                time.sleep(0.2)
                began = time.monotonic()
                time.sleep(TURN_S)
                edges.append((began, time.monotonic()))
        finally:
            os.kill(rig.daemon.pid, signal.SIGCONT)
        said = docker.logs(container)
        counts = [(float(at), int(number)) for number, at in COUNTED.findall(said)]
        rates = [rate(counts, *edge) for edge in edges]
        rig.ok("remove", "counted")
    ratios = [watched / alone for watched, alone in zip(rates[::2], rates[1::2], strict=True)]
    low, middle, high = statistics.quantiles(ratios, n=4)
    table("products a second, watched against unwatched", f"{middle:.4f} (quartiles {low:.4f} to {high:.4f})")
    table("… products a second", f"{statistics.median(rates[::2]):.1f}; {statistics.median(rates[1::2]):.1f}")
    assert middle > 0.9


def rate(counts: list[tuple[float, int]], began: float, ended: float) -> float:
    """Products a second between the first and the last count in a span."""
    inside = [one for one in counts if began <= one[0] <= ended]
    assert len(inside) >= 2, "the engine does not count"
    return (inside[-1][1] - inside[0][1]) / (inside[-1][0] - inside[0][0])
