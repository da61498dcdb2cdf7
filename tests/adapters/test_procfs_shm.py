"""Files in the real /dev/shm: only those that are ours, gone from use, and still the same files."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.adapters.procfs_shm import ShmFiles, files_in
from agent.clock import SystemClock
from agent.host.reading import Known, Unknown

HOLDER = """
import mmap, os, sys
file = open(sys.argv[1], "w+b")
file.truncate(4096)
held = mmap.mmap(file.fileno(), 4096)
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def segment() -> Iterator[Path]:
    path = Path(f"/dev/shm/recipe-agent-test-{os.getpid()}")
    yield path
    path.unlink(missing_ok=True)


def holding(path: Path) -> subprocess.Popen[str]:
    """A process that has the file mapped, and leaves it behind when it is killed."""
    words = [sys.executable, "-c", HOLDER, str(path)]
    child = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    return child


async def test_a_killed_process_leaves_its_segment_and_only_then_it_is_unused(segment: Path, tmp_path: Path) -> None:
    """The real /dev/shm and the real maps, of the two processes that matter: here others may not be looked into."""
    files = ShmFiles(SystemClock(), proc=tmp_path)
    before = await files.files()
    child = holding(segment)
    for pid in (os.getpid(), child.pid):
        (tmp_path / str(pid)).symlink_to(f"/proc/{pid}")
    try:
        mapped = await files.mapped([child.pid])
        assert isinstance(mapped, Known)
        ours = tuple(one for one in mapped.value if isinstance(before, Known) and one[1] not in before.value)
        assert [name for name, _ in ours] == [segment.name]
        in_use = await files.unused(ours)
        assert isinstance(in_use, Known)
        assert in_use.value == ()
        child.send_signal(signal.SIGKILL)
    finally:
        child.kill()
        child.communicate()
    unused = await files.unused(ours)
    assert isinstance(unused, Known)
    assert unused.value == ours
    assert await files.remove(ours) == ""
    assert not segment.exists()


async def test_a_name_that_is_somebody_elses_by_now_is_left_alone(segment: Path) -> None:
    """The same name with another inode is another file."""
    segment.write_bytes(b"new")
    files = ShmFiles(SystemClock())
    stale = ((segment.name, segment.stat().st_ino + 1),)
    found = await files.unused(stale)
    assert isinstance(found, Known)
    assert found.value == ()
    assert await files.remove(stale) == ""
    assert segment.exists()


async def test_a_name_never_leads_out_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "shm").mkdir()
    outside = tmp_path / "precious"
    outside.write_text("x")
    files = ShmFiles(SystemClock(), folder=tmp_path / "shm")
    await files.remove((("../precious", outside.stat().st_ino),))
    assert outside.exists()


async def test_a_process_that_may_not_be_looked_into_could_have_anything(
    segment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the right to see, nothing is called unused."""
    segment.write_bytes(b"x")
    (tmp_path / "77").mkdir()

    def denied(*_: object, **__: object) -> str:
        raise PermissionError(13, "denied")

    files = ShmFiles(SystemClock(), proc=tmp_path)
    monkeypatch.setattr(Path, "read_text", denied)
    found = await files.unused(((segment.name, segment.stat().st_ino),))
    assert isinstance(found, Unknown)
    assert "77" in found.reason


def test_only_named_files_of_the_hosts_own_folder_count() -> None:
    """A container's private /dev/shm is another device; a deleted file goes by itself; sub-folders are people's."""
    maps = "\n".join(
        [
            "7f00-7f01 rw-s 00000000 00:1a 11                         /dev/shm/psm_1",
            "7f00-7f01 rw-s 00000000 00:99 12                         /dev/shm/psm_2",
            "7f00-7f01 rw-s 00000000 00:1a 13                         /dev/shm/psm_3 (deleted)",
            "7f00-7f01 r--s 00000000 00:1a 14                         /dev/shm/models/weights.gguf",
            "7f00-7f01 r--p 00000000 08:01 15                         /usr/lib/libc.so.6",
            "7f00-7f01 rw-p 00000000 00:00 0 ",
        ]
    )
    assert list(files_in(maps, (0, 0x1A))) == [("psm_1", 11)]
