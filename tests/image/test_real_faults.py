"""A disk that fills up midway: the sentence says so, nothing half has a name, and with room it goes on."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from agent.image.ensure import ensure
from agent.image.trouble import BuildFailed, PullRefused
from agent.plan.model import ImagePlan
from tests.image.plans import Heard, plan_of
from tests.image.test_real_build import Host, plan, steps
from tests.lab import engine, images
from tests.lab.engine import Engine
from tests.lab.fixtures import entered
from tests.lab.gitserver import GitServer

pytestmark = [pytest.mark.docker, pytest.mark.slow]

DISK = "48m"


@pytest.fixture
def small_engine(lab_session: Path, tmp_path: Path) -> Iterator[Engine]:
    """An Engine whose images lie on a disk of 48 MB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", disk], check=True)
    try:
        with ExitStack() as stack:
            yield entered(stack, engine.running("small", ("--data-root", str(disk))))
    finally:
        subprocess.run(["umount", "--lazy", disk], check=True)


@pytest.fixture
async def host(small_engine: Engine, tmp_path: Path) -> AsyncIterator[Host]:
    await asyncio.to_thread(images.busybox, small_engine, "base:1")
    host = Host(small_engine, tmp_path / "host", "base:1")
    yield host
    await host.close()


async def test_a_disk_that_fills_up_in_a_pull(
    host: Host, lab_engine: Engine, lab_registry: str, tmp_path: Path
) -> None:
    """Not tried again, since it would be the same."""
    reference = f"{lab_registry}/large:1"
    folder = tmp_path / "large"
    folder.mkdir()
    (folder / "one").write_bytes(os.urandom(30_000_000))
    (folder / "Dockerfile").write_text("FROM scratch\nCOPY one /\n")

    def publish() -> None:
        lab_engine.docker("build", "--quiet", "--tag", reference, str(folder))
        lab_engine.docker("push", "--quiet", reference)
        lab_engine.docker("rmi", "--force", reference)

    await asyncio.to_thread(publish)
    with pytest.raises(PullRefused, match="no space left on device") as caught:
        await ensure(plan_of(ImagePlan(reference, "pull")), host.runtime, Heard())
    assert "docker system df" in caught.value.advice
    assert await host.runtime.image(reference) is None


async def test_a_disk_that_fills_up_in_a_build(host: Host, git_server: GitServer) -> None:
    """The step is named, what was finished stays, and with more room the next build goes on from there."""
    files = {"a.sh": "echo a > /a\n", "fill.sh": "dd if=/dev/zero of=/fill bs=1M count=60\n"}
    commit = git_server.commit("s", files)
    entries = [{"run": {"source": "s", "script": name}} for name in files]
    image = ImagePlan("x:1", "build", base=host.base, steps=steps(git_server.url("s"), commit, *entries))
    with pytest.raises(BuildFailed, match=r"step 2 of 2 \(run fill.sh of s\) failed") as caught:
        await host.overlays(plan(image, "tiny"), Heard())
    assert "docker system df" in caught.value.advice
    assert "recipe-agent/tiny" not in await host.docker("images")
    disk = host.engine.docker("info", "--format", "{{.DockerRootDir}}").strip()
    subprocess.run(["mount", "-o", "remount,size=200m", disk], check=True)
    heard = Heard()
    built = await host.overlays(plan(image, "tiny"), heard)
    assert "instructions were there" in heard.texts[-1]
    assert (await host.docker("run", "--rm", built.reference, "cat", "/a")).strip() == "a"
