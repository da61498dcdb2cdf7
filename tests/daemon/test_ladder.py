"""The stop ladder on real processes: what never ends by itself is ended within its bound, and what was cut is said."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.adapters.agent_client import Client, Target
from tests.e2e import recipes, traffic
from tests.e2e.rig import Rig, running, wait_for
from tests.lab.children import free_port
from tests.lab.place import REPOSITORY

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    with running(tmp_path) as found:
        yield found


def sglang(rig: Rig, slug: str) -> int:
    """SGLang's own launch, by the simulator."""
    program = rig.folder / "bin" / "sglang"
    where = REPOSITORY / "tests" / "lab"
    program.write_text(
        f'#!/bin/sh\nshift\nPYTHONPATH={where} exec {sys.executable} -m simulator sglang.launch_server "$@"\n'
    )
    program.chmod(0o755)
    port = free_port()
    document = recipes.recipe(slug, port)
    launch = document["config"]["launch"]
    at = launch.index("--entrypoint")
    flags = ["serve", "--model-path", "sim", "--port", str(port), "--enable-metrics", "--context-length", "65536"]
    document["config"]["launch"] = [*launch[:at], "--entrypoint", "sglang", launch[at + 2], *flags]
    rig.publish(document, recipes.profile())
    return port


def vllm(rig: Rig, slug: str) -> int:
    port = free_port()
    rig.publish(recipes.recipe(slug, port), recipes.profile())
    return port


def steps(rig: Rig, slug: str) -> list[str]:
    return [one["text"] for one in json.loads(rig.ok("events", slug, "-o", "json").out) if one["kind"] == "step"]


@pytest.mark.parametrize("engine", [vllm, sglang])
def test_an_engine_that_would_never_end_is_killed_after_its_bound(rig: Rig, engine) -> None:  # type: ignore[no-untyped-def]
    """vLLM does not exit on TERM while a client holds its socket, SGLang drains without end: KILL after two seconds."""
    slug = engine.__name__
    port = engine(rig, slug)
    rig.ok("deploy", slug, "--yes", "-q", "--wait=60")
    with traffic.client(port):
        rig.until(slug, "busy")
        began = time.monotonic()
        rig.ok("stop", slug, "-q")
        took = time.monotonic() - began
    told = steps(rig, slug)
    assert any("cuts 1 client connection" in text for text in told), told
    assert any("did not exit within 2 s of TERM" in text for text in told), told
    assert rig.status(slug)["state"] == "stopped"
    print(f"{slug}: stopped in {took:.1f} s with a client attached")
    assert took < 20


def test_a_stop_that_drains_waits_for_its_clients_and_says_for_how_many(rig: Rig) -> None:
    """Nobody is cut who ends within the time; then TERM comes at once."""
    port = vllm(rig, "drains")
    rig.ok("deploy", "drains", "--yes", "-q", "--wait=60")
    with traffic.client(port):
        rig.until("drains", "busy")
        agent = Client(Target(str(rig.folder / "agent.sock")))
        agent.call("POST", "/v1/deployments/drains/stop", {"drain_s": 30.0})
        wait_for(lambda: "for 1 client connection" in rig.status("drains")["step"], "the drain to say for how many")
    rig.until("drains", "stopped")
    assert not any("cuts" in text for text in steps(rig, "drains"))
