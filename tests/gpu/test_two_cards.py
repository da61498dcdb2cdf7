"""Two cards of one host: deployments side by side, and one over both."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from tests.e2e import traffic
from tests.e2e.rig import wait_for
from tests.gpu.box import Box, HostEngine, tree
from tests.gpu.cards import GIB, held, looked, main_pid, on_the_card, proven_release, size_for
from tests.gpu.conftest import CARDS, Table
from tests.gpu.rigs import on_card, placed, running

pytestmark = [
    pytest.mark.timeout(240),
    pytest.mark.skipif(len(CARDS) < 2, reason="one NVIDIA GPU: what two cards do needs a second one"),
]
WINDOWS = {"release": 60, "stall": 6}


def test_two_cards_are_told_apart(table: Table) -> None:
    names = [looked(lambda gpu: (gpu.index, gpu.uuid, gpu.pci), number) for number in range(2)]
    assert [index for index, _, _ in names] == [0, 1]
    assert names[0][1] != names[1][1]
    assert names[0][2] != names[1][2]
    table("two cards", f"PCI {names[0][2]}, {names[1][2]}")


def test_two_deployments_keep_to_their_cards_and_one_that_hangs_is_nothing_to_the_other(
    docker: HostEngine, tmp_path: Path, table: Table
) -> None:
    """Each on its own card; a third that wants a taken card is refused; a hang of one is mended alone."""
    before, size, box = [held(0), held(1)], size_for(0.3), docker.boxes["own"]
    with running(tmp_path, docker, ()) as rig:
        ports = []
        for card, slug in enumerate(("left", "right")):
            document, port = on_card(tmp_path, box, slug, size, str(card))
            rig.publish(document, placed(str(card), **WINDOWS))
            rig.ok("deploy", slug, "--yes", "-q", "--wait=60")
            ports.append(port)
        wait_for(lambda: all(held(n) >= before[n] + size for n in (0, 1)), "both to hold their memory", 60)
        pids = [set(tree(main_pid(docker, rig, slug))) for slug in ("left", "right")]
        assert on_the_card(0) <= pids[0]
        assert on_the_card(1) <= pids[1]
        third, _ = on_card(tmp_path, box, "third", size, "1")
        rig.publish(third, placed("1", **WINDOWS))
        refused = rig.ctl("deploy", "third", "--yes", "-q", "--wait=30")
        assert refused.code == 3, refused.out + refused.err
        assert "right" in refused.out + refused.err
        table("a third deployment on a taken card", f"`{one_line(refused.err or refused.out)}`")
        with traffic.client(ports[0]), traffic.client(ports[1]):
            rig.until("left", "busy", within=20)
            for pid in tree(main_pid(docker, rig, "left"))[1:]:
                os.kill(pid, signal.SIGSTOP)
            began = time.monotonic()
            rig.until("left", "stalled", "stopping", within=60)
            table("two cards: one hangs, until found", f"{time.monotonic() - began:.1f} s")
            rig.until("left", "ready", "busy", generation=2, within=90)
            table("two cards: until its next engine is ready", f"{time.monotonic() - began:.1f} s")
            other = rig.status("right")
            assert (other["state"], other["generation"], other["restarts"]) == ("busy", 1, 0)
        assert not rig.incidents("right")
        for slug in ("left", "right"):
            rig.ok("remove", slug)
    wait_for(lambda: held(0) <= before[0] and held(1) <= before[1], "all memory to be back", 30)


def one_line(text: str) -> str:
    return " ".join(text.split())[:300]


def test_one_deployment_over_both_cards_is_mended_on_both(
    docker: HostEngine, box: Box, tmp_path: Path, table: Table
) -> None:
    """Tensor parallel 2: a rank on each card; all of them hang; both cards are free before the next start."""
    before, size = [held(0), held(1)], size_for(0.3)
    with running(tmp_path, docker, ()) as rig:
        document, port = on_card(tmp_path, box, "both", size, "0,1")
        rig.publish(document, placed("0", "1", **WINDOWS))
        rig.ok("deploy", "both", "--yes", "-q", "--wait=60")
        assert all(held(n) >= before[n] + size for n in (0, 1))
        assert not on_the_card(0) & on_the_card(1)
        with traffic.client(port):
            rig.until("both", "busy", within=20)
            for pid in tree(main_pid(docker, rig, "both"))[1:]:
                os.kill(pid, signal.SIGSTOP)
            began = time.monotonic()
            rig.until("both", "stalled", "stopping", within=60)
            rig.until("both", "ready", "busy", generation=2, within=90)
            table(f"{box.busy}: both cards, SIGSTOP until ready again", f"{time.monotonic() - began:.1f} s")
        table(f"{box.busy}: twice {size / GIB:.0f} GiB proven released in", proven_release(rig, "both"))
        assert all(held(n) >= before[n] + size for n in (0, 1))
        rig.ok("remove", "both")
    wait_for(lambda: held(0) <= before[0] and held(1) <= before[1], "all memory to be back", 30)
