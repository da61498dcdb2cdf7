"""The log of a chatty container on a real Engine, followed across many rotations."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from itertools import count, pairwise

import pytest

from agent.adapters.docker_runtime import DockerRuntime
from agent.daemon import follow
from agent.daemon.follow import Follower
from agent.errors import RuntimeTrouble
from agent.plan.container import bounded_log
from agent.settings.model import Logs
from tests.lab import images
from tests.lab.engine import Engine

pytestmark = [pytest.mark.docker, pytest.mark.timeout(90)]
IMAGE = "recipe-agent-rotation/busybox:1"
NUMBERS = count(1)
LINES = 3000
CHATTY = (
    f"i=0; while [ $i -lt {LINES} ]; do echo line $i {'x' * 48}; i=$((i+1)); "
    "[ $((i % 10)) = 0 ] && usleep 10000; done; echo its last word; sleep 300"
)
"""About 1,000 lines a second and then silence: a file of 60 KB every half second."""


@pytest.fixture
def box(lab_engine: Engine) -> Iterator[str]:
    """A name for a container, which is removed after the test."""
    images.busybox(lab_engine, IMAGE)
    name = f"rotation-{next(NUMBERS)}"
    yield name
    lab_engine.docker("rm", "--force", name, check=False)


@pytest.fixture
async def runtime(lab_engine: Engine) -> AsyncIterator[DockerRuntime]:
    found = DockerRuntime(lab_engine.docker_host)
    yield found
    await found.close()


def started(engine: Engine, name: str, driver: str, **options: str) -> str:
    words = [word for key, text in options.items() for word in ("--log-opt", f"{key.replace('_', '-')}={text}")]
    return engine.docker(
        "run", "-d", "--name", name, "--log-driver", driver, *words, IMAGE, "sh", "-c", CHATTY
    ).strip()  # fmt: skip


@pytest.mark.parametrize("driver", ["json-file", "local"])
async def test_a_log_that_is_rotated_under_its_reader_is_read_to_its_last_line(
    lab_engine: Engine, runtime: DockerRuntime, box: str, driver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No line comes twice, none out of order, and the newest comes while the container still runs.

    Docker's own reader loses what was rotated away before it came to it, and may stand still after a rotation.
    """
    monkeypatch.setattr(follow, "BEHIND_S", 1.0)
    container = started(lab_engine, box, driver, max_size="60k", max_file="3")
    seen: list[str] = []

    def read(line: str) -> None:
        seen.append(line)

    one = Follower(runtime, read, lambda: None)
    await one.attend(container)
    began = time.monotonic()
    while "its last word" not in seen:
        assert time.monotonic() - began < 40, f"the last line has not come; the last one was {seen[-1:]}"
        await asyncio.sleep(0.1)
    took = time.monotonic() - began
    assert one.unread == ""
    await one.close()
    numbers = [int(line.split()[1]) for line in seen if line.startswith("line")]
    assert all(second > first for first, second in pairwise(numbers)), "a line came twice or out of order"
    print(f"{driver}: {len(numbers)} of {LINES} lines, the last one after {took:.1f} s")
    assert numbers[-1] == LINES - 1


@pytest.mark.parametrize("files", [1, 4])
@pytest.mark.parametrize("stated", [("", {}), ("local", {}), ("json-file", {"compress": "true"}), ("none", {})])
async def test_an_engine_takes_every_bound_that_a_plan_puts_on_a_log(
    lab_engine: Engine, runtime: DockerRuntime, box: str, stated: tuple[str, dict[str, str]], files: int
) -> None:
    """Whatever its author wrote and the site says: it starts, it is bounded, and it can be read."""
    driver, options = stated
    body = {"HostConfig": {"LogConfig": {"Type": driver, "Config": options}}}
    log = bounded_log(body, Logs(engine_max_size=100_000, engine_max_files=files)).body["HostConfig"]["LogConfig"]
    assert log["Config"]["max-size"] == "100000"
    container = started(lab_engine, box, log["Type"], **log["Config"])
    while not await runtime.tail(container, 1):
        await asyncio.sleep(0.05)


async def test_a_log_without_a_reader_is_said_to_be_unreadable(
    lab_engine: Engine, runtime: DockerRuntime, box: str
) -> None:
    """`none` keeps nothing, and the Engine says so; that is neither silence nor an end."""
    container = started(lab_engine, box, "none")
    one = Follower(runtime, lambda _: None, lambda: None)
    await one.attend(container)
    began = time.monotonic()
    while not one.unread:
        assert time.monotonic() - began < 10
        await asyncio.sleep(0.05)
    assert "does not support reading" in one.unread
    with pytest.raises(RuntimeTrouble):
        await runtime.tail(container, 1)
    await one.close()
