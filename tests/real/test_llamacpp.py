"""The daemon over llama.cpp's own server: what it does to a real engine in real trouble, and to a healthy one."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path

import pytest

from tests.lab.place import Unavailable
from tests.real.conftest import Start
from tests.real.engines import RealEngine, free_port, llamacpp
from tests.real.load import Stream, mixed, until, words
from tests.real.rig import Rig

pytestmark = [pytest.mark.llamacpp, pytest.mark.slow]

WHOLE = pytest.mark.skipif(
    not os.environ.get("RECIPE_AGENT_REAL_WHOLE"), reason="the short form leaves this out (RECIPE_AGENT_REAL_WHOLE=1)"
)
FAULTY = ("stalled", "zombie", "dead")


@pytest.fixture
def engine(shared: Path) -> RealEngine:
    try:
        return llamacpp(shared, free_port())
    except Unavailable as error:
        if os.environ.get("CI") == "true":
            pytest.fail(str(error))
        pytest.skip(str(error))


def faults(rig: Rig) -> list[str]:
    """Every state of fault that the agent came to, in its own words."""
    told = [one for one in rig.events() if one["kind"] == "state" and one["data"].get("to") in FAULTY]
    return [f"{one['data']['to']}: {one['text']}" for one in told]


def test_a_healthy_engine_is_left_alone(start: Start, engine: RealEngine) -> None:
    """Long answers, long prompts, clients that leave midway, pauses: no fault, no restart, the same process."""
    rig = start(engine)
    rig.wait(["ready", "busy"], engine.ready_s)
    pid = rig.root()
    with mixed(engine.port, engine.model, longest_prompt=20_000, longest_answer=3000) as load:
        until(lambda: load.requests >= 25 and load.cut >= 3, 25.0)
    assert load.requests >= 5, "the load was none"
    assert not faults(rig), rig.told()
    assert (rig.status()["generation"], rig.root()) == (1, pid), rig.told()
    assert rig.learned()["start_s"] > 0


def test_a_client_that_is_killed_midway_leaves_nothing_behind(start: Start, engine: RealEngine) -> None:
    rig = start(engine)
    rig.wait(["ready", "busy"], engine.ready_s)
    stream = Stream(engine.port, engine.model, words(20), 50_000)
    assert until(lambda: stream.chunks > 10, 20.0)
    rig.wait(["busy"], 10.0)
    stream.cut()
    rig.wait(["ready"], 10.0)
    assert not faults(rig), rig.told()


@pytest.mark.parametrize(
    ("number", "states", "busy"),
    [
        pytest.param(signal.SIGSTOP, ("stalled", "dead"), True, id="stopped while busy"),
        pytest.param(signal.SIGSTOP, ("stalled", "dead"), False, id="stopped while idle", marks=WHOLE),
        pytest.param(signal.SIGKILL, ("dead",), True, id="killed while busy", marks=WHOLE),
        pytest.param(signal.SIGKILL, ("dead",), False, id="killed while idle"),
    ],
)
def test_a_fault_is_found_and_mended(
    start: Start, engine: RealEngine, number: signal.Signals, states: tuple[str, ...], busy: bool
) -> None:
    """Stopped or killed, busy or idle: found, evidence kept, a new process serves."""
    rig = start(engine)
    rig.wait(["ready", "busy"], engine.ready_s)
    stream = Stream(engine.port, engine.model, words(20), 100_000) if busy else None
    if stream is not None:
        assert until(lambda: stream.chunks > 10, 20.0)
        rig.wait(["busy"], 10.0)
    root = rig.root()
    assert root is not None
    os.kill(root, number)
    rig.wait(["ready", "busy"], 60.0, generation=2)
    assert faults(rig)[0].split(":")[0] in states, rig.told()
    assert {one["kind"] for one in rig.incidents()} <= {"busy", "idle", "unresponsive", "exit", "refused"}
    assert rig.root() != root
    if stream is not None:
        stream.cut()


@pytest.mark.parametrize(
    ("why", "said"),
    [
        ("no such file", "the model is not found"),
        ("half a file", "weight files are broken"),
        ("no such flag", "the command line is not accepted"),
    ],
)
def test_a_start_that_a_restart_cannot_mend_is_not_restarted(
    start: Start, engine: RealEngine, shared: Path, tmp_path: Path, why: str, said: str
) -> None:
    whole = shared / "captures/llamacpp/tiny.gguf"
    broken = tmp_path / "half.gguf"
    broken.write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
    launches = {
        "no such file": llamacpp(shared, engine.port, model=tmp_path / "none.gguf"),
        "half a file": llamacpp(shared, engine.port, model=broken),
        "no such flag": llamacpp(shared, engine.port, "--no-such-flag"),
    }
    rig = start(launches[why], deploy=False)
    rig.ctl("deploy", engine.slug, "--yes", "--accept", "weights")
    rig.wait(["failed"], 20.0)
    assert said in rig.status()["why"], rig.told()
    assert rig.status()["generation"] == 1, rig.told()


def test_a_taken_port_is_tried_three_times(start: Start, engine: RealEngine) -> None:
    """Whoever holds it may let go of it; that preflight knew it is overruled here."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", engine.port))
        holder.listen()
        rig = start(engine, deploy=False)
        rig.ctl("deploy", engine.slug, "--yes", "--accept", "port.free")
        rig.wait(["failed"], 40.0)
    assert "free the port" in rig.status()["why"], rig.told()
    assert (rig.status()["generation"], rig.status()["restarts"]) == (3, 2)
