"""The log of a plain process, as its wrapper bounds it and as it is read meanwhile, on file systems of both kinds."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.adapters import process_log, process_stub

LINE = "line {:05} " + "x" * 40
BOUND, FILES = 3000, 3


class WithoutHoles(process_stub.Log):
    """A log on a file system that cannot give back room in front of a file (NFS before 4.2, many FUSE ones)."""

    def punch(self, offset: int, length: int) -> bool:
        return False


@pytest.fixture(params=[process_stub.Log, WithoutHoles])
def kept(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[process_stub.Log]:
    """The wrapper's half, in the folder that it works in."""
    monkeypatch.chdir(tmp_path)
    file = os.open("log", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o640)
    yield request.param(file, BOUND, FILES)
    os.close(file)


def write(kept: process_stub.Log, numbers: range) -> None:
    """As an engine does, with the wrapper's look after each few lines."""
    for number in numbers:
        os.write(kept.log, f"{LINE.format(number)}\n".encode())
        if number % 7 == 0:
            kept.tick()
    kept.tick()


def test_a_reader_that_keeps_up_gets_every_line_once(kept: process_stub.Log, tmp_path: Path) -> None:
    """Offsets go on where they were, over whatever is forgotten in front."""
    at, found = 0, []
    for begin in range(0, 1000, 50):
        write(kept, range(begin, begin + 50))
        batch = process_log.read_from(tmp_path, at, complete=False)
        at = batch.at
        found += [line.text for line in batch.lines]
        assert all(line.at is not None for line in batch.lines)
    assert found == [LINE.format(number) for number in range(1000)]


def test_what_is_kept_is_whole_and_bounded(kept: process_stub.Log, tmp_path: Path) -> None:
    """Saved and read from anywhere: the same lines, to the last one."""
    write(kept, range(1000))
    room = sum(path.stat().st_blocks * 512 for path in tmp_path.glob("log*") if path.name != "log.times")
    assert room <= FILES * BOUND + 5 * 4096  # each file ends in a page of its own
    assert process_log.save(tmp_path, tmp_path / "saved") == (tmp_path / "saved").stat().st_size
    saved = (tmp_path / "saved").read_text().splitlines()
    whole = [line for line in saved if len(line) == len(LINE.format(0))]
    assert whole == [LINE.format(number) for number in range(1000 - len(whole), 1000)]
    assert (FILES - 1) * BOUND <= len("\n".join(saved)) <= (FILES + 1) * BOUND
    batch = process_log.read_from(tmp_path, 0, complete=True, ended=True)
    assert [line.text for line in batch.lines] == saved
    assert [line.text for line in process_log.last_lines(tmp_path, 5)] == saved[-5:]
    assert [line.text for line in process_log.last_lines(tmp_path, 9999)] == saved


def test_times_are_kept_for_what_is_kept(kept: process_stub.Log, tmp_path: Path) -> None:
    """The list of times does not grow with the log's whole history."""
    write(kept, range(3000))
    assert len((tmp_path / "log.times").read_text().splitlines()) < 60


def test_zeros_of_a_hole_are_never_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines that are forgotten while they are read are left out, not given out as zeros."""
    monkeypatch.chdir(tmp_path)
    file = os.open("log", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o640)
    kept = process_stub.Log(file, BOUND, FILES)
    write(kept, range(150))
    plain, calls = process_log._kept, iter((True, False))

    def late(folder: Path, offset: int, limit: int | None) -> bytes:
        if next(calls, False):
            write(kept, range(150, 400))
        return plain(folder, offset, limit)

    monkeypatch.setattr(process_log, "_kept", late)
    batch = process_log.read_from(tmp_path, 0, complete=True)
    assert all(line.text.startswith("line ") for line in batch.lines)
    assert batch.lines[-1].text == LINE.format(399)
    os.close(file)
