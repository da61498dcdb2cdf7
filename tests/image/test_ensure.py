"""A plan's image is here when `ensure` returns, or it says why not."""

from __future__ import annotations

import asyncio

import pytest

from agent.container.port import ImageFacts
from agent.container.trouble import RuntimeUnreachable
from agent.image.ensure import NoBuilder, Supply, ensure
from agent.image.port import ImageReady, Say
from agent.image.pull import Means, Patience
from agent.image.trouble import DigestMismatch, ImageNotFound, PullFailed, PullRefused, PullStalled
from agent.plan.model import ImagePlan, Plan
from tests.container.fake import FakeRuntime, FakeWorld
from tests.image.plans import DIGEST, Denied, Heard, Pulls, broken, plan_of, progress

TINY = "reg.example/tiny:1"
OTHER = "sha256:" + "b" * 64


class Sleeps:
    """Waits that are noted and not waited."""

    def __init__(self) -> None:
        self.all: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.all.append(seconds)


@pytest.fixture
def sleeps() -> Sleeps:
    return Sleeps()


@pytest.fixture
def means(sleeps: Sleeps) -> Means:
    return Means(patience=Patience(silence_s=0.05, waits_s=(1.0, 5.0)), sleep=sleeps)


def supply(means: Means) -> Supply:
    return Supply(means=means)


def pulled(reference: str = TINY, digest: str | None = None) -> Plan:
    return plan_of(ImagePlan(reference, "pull", digest=digest))


async def test_a_runtime_of_the_agent_is_enough() -> None:
    """The port that every runtime keeps is all that is used."""
    world = FakeWorld()
    world.registry[TINY] = [progress(10), progress(100, layers_done=2)]
    heard = Heard()
    image = await ensure(pulled(), FakeRuntime(world), heard)
    assert image == ImageReady(TINY, None, f"sha256:{TINY}")
    assert heard.texts[-1] == f"pulling {TINY}: 2 of 2 layers, 100 B fetched"


async def test_a_local_image_is_used_and_never_pulled() -> None:
    """Also when it was made anew since the plan."""
    runtime = Pulls()
    runtime.images["mine:1"] = ImageFacts(id="sha256:new")
    image = await ensure(plan_of(ImagePlan("mine:1", "local", digest="sha256:old")), runtime, Heard())
    assert image == ImageReady("mine:1", None, "sha256:new")
    assert runtime.pulled == []


async def test_a_local_image_that_is_gone_is_not_found() -> None:
    """It is in no registry: the answer says where to look."""
    with pytest.raises(ImageNotFound, match="not on this host any more") as caught:
        await ensure(plan_of(ImagePlan("mine:1", "local")), Pulls(), Heard())
    assert "agentctl plan" in caught.value.advice


async def test_an_image_that_is_here_needs_no_registry() -> None:
    """A restart works with the registry away."""
    runtime = Pulls()
    runtime.images[TINY] = runtime.result
    assert (await ensure(pulled(), runtime, Heard())).digest == DIGEST
    assert runtime.pulled == []


async def test_a_tag_is_pulled_and_its_digest_told() -> None:
    """What the lock keeps."""
    runtime = Pulls([progress(50), progress(100)])
    assert await ensure(pulled(), runtime, Heard()) == ImageReady(TINY, DIGEST, runtime.result.id)


async def test_however_many_ask_one_pull_is_made(means: Means) -> None:
    """Both hear its progress."""
    go = asyncio.Event()
    runtime, heard = Pulls([progress(50), go, progress(100)]), (Heard(), Heard())
    both = [asyncio.ensure_future(ensure(pulled(), runtime, one)) for one in heard]
    await asyncio.sleep(0.01)
    go.set()
    first, second = await asyncio.gather(*both)
    assert first == second
    assert runtime.pulled == [TINY]
    assert heard[0].texts[-1] == heard[1].texts[-1] == f"pulling {TINY}: 0 of 2 layers, 100 B fetched, unpacking"


@pytest.mark.parametrize("plan", [pulled(digest=OTHER), pulled(f"reg.example/tiny@{OTHER}")], ids=["locked", "named"])
@pytest.mark.parametrize("here", [True, False], ids=["here", "fetched"])
async def test_another_digest_than_the_plan_s_is_refused(plan: Plan, here: bool) -> None:
    """Whether it was here or came just now."""
    runtime = Pulls([progress(100)])
    assert plan.image is not None
    if here:
        runtime.images[plan.image.reference] = runtime.result
    with pytest.raises(DigestMismatch, match="a" * 64):
        await ensure(plan, runtime, Heard())


