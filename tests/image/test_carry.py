"""An image goes to another host with its lock, and arrives as what it was."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.errors import InvalidInput
from agent.image import carry
from agent.image.lock import Lock
from agent.image.port import ImageReady
from agent.image.trouble import DigestMismatch
from tests.image.bench import Bench
from tests.image.plans import DIGEST

NAME = "recipe-agent/tiny:1"
LOCK = Lock(ImageReady(NAME, None, f"sha256:{NAME}"), "built", dockerfile="FROM x\n")


async def test_an_image_arrives_with_its_lock(tmp_path: Path) -> None:
    """The plan finds it there as if it had been built there."""
    here, there = Bench(tmp_path / "here"), Bench(tmp_path / "there")
    await carry.save("p1", LOCK, here.builder, tmp_path / "tiny.tar")
    image = await carry.load(tmp_path / "tiny.tar", there.runtime, there.builder, there.locks)
    assert image.reference == NAME
    assert await there.locks.read("p1") == LOCK


async def test_another_image_than_the_lock_s_is_refused(tmp_path: Path) -> None:
    """Whatever its name; and no lock is written."""
    bench = Bench(tmp_path)
    await carry.save("p1", LOCK, bench.builder, tmp_path / "tiny.tar")
    (tmp_path / "tiny.tar").write_text("other/image:1")
    with pytest.raises(DigestMismatch):
        await carry.load(tmp_path / "tiny.tar", bench.runtime, bench.builder, bench.locks)
    assert await bench.locks.read("p1") is None


@pytest.mark.parametrize("text", [None, "{}", "no json"])
async def test_a_file_without_its_lock_is_not_loaded(text: str | None, tmp_path: Path) -> None:
    """Nobody could say what it is."""
    bench = Bench(tmp_path)
    (tmp_path / "tiny.tar").write_text(NAME)
    if text is not None:
        carry.lock_beside(tmp_path / "tiny.tar").write_text(text)
    with pytest.raises(InvalidInput):
        await carry.load(tmp_path / "tiny.tar", bench.runtime, bench.builder, bench.locks)
    assert NAME not in bench.runtime.images


async def test_a_name_by_digest_is_refused(tmp_path: Path) -> None:
    """It would arrive without a name."""
    lock = Lock(ImageReady(f"reg/x@{DIGEST}", DIGEST, "sha256:1"), "pulled")
    with pytest.raises(carry.NotCarried):
        await carry.save("p1", lock, Bench(tmp_path).builder, tmp_path / "x.tar")
