"""Pulls from a real registry into a real Engine."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from agent.adapters.docker_runtime import DockerRuntime
from agent.adapters.image_build import EngineBuilder
from agent.adapters.image_registry import HttpRegistry
from agent.image.ensure import Supply, ensure
from agent.image.pull import Means, Patience
from agent.image.room import Room, missing
from agent.image.trouble import DigestMismatch, ImageNotFound, PullFailed, PullStalled
from agent.plan.model import ImagePlan
from tests.image.plans import Heard, plan_of
from tests.image.proxy import Proxy, before
from tests.lab.engine import Engine

pytestmark = [pytest.mark.docker, pytest.mark.slow]

SIZE = 4_000_000
ONE_TRY = ("--max-download-attempts", "1")
"""The Engine's own tries come 5, 10, 15 … s apart."""


async def published(engine: Engine, at: str, folder: Path, name: str = "heavy") -> str:
    """The digest of an image of two layers that the registry has and the Engine has not."""
    folder.mkdir()
    for part in ("one", "two"):
        (folder / part).write_bytes(os.urandom(SIZE))
    (folder / "Dockerfile").write_text("FROM scratch\nCOPY one /\nCOPY two /\n")
    reference = f"{at}/{name}:1"

    def make() -> str:
        engine.docker("build", "--quiet", "--tag", reference, str(folder))
        engine.docker("push", "--quiet", reference)
        digest = engine.docker("inspect", "--format", "{{index .RepoDigests 0}}", reference).strip().partition("@")[2]
        engine.docker("rmi", "--force", reference)
        engine.docker("image", "prune", "--force")
        return digest

    return await asyncio.to_thread(make)


@pytest.fixture
async def runtime(own_engine: Engine) -> AsyncIterator[DockerRuntime]:
    runtime = DockerRuntime(own_engine.docker_host)
    yield runtime
    await runtime.close()


@pytest.fixture
async def proxy(lab_registry: str) -> AsyncIterator[Proxy]:
    async with before(int(lab_registry.partition(":")[2])) as proxy:
        yield proxy


def here(proxy: Proxy) -> str:
    return f"127.0.0.1:{proxy.port}"


@pytest.mark.parametrize("own_engine", [ONE_TRY], indirect=True)
async def test_pulls_from_a_real_registry(
    own_engine: Engine, lab_registry: str, runtime: DockerRuntime, proxy: Proxy, tmp_path: Path
) -> None:
    """The whole life of a pull: a cut connection, by tag, by digest, held to it, not there, and the registry away."""
    digest = await published(own_engine, lab_registry, tmp_path / "heavy")
    reference = f"{here(proxy)}/heavy:1"
    quick = Means(patience=Patience(silence_s=20, waits_s=(0.1, 0.1)))

    builder, sizes = EngineBuilder(own_engine.docker_host), HttpRegistry()
    store = await builder.store()
    layers = await sizes.layers(reference, store.architecture) or ()
    assert missing(layers, store) == sum(layer.size for layer in layers) > 2 * SIZE
    assert (store.free or 0) > 0
    quick = replace(quick, check=Room(sizes, builder))

    proxy.cut_after, proxy.cuts = 1_000_000, 1
    heard = Heard()
    image = await ensure(plan_of(ImagePlan(reference, "pull")), runtime, heard, Supply(means=quick))
    assert image.digest == digest
    assert any("of 2 layers" in text and "iB" in text for text in heard.texts), heard.texts

    assert missing(layers, await builder.store()) == 0
    await builder.close()
    by_digest = f"{here(proxy)}/heavy@{digest}"
    assert (await ensure(plan_of(ImagePlan(by_digest, "pull")), runtime, Heard())).digest == digest

    other = f"{here(proxy)}/heavy@sha256:{'0' * 64}"
    with pytest.raises(ImageNotFound):
        await ensure(plan_of(ImagePlan(other, "pull")), runtime, Heard(), Supply(means=quick))
    with pytest.raises(DigestMismatch):
        await ensure(plan_of(ImagePlan(reference, "pull", digest=f"sha256:{'0' * 64}")), runtime, Heard())
    with pytest.raises(ImageNotFound):
        await ensure(plan_of(ImagePlan(f"{here(proxy)}/nothing:1", "pull")), runtime, Heard(), Supply(means=quick))

    await proxy.stop()
    assert (await ensure(plan_of(ImagePlan(reference, "pull")), runtime, Heard())).digest == digest
    with pytest.raises(PullFailed, match="refused"):
        await ensure(plan_of(ImagePlan(f"{here(proxy)}/more:1", "pull")), runtime, Heard(), Supply(means=quick))


@pytest.mark.parametrize("own_engine", [ONE_TRY], indirect=True)
async def test_a_registry_that_falls_silent_is_given_up(
    own_engine: Engine, lab_registry: str, runtime: DockerRuntime, proxy: Proxy, tmp_path: Path
) -> None:
    """And once it speaks again, the same call brings the image; two who ask make one pull."""
    await published(own_engine, lab_registry, tmp_path / "heavy")
    plan = plan_of(ImagePlan(f"{here(proxy)}/heavy:1", "pull"))
    proxy.flowing.clear()
    with pytest.raises(PullStalled):
        await ensure(plan, runtime, Heard(), Supply(means=Means(patience=Patience(1.0, ()))))
    proxy.flowing.set()
    heard = Heard(), Heard()
    first, second = await asyncio.gather(*(ensure(plan, runtime, one) for one in heard))
    assert first == second
    assert heard[0].all[-1] == heard[1].all[-1]


async def test_an_engine_that_is_restarted_midway_is_asked_again(
    own_engine: Engine, lab_registry: str, runtime: DockerRuntime, proxy: Proxy, tmp_path: Path
) -> None:
    """The pull ends with the Engine, and goes on with the next."""
    digest = await published(own_engine, lab_registry, tmp_path / "heavy")
    plan, heard = plan_of(ImagePlan(f"{here(proxy)}/heavy:1", "pull")), Heard()
    proxy.flowing.clear()

    async def restart(_: float) -> None:
        proxy.flowing.set()
        if not own_engine.answers():  # it may be asked more than once
            await asyncio.to_thread(own_engine.start)

    task = asyncio.ensure_future(ensure(plan, runtime, heard, Supply(means=Means(sleep=restart))))
    while proxy.made == 0:
        await asyncio.sleep(0.02)
    await asyncio.to_thread(own_engine.end, signal.SIGKILL)
    assert (await task).digest == digest
    assert any("trying again" in text for text in heard.texts)
