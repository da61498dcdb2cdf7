"""Trials on a real Docker Engine: the walls hold, the words are read, and nothing stays behind."""

from __future__ import annotations

import inspect
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from agent.adapters.preflight_facts_trial import LABEL, Trials, body_of
from agent.clock import SystemClock
from agent.host.reading import Known, Unknown
from agent.preflight.inside import parse
from agent.preflight.trial import NOT_FOUND, Ran, Trial
from tests.lab import images
from tests.lab.engine import Engine

pytestmark = pytest.mark.docker
IMAGE = "simulator:trial"
SERVE = ("vllm", "serve", "/models/tiny", "--port", "8095", "--max-model-len", "2k")
LOOK = """
import json, socket
def can(what):
    try:
        what()
    except OSError as error:
        return error.strerror
    return True
status = open("/proc/self/status").read()
print(json.dumps({
    "write": can(lambda: open("/etc/x", "w")),
    "tmp": can(lambda: open("/tmp/x", "w")),
    "net": [name for _, name in socket.if_nameindex()],
    "caps": status.split("CapEff:")[1].split()[0],
}))
"""


@pytest.fixture
def engine(lab_engine: Engine) -> Engine:
    images.simulator(lab_engine, IMAGE)
    images.busybox(lab_engine, "busybox:lab")
    return lab_engine


@pytest.fixture
async def trials(engine: Engine) -> AsyncIterator[Trials]:
    made = Trials(engine.docker_host, SystemClock())
    yield made
    await made.close()
    assert left(engine) == []


def left(engine: Engine) -> list[str]:
    return engine.docker("ps", "--all", "--quiet", "--filter", f"label={LABEL}").split()


def ran(reading: Any) -> Ran:
    assert isinstance(reading, Known), reading
    found: Ran = reading.value
    return found


def parsing(*words: str) -> Trial:
    return Trial(("python3", "-c", inspect.getsource(parse), *words), image=IMAGE)


async def test_the_parser_takes_what_it_knows(trials: Trials) -> None:
    took = ran(await trials.run(parsing(*SERVE)))
    assert (took.code, took.out.strip()) == (0, parse.ACCEPTED)


async def test_the_parser_names_what_it_does_not_know(trials: Trials) -> None:
    refused = ran(await trials.run(parsing(*SERVE, "--no-such-flag", "1")))
    assert refused.code == 2
    assert refused.last_words == "vllm: error: unrecognized arguments: --no-such-flag 1"


async def test_a_module_is_parsed_alike(trials: Trials) -> None:
    words = ("-m", "sglang.launch_server", "--model-path", "/m", "--tp", "2")
    assert ran(await trials.run(parsing(*words))).out.strip() == parse.ACCEPTED
    assert "unrecognized arguments: --frob" in ran(await trials.run(parsing(*words, "--frob"))).last_words


async def test_it_has_no_network_no_rights_and_no_place_to_write_but_tmp(trials: Trials) -> None:
    seen = json.loads(ran(await trials.run(Trial(("python3", "-c", LOOK), image=IMAGE))).out)
    assert seen["write"] == "Read-only file system"
    assert seen["tmp"] is True
    assert seen["net"] == ["lo"]
    assert int(seen["caps"], 16) == 0


async def test_an_image_without_python_says_so(trials: Trials) -> None:
    nothing = ran(await trials.run(Trial(("python3", "-c", "1"), image="busybox:lab")))
    assert (nothing.code, nothing.last_words) == (NOT_FOUND, "the image has no python3")


async def test_a_mount_that_is_not_there_is_an_answer_and_makes_no_folder(trials: Trials, tmp_path: Any) -> None:
    missing = tmp_path / "missing"
    reading = await trials.run(Trial(("python3", "-c", "1"), image=IMAGE, binds=((str(missing), "/overlay"),)))
    assert isinstance(reading, Unknown)
    assert not missing.exists()


async def test_one_that_does_not_end_is_ended_and_removed(trials: Trials, engine: Engine) -> None:
    started = time.monotonic()
    reading = await trials.run(Trial(("python3", "-c", "import time; time.sleep(600)"), image=IMAGE, seconds=2.0))
    assert reading == Unknown("no end within 2 s")
    assert time.monotonic() - started < 15
    assert left(engine) == []


async def test_what_an_agent_left_behind_is_removed_by_the_next_trial(trials: Trials, engine: Engine) -> None:
    """A trial whose time is not over belongs to somebody who still waits for it."""
    old, live = str(int(time.time()) - 5), str(int(time.time()) + 60)
    for until in (old, live):
        engine.docker("run", "-d", "--label", f"{LABEL}={until}", "busybox:lab", "sleep", "600")
    await trials.run(Trial(("python3", "-c", "1"), image=IMAGE))
    kept = engine.docker("ps", "--all", "--quiet", "--filter", f"label={LABEL}={live}").split()
    assert left(engine) == kept != []
    engine.docker("rm", "--force", *kept)


def test_the_body_gives_nothing_away() -> None:
    host = body_of(Trial(("python3",), image=IMAGE, binds=(("/a", "/b"),)), 0.0)["HostConfig"]
    assert (host["NetworkMode"], host["CapDrop"], host["ReadonlyRootfs"]) == ("none", ["ALL"], True)
    assert host["Mounts"] == [{"Type": "bind", "Source": "/a", "Target": "/b", "ReadOnly": True}]
    assert host["Memory"] == host["MemorySwap"] > 0
    assert host["DeviceRequests"] == []
