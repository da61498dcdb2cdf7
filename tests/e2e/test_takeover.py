"""One plan takes another's place, on a real Engine: another recipe, a new revision, an earlier plan; and back again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

import pytest

from tests.e2e import recipes
from tests.e2e.rig import Rig, deployed
from tests.lab.children import free_port

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.timeout(150)]
BROKEN = {"SIM_FAULT": "start_fail:bad_path"}
"""An engine that ends at its start, by a fault that no restart mends."""


@contextmanager
def never_two(rig: Rig, *slugs: str) -> Iterator[None]:
    """Whatever happens in the block, at most one container of these runs at any time."""
    seen: list[list[str]] = []
    end = Event()

    def look() -> None:
        while not end.wait(0.02):
            running = [line for slug in slugs for line in rig.containers(slug) if line.endswith("running")]
            if len(running) > 1:
                seen.append(running)

    watcher = Thread(target=look)
    watcher.start()
    try:
        yield
    finally:
        end.set()
        watcher.join()
    assert not seen, f"two ran at once: {seen[0]}"


def document(slug: str, port: int, revision: int = 1, **env: str) -> dict[str, Any]:
    return recipes.recipe(slug, port, env=env) | {"revision": {"no": revision, "content_hash": f"{revision:040x}"}}


def test_a_recipe_takes_anothers_place_and_gives_it_back_where_it_fails(rig: Rig) -> None:
    """B instead of A: A is stopped and stays so. C instead of B fails: B serves again by itself."""
    port = deployed(rig, "first")
    rig.publish(document("second", port), recipes.profile())
    rig.publish(document("third", port, **BROKEN), recipes.profile())
    with never_two(rig, "first", "second", "third"):
        rig.ok("deploy", "second", "--replace", "first", "--yes", "-q", "--wait=60")
        assert rig.status("first")["state"] == "stopped"
        assert "second" in rig.status("first")["why"]
        said = rig.ctl("deploy", "third", "--replace", "second", "--yes", "-q", "--wait=60")
        assert said.code != 0
        back = rig.until("second", "ready", within=60, generation=2)
    gone = rig.status("third")
    assert gone["state"] == "failed", gone
    assert gone["why"]
    assert rig.status("first")["state"] == "stopped"
    assert back["restart_budget"] == 3, "a swap that failed is no restart of the one that came back"


def test_a_revision_that_fails_gives_way_to_the_one_before_and_a_good_one_stays(rig: Rig) -> None:
    """upgrade to a bad revision: back by itself; to a good one: stays; rollback: the first plan again."""
    port = free_port()
    rig.publish(document("grows", port), recipes.profile())
    rig.ok("deploy", "grows", "--yes", "-q", "--wait=60")
    first = rig.status("grows")["plan_id"]
    rig.publish(document("grows", port, 2, **BROKEN))
    with never_two(rig, "grows"):
        rig.ctl("upgrade", "grows", "--now", "-q")
        back = rig.until_status(
            "grows", lambda one: one["generation"] >= 3 and one["state"] == "ready", "the old plan to serve", 60
        )
        assert back["plan_id"] == first
        rig.publish(document("grows", port, 3))
        rig.ok("upgrade", "grows", "--now", "-q")
        newer = rig.until_status(
            "grows", lambda one: one["plan_id"] != first and one["state"] == "ready", "revision 3 to serve", 60
        )
        rig.ok("rollback", "grows", "-q")
        rig.until_status("grows", lambda one: one["plan_id"] == first and one["state"] == "ready", "the first plan", 60)
    plans = [one["plan_id"] for one in rig.ok("history", "grows", "-o", "json").json]
    assert {first, newer["plan_id"]} <= set(plans)
