"""Plans that take a real card from one another, and restarts that must leave nothing on it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import recipes
from tests.e2e.rig import Rig, wait_for
from tests.gpu.box import Box, HostEngine
from tests.gpu.cards import GIB, held, on_the_card, proven_release, size_for
from tests.gpu.conftest import Table
from tests.gpu.rigs import on_card, running
from tests.lab.children import free_port

pytestmark = pytest.mark.timeout(300)
RESTARTS = 20
WINDOWS = recipes.profile(release=60)
SLACK = 64 << 20
"""Bytes: what a driver keeps or gives for itself while engines come and go."""


def revised(document: dict[str, Any], number: int) -> dict[str, Any]:
    return document | {"revision": {"no": number, "content_hash": f"{number:040x}"}}


def test_a_card_goes_from_plan_to_plan_and_back(docker: HostEngine, box: Box, tmp_path: Path, table: Table) -> None:
    """Each wants 60 % of the card, so two at once would fail: a new revision, another recipe, and one that wants more
    than there is, after which the one before serves again by itself."""
    before, size, port = held(), size_for(0.6), free_port()
    with running(tmp_path, docker) as rig:
        first, _ = on_card(tmp_path, box, "first", size, port=port)
        second, _ = on_card(tmp_path, box, "second", size, port=port)
        third, _ = on_card(tmp_path, box, "third", size * 2, port=port)
        for one in (revised(first, 1), second, third):
            rig.publish(one, WINDOWS)
        rig.ok("deploy", "first", "--yes", "-q", "--wait=60")
        rig.publish(revised(first, 2))
        took(table, rig, f"{box.busy}: upgrade", "first", "upgrade", "first", "--now", "-q")
        took(table, rig, f"{box.busy}: swap", "second", "deploy", "second", "--replace", "first", "--yes", "-q")
        assert rig.status("first")["state"] == "stopped"
        began = time.monotonic()
        assert rig.ctl("deploy", "third", "--replace", "second", "--yes", "-q", "--wait=120").code != 0
        rig.until("second", "ready", within=60, generation=2)
        table(f"{box.busy}: swap to an engine without enough memory, until the old one serves", seconds(began))
        gone = rig.status("third")
        assert gone["state"] == "failed", gone
        assert "memory" in gone["why"], gone["why"]
        assert before + size <= held() < before + 2 * size
        rig.ok("remove", "second")
    wait_for(lambda: held() <= before + SLACK, "all memory to be back", 30)


def took(table: Table, rig: Rig, what: str, slug: str, *words: str) -> None:
    """Does it, waits for the next generation's readiness and writes down how long that took."""
    began, generation = time.monotonic(), rig.status(slug)["generation"] if known(rig, slug) else 0
    rig.ok(*words)
    rig.until(slug, "ready", within=90, generation=generation + 1)
    table(f"{what} with 60 % of the card, until the new engine is ready", seconds(began))
    table(f"{what}: proven released in", proven_release(rig, slug) if generation else "by the one before")


def known(rig: Rig, slug: str) -> bool:
    return any(one["slug"] == slug for one in rig.api("/v1/deployments"))


def seconds(began: float) -> str:
    return f"{time.monotonic() - began:.1f} s"


def test_twenty_restarts_leave_nothing_behind(docker: HostEngine, tmp_path: Path, table: Table) -> None:
    """On the card, in the host's memory, in shared memory, and among the agent's own descriptors."""
    before, size, shared = held(), size_for(0.2), set(Path("/dev/shm").iterdir())
    with running(tmp_path, docker) as rig:
        document, _ = on_card(tmp_path, docker.boxes["own"], "again", size)
        rig.publish(document, WINDOWS)
        rig.ok("deploy", "again", "--yes", "-q", "--wait=60")
        first, began = reading(rig), time.monotonic()
        for generation in range(2, RESTARTS + 2):
            rig.ok("restart", "again", "-q")
            rig.until("again", "ready", within=60, generation=generation)
        table(f"{RESTARTS} restarts with {size / GIB:.0f} GiB, each", f"{(time.monotonic() - began) / RESTARTS:.1f} s")
        last = reading(rig)
        table("… card, agent's descriptors, threads and resident memory before and after", f"{first}; {last}")
        assert abs(last["card_mib"] - first["card_mib"]) <= SLACK >> 20
        assert last["descriptors"] <= first["descriptors"] + 2
        assert last["threads"] <= first["threads"] + 2
        assert last["resident_mib"] <= first["resident_mib"] + 16
        assert len(rig.containers("again")) == 1
        assert not rig.incidents("again"), "what a person asked for is no incident"
        rig.ok("remove", "again")
    wait_for(lambda: held() <= before + SLACK, "all memory to be back", 30)
    assert not on_the_card()
    assert set(Path("/dev/shm").iterdir()) <= shared


def reading(rig: Rig) -> dict[str, int]:
    assert rig.daemon is not None
    of = Path(f"/proc/{rig.daemon.pid}")
    status = dict(line.split(":", 1) for line in (of / "status").read_text().splitlines())
    return {
        "card_mib": held() >> 20,
        "descriptors": len(list((of / "fd").iterdir())),
        "threads": int(status["Threads"]),
        "resident_mib": int(status["VmRSS"].split()[0]) >> 10,
    }
