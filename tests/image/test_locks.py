"""What a tag was for a plan at first it stays, and a lock is there whole or not at all."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from agent.adapters.image_locks import DiskLocks, LockNotKept
from agent.container.port import ImageFacts
from agent.image.ensure import Supply, ensure, to_run
from agent.image.lock import Lock, LockedSource
from agent.image.port import ImageReady
from agent.image.trouble import ImageNotFound
from agent.plan.model import ImagePlan
from tests.image.plans import DIGEST, Denied, Heard, Pulls, plan_of, progress

TINY = "reg.example/tiny:1"
BY_DIGEST = f"reg.example/tiny@{DIGEST}"
PLAN = plan_of(ImagePlan(TINY, "pull"))


@pytest.fixture
def locks(tmp_path: Path) -> DiskLocks:
    return DiskLocks(tmp_path / "state" / "locks")


async def test_the_digest_of_a_pulled_tag_is_recorded(locks: DiskLocks) -> None:
    """And who brought it: what was here before is never the agent's to remove."""
    runtime = Pulls([progress(1)])
    image = await ensure(PLAN, runtime, Heard(), Supply(locks=locks))
    assert await locks.read("p1") == Lock(image, "pulled")
    assert await to_run(PLAN, locks) == TINY
    other = plan_of(ImagePlan(TINY, "pull"), plan_id="p2")
    await ensure(other, runtime, Heard(), Supply(locks=locks))
    assert (await locks.all())["p2"].how == "found"


async def test_a_tag_that_was_moved_is_not_followed_by_the_same_plan(locks: DiskLocks) -> None:
    """It runs what it ran, by digest; from here or from the registry."""
    runtime = Pulls([progress(1)], [progress(1)])
    await ensure(PLAN, runtime, Heard(), Supply(locks=locks))
    runtime.images[TINY] = ImageFacts(id="sha256:other", digests=(f"reg.example/tiny@sha256:{'c' * 64}",))
    image = await ensure(PLAN, runtime, Heard(), Supply(locks=locks))
    assert (image.reference, image.digest) == (BY_DIGEST, DIGEST)
    assert runtime.pulled == [TINY, BY_DIGEST]
    assert await to_run(PLAN, locks) == BY_DIGEST
    assert await ensure(PLAN, runtime, Heard(), Supply(locks=locks)) == image
    assert runtime.pulled == [TINY, BY_DIGEST]


async def test_what_a_plan_ran_and_nobody_has_any_more_is_said(locks: DiskLocks) -> None:
    """With the way to take what the tag is now."""
    runtime = Pulls([progress(1)], [Denied(action="pull", why="manifest unknown")], [progress(1)])
    await ensure(PLAN, runtime, Heard(), Supply(locks=locks))
    runtime.images.clear()
    with pytest.raises(ImageNotFound) as caught:
        await ensure(PLAN, runtime, Heard(), Supply(locks=locks))
    assert "agentctl pull --update tiny" in caught.value.advice
    await locks.forget("p1")
    assert (await ensure(PLAN, runtime, Heard(), Supply(locks=locks))).reference == TINY


async def test_a_local_image_is_locked_as_found(locks: DiskLocks) -> None:
    runtime = Pulls()
    runtime.images["mine:1"] = ImageFacts(id="sha256:1")
    await ensure(plan_of(ImagePlan("mine:1", "local")), runtime, Heard(), Supply(locks=locks))
    assert await locks.read("p1") == Lock(ImageReady("mine:1", None, "sha256:1"), "found")


async def test_what_the_agent_brought_stays_its_own(locks: DiskLocks) -> None:
    """Though the next plan of it finds the image here."""
    runtime = Pulls([progress(1)])
    await ensure(PLAN, runtime, Heard(), Supply(locks=locks))
    await ensure(plan_of(ImagePlan(TINY, "local")), runtime, Heard(), Supply(locks=locks))
    lock = await locks.read("p1")
    assert lock is not None
    assert lock.how == "pulled"


async def test_a_lock_comes_back_as_it_was(locks: DiskLocks) -> None:
    """Sources, files and the Dockerfile with it."""
    image = ImageReady("recipe-agent/tiny:1", None, "sha256:1")
    sources = {"s": LockedSource("https://x/s", "1" * 40, "v1", "AGPL-3.0")}
    lock = Lock(image, "built", ImageReady("base:1", DIGEST, "sha256:b"), "pulled", sources, {"a": "b"}, "FROM x\n")
    await locks.write("p1", lock)
    assert await locks.read("p1") == lock


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"image": {}, "how": "built"}', "null"])
async def test_a_lock_that_cannot_be_read_is_none(text: str, locks: DiskLocks, tmp_path: Path) -> None:
    """The image is found out again."""
    await locks.write("p1", Lock(ImageReady("x", None, "y"), "found"))
    (tmp_path / "state" / "locks" / "p1.json").write_text(text)
    assert await locks.read("p1") is None
    assert await locks.all() == {}


async def test_a_lock_that_cannot_be_kept_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LockNotKept, match="cannot keep what was found"):
        await DiskLocks(tmp_path / "file" / "locks").write("p1", Lock(ImageReady("x", None, "y"), "found"))


async def test_one_at_a_time_holds_a_name(locks: DiskLocks) -> None:
    """Over processes; another name waits for nobody."""
    order: list[str] = []
    go = asyncio.Event()

    async def hold(name: str, who: str) -> None:
        async with locks.held(name):
            order.append(who)
            if who == "first":
                await go.wait()

    first = asyncio.ensure_future(hold("a", "first"))
    while not order:
        await asyncio.sleep(0)
    second = asyncio.ensure_future(hold("a", "second"))
    await hold("b", "other")
    assert order == ["first", "other"]
    go.set()
    await asyncio.gather(first, second)
    assert order == ["first", "other", "second"]