async def test_a_named_digest_is_checked_and_kept() -> None:
    """The right one passes."""
    reference = f"reg.example/tiny@{DIGEST}"
    assert (await ensure(pulled(reference), Pulls([progress(1)]), Heard())).digest == DIGEST


async def test_a_broken_connection_is_tried_again_as_long_as_something_came(means: Means, sleeps: Sleeps) -> None:
    """Tries that brought something are not counted; the engine keeps what came."""
    scripts = [[progress(done), broken()] for done in (10, 10, 30, 40)]
    runtime, heard = Pulls(*scripts, [progress(100)]), Heard()
    await ensure(pulled(), runtime, heard, supply(means))
    assert sleeps.all == [1.0, 5.0, 1.0, 1.0]
    assert f"cannot pull {TINY}: unexpected EOF; trying again in 5 s" in heard.texts


async def test_a_connection_that_brings_nothing_is_given_up(means: Means, sleeps: Sleeps) -> None:
    """After the stated waits, with the last reason."""
    runtime = Pulls(*[[broken(f"try {number}")] for number in range(3)])
    with pytest.raises(PullFailed, match=f"cannot pull {TINY}: try 2") as caught:
        await ensure(pulled(), runtime, Heard(), supply(means))
    assert (caught.value.code, caught.value.retryable, caught.value.advice) == ("image.pull_failed", True, "try again")


async def test_silence_ends_a_pull_and_time_alone_does_not(means: Means) -> None:
    """Slow and steady runs longer than the silence that ends a dead connection."""

    class Slow(Pulls):
        async def pull(self, reference):  # type: ignore[no-untyped-def]
            for done in range(5):
                await asyncio.sleep(0.03)
                yield progress(done)
            self.images[reference] = self.result

    await ensure(pulled(), Slow(), Heard(), supply(means))
    never = asyncio.Event()
    dead = Pulls(*[[progress(7), never] for _ in range(3)])
    with pytest.raises(PullStalled, match=r"nothing came for 0.05 s \(7 B were there\)"):
        await ensure(pulled(), dead, Heard(), supply(means))
    assert dead.closed == 3


async def test_the_same_words_again_and_again_are_silence(means: Means) -> None:
    """A registry that only keeps the line busy does not hold a pull for ever."""

    class Busy(Pulls):
        async def pull(self, reference):  # type: ignore[no-untyped-def]
            while True:
                await asyncio.sleep(0.01)
                yield progress(7, text="Waiting")

    with pytest.raises(PullStalled):
        await ensure(pulled(), Busy(), Heard(), supply(Means(patience=Patience(0.05, ()))))


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (Denied(action="pull", why="unauthorized: authentication required"), PullRefused),
        (Denied(action="pull", why="manifest unknown: manifest unknown"), ImageNotFound),
        (broken("pull access denied for tiny, repository does not exist"), ImageNotFound),
    ],
)
async def test_a_refusal_is_not_tried_again(error: PullFailed, kind: type[Exception], means: Means) -> None:
    """It would be the same answer."""
    runtime = Pulls([error])
    with pytest.raises(kind):
        await ensure(pulled(), runtime, Heard(), supply(means))
    assert runtime.pulled == [TINY]


async def test_a_runtime_that_does_not_answer_is_said_as_such(means: Means) -> None:
    """It says nothing about the image; one that is restarted comes back in time."""
    away = RuntimeUnreachable(action="pull", why="no socket")
    assert await ensure(pulled(), Pulls([away], [progress(1)]), Heard(), supply(means))
    runtime = Pulls([away], [away], [away])
    with pytest.raises(RuntimeUnreachable):
        await ensure(pulled(), runtime, Heard(), supply(means))


async def test_who_gives_up_ends_the_pull() -> None:
    """A person's wish comes before the end of a pull that nobody else waits for."""
    runtime = Pulls([progress(1), asyncio.Event()])
    task = asyncio.ensure_future(ensure(pulled(), runtime, Heard()))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert runtime.closed == 1


async def test_a_build_is_run_by_what_builds() -> None:
    """And without one the answer says what would."""
    built = ImageReady("recipe-agent/tiny:abc", None, "sha256:1")

    async def build(plan: Plan, say: Say) -> ImageReady:
        return built

    plan = plan_of(ImagePlan("tiny:v1", "build"))
    assert await ensure(plan, Pulls(), Heard(), Supply(build=build)) is built
    with pytest.raises(NoBuilder):
        await ensure(plan, Pulls(), Heard())


async def test_a_plan_without_an_image_is_refused() -> None:
    """The process runtime has none."""
    with pytest.raises(ImageNotFound):
        await ensure(plan_of(None), Pulls(), Heard())
