"""Long work outlives the agent: whoever holds an operation's address learns how it ended."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.api.conftest import TOKEN, open_rig
from tests.api.tcp import ask
from tests.e2e import recipes
from tests.e2e.rig import Rig, wait_for
from tests.lab.children import free_port


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Rig]:
    """A daemon that a test may kill."""
    rig = open_rig(tmp_path)
    try:
        rig.start()
        yield rig
    finally:
        rig.close()


def begin(rig: Rig, path: str, body: dict[str, Any] | None = None, method: str = "POST") -> str:
    """The address of the operation that was begun."""
    reply = ask(rig.port, path, method, json.dumps(body or {}).encode(), token=TOKEN)
    assert reply.status == 202, reply.body
    assert reply.headers["location"] == f"/v1/operations/{reply.json['id']}"
    return reply.headers["location"]


def ended(rig: Rig, location: str, within: float = 40.0) -> dict[str, Any]:
    """The operation once it is over, asked as clients do: with `wait`, over and over."""
    end = time.monotonic() + within
    while True:
        found: dict[str, Any] = ask(rig.port, f"{location}?wait=2", token=TOKEN).json
        if found["state"] != "running":
            return found
        assert time.monotonic() < end, f"it does not end: {found}"


@pytest.mark.parametrize("moment", [("pending", "preflight", "image"), ("starting",)], ids=["at once", "starting"])
def test_a_deploy_goes_on_after_the_agent_was_killed_in_the_middle(own: Rig, moment: tuple[str, ...]) -> None:
    own.publish(recipes.recipe("sim", free_port()), recipes.profile())
    location = begin(own, "/v1/deployments", {"slug": "sim"})
    if "starting" in moment:
        own.until("sim", "starting", "ready")
    own.kill()
    own.start()
    found = ended(own, location)
    assert (found["state"], found["kind"], found["slug"], found["error"]) == ("done", "deploy", "sim", None)
    assert own.until("sim", "ready")["generation"] == 1
    assert len(own.containers("sim")) == 1


def test_a_stop_and_a_remove_go_on_after_a_kill(own: Rig) -> None:
    own.publish(recipes.recipe("sim", free_port()), recipes.profile())
    own.ok("deploy", "sim", "--yes", "-q", "--wait=60")
    for path, method in (("/v1/deployments/sim/stop", "POST"), ("/v1/deployments/sim", "DELETE")):
        location = begin(own, path, method=method)
        own.kill()
        own.start()
        assert ended(own, location)["state"] == "done"
    assert own.api("/v1/deployments") == []
    assert own.containers("sim") == []


def test_what_is_asked_of_a_deployment_at_rest_is_answered_though_nothing_changes(own: Rig) -> None:
    own.publish(recipes.recipe("sim", free_port()), recipes.profile())
    own.ok("deploy", "sim", "--yes", "-q", "--wait=60")
    for _ in range(2):
        assert ended(own, begin(own, "/v1/deployments/sim/stop"))["state"] == "done"
    assert own.api("/v1/deployments/sim")["why"] == "stopped by a person"


def test_the_answer_to_a_pause_is_the_deployment_as_it_is_now(own: Rig) -> None:
    own.publish(recipes.recipe("sim", free_port()), recipes.profile())
    own.ok("deploy", "sim", "--yes", "-q", "--wait=60")
    said = {verb: own.ok(verb, "sim").out.splitlines()[0].split("  ")[1] for verb in ("observe", "pause", "resume")}
    assert said == {"observe": "ready (observe)", "pause": "ready (paused)", "resume": "ready"}


def test_a_rollback_that_has_nowhere_to_go_says_what_there_is(own: Rig) -> None:
    own.publish(recipes.recipe("sim", free_port()), recipes.profile())
    own.ok("deploy", "sim", "--yes", "-q", "--wait=60")
    plan = own.api("/v1/deployments/sim")["plan_id"]
    reply = ask(own.port, "/v1/deployments/sim/rollback", "POST", b"{}", token=TOKEN)
    assert (reply.status, reply.json["error"]["code"]) == (404, "not_found")
    assert reply.json["error"]["message"] == f"cannot roll sim back: {plan} is the only plan that it has had"


def test_one_that_was_noted_and_not_begun_is_ended_and_says_so(own: Rig) -> None:
    """The kill came between the two writes: exactly what the state file then holds is written here."""
    own.publish(recipes.recipe("sim", free_port()), recipes.profile())
    own.ok("deploy", "sim", "--yes", "-q", "--wait=60")
    own.kill()
    noted = {"id": "feed", "slug": "sim", "kind": "stop", "created": time.time(), "state": "running", "generation": 1}
    lost = {**noted, "id": "beef", "slug": "gone", "kind": "deploy", "plan_id": "0000"}
    with sqlite3.connect(own.folder / "state" / "state.db") as db:
        for one in (noted, lost):
            row = (one["id"], one["slug"], one["created"], one["state"], json.dumps(one))
            db.execute("INSERT INTO operation VALUES (?, ?, ?, ?, ?)", row)
    db.close()
    own.start()
    error = ended(own, "/v1/operations/feed")["error"]
    assert (error["code"], error["hint"]) == ("operation.interrupted", "nothing was done: ask again")
    assert ended(own, "/v1/operations/beef")["state"] == "failed"
    assert own.status("sim")["desired"] == "running"


def test_waiting_answers_when_it_has_moved(own: Rig) -> None:
    own.publish(recipes.recipe("sim", free_port()), recipes.profile())
    location = begin(own, "/v1/deployments", {"slug": "sim"})
    began = time.monotonic()
    moves = [ask(own.port, f"{location}?wait=60", token=TOKEN).json]
    while moves[-1]["state"] == "running":
        moves.append(ask(own.port, f"{location}?wait=60", token=TOKEN).json)
    assert time.monotonic() - began < 30, "it answers when there is news, not after a minute"
    assert wait_for(lambda: own.status("sim")["state"] == "ready", "ready", within=40)


def test_waiting_for_a_deployment_answers_when_it_is_in_another_state(own: Rig) -> None:
    own.publish(recipes.recipe("sim", free_port()), recipes.profile())
    begin(own, "/v1/deployments", {"slug": "sim"})
    began, seen = time.monotonic(), [own.status("sim")["state"]]
    while seen[-1] != "ready":
        path = f"/v1/deployments/sim?wait=60&state={seen[-1]}"
        seen.append(ask(own.port, path, token=TOKEN).json["state"])
        assert seen[-1] != seen[-2], "it answers only for another state"
    assert time.monotonic() - began < 30, "it answers when there is news, not after a minute"
    asked = time.monotonic()
    assert ask(own.port, "/v1/deployments/sim?wait=1&state=ready", token=TOKEN).json["state"] == "ready"
    assert time.monotonic() - asked >= 0.9, "it waits as long as it was asked to"
    assert ask(own.port, "/v1/deployments/none?wait=60&state=ready", token=TOKEN).status == 404


def test_a_change_of_mode_answers_with_what_is_done_in_it(own: Rig) -> None:
    """Not with the step of the look before, that did nothing since it was paused."""
    own.publish(recipes.recipe("sim", free_port()), recipes.profile(period=20))
    own.ok("deploy", "sim", "--yes", "-q", "--wait=40")
    for verb in ("pause", "resume", "observe", "pause", "observe", "resume"):
        one = own.ok(verb, "sim", "-o", "json").json
        assert ("paused" in one["step"]) is (verb == "pause"), (verb, one["step"])
        assert one["step"]
        assert one["step"] == own.status("sim")["step"]
