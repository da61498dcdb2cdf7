"""Overlay builds: what went in is in the name, equal inputs build nothing, and every fault has its sentence."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.container.port import ImageFacts
from agent.container.trouble import RuntimeRejected, RuntimeUnreachable
from agent.image.trouble import BaseLacks, BuildFailed, BuildIncomplete, ImageError, NotInSource, PatchFailed
from agent.plan.model import ImagePlan, Plan
from tests.image.bench import BASE, Bench, source
from tests.image.plans import Heard, plan_of
from tests.lab.gitserver import GitServer, git
from tests.lab.pace import second

STEPS: tuple[dict[str, Any], ...] = (
    {"copy": {"source": "overlay", "path": "overlay/vllm", "to": "{package:vllm}", "files": 2}},
    {"run": {"source": "overlay", "script": "patches/a.py", "idempotent": True}},
    {"run": {"source": "overlay", "script": "patches/b.py", "before": {"overlay": "HERE"}}},
    {"files": {"exist": ["{package:vllm}/one.py"], "imports": ["vllm"]}},
)
FILES = {
    "overlay/vllm/one.py": "one\n",
    "overlay/vllm/sub/two.py": "two\n",
    "patches/a.py": "#!/usr/bin/env python3\n",
    "patches/b.py": "b\n",
}


class Case:
    """A repository and the plans that build from it."""

    def __init__(self, server: GitServer, bench: Bench) -> None:
        self.server = server
        self.bench = bench

    def commit(self, **files: str) -> str:
        return self.server.commit("overlay", FILES | files)

    def plan(self, commit: str, *steps: dict[str, Any], plan_id: str = "p1", licence: str = "AGPL-3.0") -> Plan:
        sources = source("overlay", self.server.url("overlay"), commit, license=licence)
        return plan_of(
            ImagePlan("tiny:v1", "build", base=BASE, steps=(sources, *(steps or STEPS[:2]))), plan_id=plan_id
        )


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "host")


@pytest.fixture
def case(git_server: GitServer, bench: Bench) -> Case:
    return Case(git_server, bench)


async def test_steps_become_an_image_under_a_name_of_what_went_in(case: Case, bench: Bench) -> None:
    """And the lock says what that was, licenses included."""
    commit, heard = case.commit(), Heard()
    image = await bench.overlays(case.plan(commit), heard)
    assert image.reference.startswith("recipe-agent/tiny:")
    assert bench.builder.built == [image.reference]
    (context,) = bench.builder.contexts
    assert context["steps/01/sub/two.py"] == b"two\n"
    assert "COPY steps/01/ /py/site-packages/vllm/" in context["Dockerfile"].decode()
    assert "&& ./patches/a.py" in context["Dockerfile"].decode()
    assert f"what goes in: {BASE}, overlay (AGPL-3.0)" in heard.texts
    lock = await bench.locks.read("p1")
    assert lock is not None
    assert (lock.image, lock.how) == (image, "built")
    assert lock.base is not None
    assert (lock.base.reference, lock.base.digest) == (BASE, f"sha256:{'b' * 64}")
    assert (lock.sources["overlay"].commit, lock.sources["overlay"].license) == (commit, "AGPL-3.0")
    assert "steps/01/one.py" in lock.files
    assert lock.dockerfile == context["Dockerfile"].decode()


async def test_equal_inputs_build_nothing(case: Case, bench: Bench) -> None:
    """In well under a second, with another plan around them, without the git server, and by another agent too."""
    commit = case.commit()
    first = await bench.overlays(case.plan(commit), Heard())
    (case.server.folder / "overlay").rename(case.server.folder / "gone")
    began = time.process_time()  # a busy machine's own time says nothing
    assert await bench.overlays(case.plan(commit), Heard()) == first
    assert await bench.again()(case.plan(commit, plan_id="p2"), Heard()) == first
    assert time.process_time() - began < 1.0 * second()
    assert bench.builder.built == [first.reference]


@pytest.mark.parametrize("change", ["commit", "steps", "base"])
async def test_another_input_is_another_image(change: str, case: Case, bench: Bench) -> None:
    """A source, a step, or the base under the same tag."""
    commit = case.commit()
    first = await bench.overlays(case.plan(commit), Heard())
    plan = case.plan(commit, plan_id="p2")
    if change == "commit":
        plan = case.plan(case.commit(**{"patches/a.py": "changed\n"}), plan_id="p2")
    elif change == "steps":
        plan = case.plan(commit, STEPS[0], plan_id="p2")
    else:
        bench.runtime.images[BASE] = ImageFacts(id="sha256:other", digests=(f"reg.example/vllm@sha256:{'c' * 64}",))
    second = await bench.overlays(plan, Heard())
    assert second.reference != first.reference
    assert len(bench.builder.built) == 2


async def test_an_image_that_was_removed_is_built_from_what_was_locked(case: Case, bench: Bench) -> None:
    """The tag's commit of then, and the base's digest of then."""
    first = case.commit()
    repository = str(case.server.folder / "overlay")
    git("-C", repository, "tag", "v1")
    tagged = {"source": {"name": "overlay", "git": case.server.url("overlay"), "tag": "v1"}}
    plan = plan_of(ImagePlan("tiny:v1", "build", base=BASE, steps=(tagged, *STEPS[:2])))
    image = await bench.overlays(plan, Heard())
    del bench.runtime.images[image.reference]
    bench.runtime.images[f"reg.example/vllm@sha256:{'b' * 64}"] = bench.runtime.images[BASE]
    bench.runtime.images[BASE] = ImageFacts(id="sha256:new", digests=(f"reg.example/vllm@sha256:{'c' * 64}",))
    assert await bench.overlays(plan, Heard()) == image
    lock = await bench.locks.read("p1")
    assert lock is not None
    assert lock.sources["overlay"].commit == first
    assert lock.sources["overlay"].tag == "v1"


async def test_two_who_build_the_same_at_once_build_it_once(case: Case, bench: Bench) -> None:
    """Within an agent, and an agent beside a command."""
    commit, bench.builder.gate = case.commit(), asyncio.Event()
    other = bench.again()
    heard = Heard(), Heard(), Heard()
    calls = [bench.overlays(case.plan(commit), one) for one in heard[:2]] + [other(case.plan(commit), heard[2])]
    tasks = [asyncio.ensure_future(call) for call in calls]
    while not any("building" in text for one in heard for text in one.texts):
        await asyncio.sleep(0.01)
    bench.builder.gate.set()
    images = await asyncio.gather(*tasks)
    assert len({image.reference for image in images}) == 1
    assert len(bench.builder.built) == 1


async def test_a_build_that_nobody_waits_for_ends(case: Case, bench: Bench) -> None:
    """A person's wish comes before it: the connection is closed at once, which ends it on the Engine."""
    bench.builder.gate = asyncio.Event()
    task = asyncio.ensure_future(bench.overlays(case.plan(case.commit()), Heard()))
    while not bench.builder.open:
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (bench.builder.open, bench.builder.built) == (0, [])


