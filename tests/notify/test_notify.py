"""Messages through the real Apprise to a real webhook, from a daemon with a deployed simulator."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.action.telling import Message, Weight
from agent.adapters.notify import AppriseSender, Service, beat, services_of, without
from agent.settings.model import Notifications
from tests.e2e import traffic
from tests.e2e.rig import Rig, deployed, wait_for
from tests.notify.hook import Hook, webhook

pytest.importorskip("apprise", reason="needs apprise: pip install 'recipe-agent[notify]'")
# Apprise itself imports a module that Python 3.13 has not any more, where there is one
pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")
MESSAGE = Message("rig: demo is stalled", "demo is stalled: nothing moved", Weight.WARNING)
SECRET = "k3y-of-the-service"


@pytest.fixture
def hook() -> Iterator[Hook]:
    with webhook() as found:
        yield found


def json_url(hook: Hook) -> str:
    return f"json://127.0.0.1:{hook.port}/{SECRET}"


async def test_a_message_arrives_with_its_weight(hook: Hook) -> None:
    """Title, text and what kind it is."""
    assert await AppriseSender(str).send(Service("file line 1", json_url(hook)), MESSAGE) is None
    body = hook.message()
    assert (body["title"], body["message"], body["type"]) == (MESSAGE.title, MESSAGE.body, "warning")


async def test_a_refusal_is_a_reason_without_the_key(hook: Hook) -> None:
    """What is shown of it goes into events and logs."""
    hook.status = 403
    why = await AppriseSender(str).send(Service("file line 1", json_url(hook)), MESSAGE)
    assert why is not None
    assert "403" in why or "Forbidden" in why
    assert SECRET not in why


async def test_a_url_that_is_none_is_a_reason() -> None:
    """Named by file and line, never by its text."""
    why = await AppriseSender(str).send(Service("file line 3", f"nonsense {SECRET}"), MESSAGE)
    assert why == "cannot use file line 3: it is no URL that Apprise knows"


def test_a_service_does_not_show_its_url() -> None:
    """Also not in a traceback."""
    assert SECRET not in repr(Service("file line 1", SECRET))
    assert SECRET not in without(f"POST to host/{SECRET}/x failed", f"json://host/{SECRET}/x")


def test_files_hold_one_service_a_line(tmp_path: Path) -> None:
    """With comments, and each named by its line."""
    found = services_of([Path("a.urls")], lambda _: "# mine\n\njson://a\n  ntfy://b  \n")
    assert [(one.name, one.url) for one in found] == [("a.urls line 3", "json://a"), ("a.urls line 4", "ntfy://b")]


def test_a_template_that_names_what_there_is_not_is_refused() -> None:
    """When the site file is read, and not when the first trouble comes."""
    with pytest.raises(ValueError, match=r"may name \{host\}, \{summary\}"):
        Notifications(title="{hostname}: {summary}")
    with pytest.raises(ValueError, match="is no template"):
        Notifications(body="{lines")


async def test_the_dead_man_switch_is_told_and_says_when_it_cannot_be(hook: Hook) -> None:
    """A beat that is not heard is a failure, whatever the way."""
    assert await beat(f"http://127.0.0.1:{hook.port}/ping/{SECRET}") is None
    assert hook.beats.get(timeout=5) == f"/ping/{SECRET}"
    hook.status = 500
    assert await beat(f"http://127.0.0.1:{hook.port}/") == "it answered 500"
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        why = await beat(f"http://127.0.0.1:{taken.getsockname()[1]}/{SECRET}")
    assert why is not None
    assert SECRET not in why
    assert await beat("no url") is not None


@pytest.fixture
def told_rig(hook: Hook, tmp_path: Path) -> Iterator[Rig]:
    """A rig whose site names the webhook as service and as dead-man switch."""
    rig = Rig(tmp_path / "rig")
    (tmp_path / "services").write_text(json_url(hook) + "\n")
    (tmp_path / "switch").write_text(f"http://127.0.0.1:{hook.port}/ping\n")
    rig.site["notifications"] = {
        "services": [str(tmp_path / "services")],
        "group_s": 0,
        "heartbeat": str(tmp_path / "switch"),
        "heartbeat_s": 5,
    }
    try:
        rig.start()
        yield rig
    finally:
        rig.close()


@pytest.mark.slow
def test_a_stall_is_told_and_so_is_its_end(told_rig: Rig, hook: Hook) -> None:
    """From the engine to the person's webhook, and the switch is fed meanwhile."""
    port = deployed(told_rig, "told")
    with traffic.client(port):
        told_rig.until("told", "busy")
        traffic.fault(port, "stall")
        trouble = hook.message()
    assert (trouble["type"], "told is stalled" in trouble["title"]) == ("warning", True)
    assert "nothing moved" in trouble["message"]
    over = hook.message(60)
    assert (over["type"], "told is back to normal" in over["title"]) == ("success", True)
    assert hook.beats.get(timeout=20) == "/ping"


@pytest.mark.slow
def test_what_does_not_arrive_is_tried_again_and_shows(told_rig: Rig, hook: Hook) -> None:
    """As an event, once, and as a collector; then the message comes late instead of never."""
    hook.status = 503
    port = deployed(told_rig, "told")
    traffic.fault(port, "exit0")
    assert hook.refused.acquire(timeout=40)
    wait_for(
        lambda: told_rig.value("recipe_agent_collector_success", collector="notify") == 0.0, "the collector to say so"
    )
    hook.status = 200
    assert "told is dead" in hook.message(60)["message"]
    wait_for(
        lambda: told_rig.value("recipe_agent_collector_success", collector="notify") == 1.0, "the collector to be well"
    )
    said = [one["text"] for one in told_rig.api("/v1/events?follow=0&limit=500") if one["kind"] == "agent"]
    assert [text.startswith("cannot tell services line 1") for text in said].count(True) == 1
    assert "tells services line 1 again" in said
    assert SECRET not in told_rig.log.read_text()


@pytest.mark.slow
def test_the_test_command_says_which_service_takes_it(told_rig: Rig, hook: Hook) -> None:
    """Exit 0 when all did, 1 when one did not, 3 where the site names none."""
    said = told_rig.ctl("notify", "test")
    assert (said.code, said.out) == (0, "services line 1: taken\n")
    assert "a test" in hook.message()["title"]
    hook.status = 500
    refused = told_rig.ctl("notify", "test", "-o", "json")
    assert (refused.code, refused.json[0]["taken"]) == (1, False)
    assert SECRET not in refused.out
    told_rig.terminate()
    del told_rig.site["notifications"]
    told_rig.start()
    none = told_rig.ctl("notify", "test")
    assert none.code == 3
    assert "names no service" in none.err