async def test_a_script_is_left_out_where_a_commit_made_it_needless(case: Case, bench: Bench) -> None:
    """`before` a commit: run on older ones only."""
    older = case.commit()
    newer = case.commit(**{"patches/a.py": "newer\n"})

    async def dockerfile(commit: str) -> str:
        step = {"run": {**STEPS[2]["run"], "before": {"overlay": newer[:8]}}}
        await bench.overlays(case.plan(commit, step, plan_id=commit), Heard())
        return bench.builder.contexts[-1]["Dockerfile"].decode()

    assert "python3 ./patches/b.py" in await dockerfile(older)
    text = await dockerfile(newer)
    assert "python3 ./patches/b.py" not in text
    assert f"# 1. run is left out: overlay at {newer[:12]} has {newer[:8]}" in text


async def test_patches_are_applied_before_what_is_made_of_their_source(
    case: Case, bench: Bench, git_server: GitServer
) -> None:
    """In their order, and the context has the result."""
    commit = case.commit()
    fixes = git_server.commit(
        "fixes",
        {
            "0.patch": "--- a/overlay/vllm/one.py\n+++ b/overlay/vllm/one.py\n@@ -1 +1 @@\n-one\n+two\n",
            "1.patch": "--- a/overlay/vllm/one.py\n+++ b/overlay/vllm/one.py\n@@ -1 +1 @@\n-two\n+three\n",
        },
    )
    entries = (
        source("fixes", git_server.url("fixes"), fixes),
        {"apply": {"source": "fixes", "patches": ["0.patch", "1.patch"], "onto": "overlay"}},
        {"pip": {"source": "overlay", "no_deps": True}},
    )
    await bench.overlays(case.plan(commit, *entries), Heard())
    assert bench.builder.contexts[0]["sources/overlay.1/overlay/vllm/one.py"] == b"three\n"
    turned = (entries[0], {"apply": {**entries[1]["apply"], "patches": ["1.patch"]}}, entries[2])
    with pytest.raises(PatchFailed, match=rf"cannot apply 1.patch of fixes to overlay .*{commit[:12]}.*one.py .*@@ -1"):
        await bench.overlays(case.plan(commit, *turned, plan_id="p2"), Heard())


async def test_a_failing_step_is_named_with_its_last_words(case: Case, bench: Bench) -> None:
    """Nothing has the name, and the details have the tail of its output."""
    bench.builder.fails["patches/a.py"] = ("line 1\nAssertionError: no match\n", "returned a non-zero code: 1")
    plan, heard = case.plan(case.commit()), Heard()
    with pytest.raises(BuildFailed) as caught:
        await bench.overlays(plan, heard)
    assert (
        "step 2 of 2 (run patches/a.py of overlay, idempotent) failed: returned a non-zero code: 1" in caught.value.text
    )
    assert caught.value.details["output"] == ["line 1", "AssertionError: no match"]
    assert (caught.value.code, bench.builder.built) == ("image.build_failed", [])
    assert heard.texts[-1].endswith("AssertionError: no match")
    assert await bench.locks.read("p1") is None


async def test_a_full_disk_says_what_to_do(case: Case, bench: Bench) -> None:
    bench.builder.fails["COPY"] = ("", "write /x: no space left on device")
    with pytest.raises(BuildFailed) as caught:
        await bench.overlays(case.plan(case.commit()), Heard())
    assert "docker system df" in caught.value.advice


async def test_an_engine_that_is_restarted_is_gone_on_with(case: Case, bench: Bench) -> None:
    """From the last finished step; one that says no is not asked again."""
    bench.builder.trouble = [RuntimeUnreachable(action="build", why="gone")]
    heard = Heard()
    await bench.overlays(case.plan(case.commit()), heard)
    assert bench.slept == [1.0]
    assert any("going on in 1 s" in text for text in heard.texts)
    bench.builder.trouble = [RuntimeRejected(action="build", why="no")]
    with pytest.raises(RuntimeRejected):
        await bench.overlays(case.plan(case.commit(x="y"), plan_id="p2"), Heard())


async def test_what_a_step_names_has_to_be_there(case: Case, bench: Bench) -> None:
    """A package of the base, a path of a source, a number of files."""
    commit = case.commit()
    bench.builder.packages.clear()
    with pytest.raises(BaseLacks, match="it has no package vllm"):
        await bench.overlays(case.plan(commit), Heard())
    with pytest.raises(NotInSource, match=f"cannot find patches/c.py in overlay .*{commit[:12]}"):
        await bench.overlays(case.plan(commit, {"run": {"source": "overlay", "script": "patches/c.py"}}), Heard())
    copy = {"copy": {"source": "overlay", "path": "overlay/vllm", "to": "/x", "files": 54}}
    with pytest.raises(ImageError, match="the recipe says 54 files, 2 are there"):
        await bench.overlays(case.plan(commit, copy), Heard())


async def test_a_plan_without_steps_is_not_built(bench: Bench) -> None:
    """And one that lacks something says what, before anything is fetched."""
    with pytest.raises(ImageError, match="no build steps"):
        await bench.overlays(plan_of(ImagePlan("tiny:v1", "pull")), Heard())
    entry = {"source": {"name": "s", "git": "https://x/s"}}
    with pytest.raises(BuildIncomplete, match="which state of s is meant"):
        await bench.overlays(plan_of(ImagePlan("t", "build", base=BASE, steps=(entry, STEPS[3]))), Heard())


async def test_a_base_of_no_registry_goes_by_its_id(case: Case, bench: Bench) -> None:
    """A name could come to mean another image in the middle of a build."""
    bench.runtime.images[BASE] = ImageFacts(id="sha256:" + "d" * 64)
    plan = case.plan(case.commit())
    assert plan.image is not None
    await bench.overlays(replace(plan, image=replace(plan.image, reference="x:1")), Heard())
    assert f"\nFROM sha256:{'d' * 64}\n" in bench.builder.contexts[0]["Dockerfile"].decode()
