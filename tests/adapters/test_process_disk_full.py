"""The wrapper on a disk that is full: it goes on, passes signals on, and knows how its engine ended."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent.adapters import process_records, process_start, process_stub
from agent.adapters.process_records import Record
from agent.container.labels import Identity

LIVES = "import time\nprint('up', flush=True)\ntime.sleep(60)"
HELD_UP = """
import errno, os, sys, time
sys.path.insert(0, {folder!r})
import process_stub as stub
opened, put, true_open = os.open, os.write, open
def full(path=""):
    if os.path.exists("full") and (path in {names!r} or not path):
        raise OSError(errno.ENOSPC, "No space left on device", path)
def no_open(path, *more, **named):
    full(str(path).removesuffix(".new"))
    return opened(path, *more, **named)
def no_write(file, data):
    if file == 2:
        full()
    return put(file, data)
def no_file(path, *more, **named):
    full(str(path).removesuffix(".new"))
    return true_open(path, *more, **named)
os.open, os.write, stub.open = no_open, no_write, no_file
sys.exit(stub.main({at!r}, "/", 0, 3, "shared"))
"""
"""The wrapper, where files of some names cannot be written as long as a file `full` is there."""


def until(seen: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 15
    while not seen():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


class Held:
    """A wrapper whose disk is full for files of these names."""

    def __init__(self, folder: Path, names: tuple[str, ...], engine: str = LIVES) -> None:
        self.folder = folder
        argv = [sys.executable, "-c", engine]
        (folder / "argv").write_bytes(b"".join(word.encode() + b"\0" for word in argv))
        (folder / "environ").write_bytes(b"PATH=/usr/bin\0")
        home = str(Path(process_stub.__file__).parent)
        code = HELD_UP.format(folder=home, names=names, at=str(folder))
        with (folder / "wrapper.log").open("wb") as log:
            self.wrapper = subprocess.Popen([sys.executable, "-c", code], stdout=log, stderr=log)

    def full(self) -> None:
        (self.folder / "full").touch()

    def room(self) -> None:
        (self.folder / "full").unlink(missing_ok=True)

    def read(self, name: str) -> str:
        path = self.folder / name
        return path.read_text() if path.exists() else ""

    def end(self) -> None:
        self.room()
        self.wrapper.terminate()
        self.wrapper.wait(10)


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Callable[..., Held]]:
    made: list[Held] = []

    def make(*names: str, engine: str = LIVES, full: bool = False) -> Held:
        if full:
            (tmp_path / "full").touch()
        made.append(Held(tmp_path, names, engine))
        return made[-1]

    yield make
    for one in made:
        one.end()


def test_a_stop_reaches_the_engine_and_is_noted_once_there_is_room(held: Callable[..., Held]) -> None:
    wrapper = held("asked", "exited", "log.times")
    until(lambda: wrapper.read("log.times") != "", "the engine runs")
    wrapper.full()
    wrapper.wrapper.send_signal(signal.SIGTERM)
    pid = json.loads(wrapper.read("started"))["pid"]
    until(lambda: not Path(f"/proc/{pid}").exists(), "the engine ends")
    assert wrapper.wrapper.poll() is None
    wrapper.room()
    assert wrapper.wrapper.wait(10) == 0
    assert json.loads(wrapper.read("exited"))["signal"] == signal.SIGTERM
    assert wrapper.read("asked").split()[1:] == ["TERM"]


def test_a_log_that_cannot_be_timed_costs_no_engine(held: Callable[..., Held]) -> None:
    """Under systemd the end of the wrapper would be the end of the unit, and of the engine in it."""
    talks = "import time\nwhile True:\n    print('more', flush=True)\n    time.sleep(0.05)"
    wrapper = held("log.times", engine=talks)
    until(lambda: wrapper.read("log.times") != "", "the engine runs")
    wrapper.full()
    time.sleep(process_stub.TICK_S)  # a line that was being written is there by now
    noted = wrapper.read("log.times")
    time.sleep(3 * process_stub.TICK_S)
    assert wrapper.wrapper.poll() is None
    assert wrapper.read("log.times") == noted
    wrapper.room()
    until(lambda: len(wrapper.read("log.times")) > len(noted), "times are noted again")


def test_an_engine_whose_start_cannot_be_noted_is_ended(held: Callable[..., Held], tmp_path: Path) -> None:
    """Nobody would know of it, and the next one would find its cards in use; with room it can be started again."""
    tells = f"import os, time\nopen({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))\ntime.sleep(60)"
    wrapper = held("started", engine=tells, full=True)
    assert wrapper.wrapper.wait(10) == 1
    pid = wrapper.read("pid")
    assert not pid or not Path(f"/proc/{pid}").exists()
    assert wrapper.read("started") == ""
    wrapper.room()
    again = subprocess.Popen([sys.executable, process_stub.__file__, str(tmp_path), "/", "0", "3", "shared"])
    until(lambda: wrapper.read("started") != "", "the engine runs")
    until(lambda: not (tmp_path / "environ").exists(), "nothing secret is left")
    again.terminate()
    assert again.wait(10) == 0


def test_of_two_wrappers_of_one_folder_one_starts_an_engine(held: Callable[..., Held], tmp_path: Path) -> None:
    """An agent that was ended in the middle of a start, and the next one that finds it not started yet."""
    counts = f"import os, time\nopen({str(tmp_path)!r} + f'/engine-{{os.getpid()}}', 'w').close()\ntime.sleep(60)"
    first = held("nothing", engine=counts)
    command = [sys.executable, process_stub.__file__, str(tmp_path), "/", "0", "3", "shared"]
    others = [subprocess.Popen(command, stderr=subprocess.DEVNULL) for _ in range(3)]
    until(lambda: sum(one.poll() is None for one in (first.wrapper, *others)) == 1, "all but one end")
    until(lambda: len(list(tmp_path.glob("engine-*"))) == 1, "an engine runs")
    keeper = next(one for one in (first.wrapper, *others) if one.poll() is None)
    assert json.loads(first.read("started"))["wrapper"] == keeper.pid
    keeper.terminate()
    assert keeper.wait(10) == 0
    assert len(list(tmp_path.glob("engine-*"))) == 1


def test_a_wrapper_that_could_say_nothing_is_told_from_one_that_did_not(tmp_path: Path) -> None:
    record = Record(tmp_path, "a", "a", Identity("a", "plan-1", 1), 0.0, (), "/", {})
    assert process_start.silence(record) == "its wrapper gave no sign"
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "room").symlink_to("/dev/full")
    assert process_start.silence(record).endswith(f"nothing can be written to {tmp_path}: No space left on device")
    assert list(tmp_path.iterdir()) == []


def test_half_a_line_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk may take a part of what is written: the next line would become one with it."""
    monkeypatch.chdir(tmp_path)
    process_stub.append("log.times", b"1.000000 10\n")
    put = os.write
    with monkeypatch.context() as full:
        full.setattr(os, "write", lambda file, data: put(file, data[:5]))
        with pytest.raises(OSError, match="half a line"):
            process_stub.append("log.times", b"2.000000 20\n")
    process_stub.append("log.times", b"3.000000 30\n")
    assert (tmp_path / "log.times").read_text() == "1.000000 10\n3.000000 30\n"


def test_an_ask_that_cannot_be_noted_keeps_nobody_from_asking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = Record(tmp_path, "a", "a", Identity("a", "plan-1", 1), 0.0, (), "/", {})

    def full(*_more: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(os, "open", full)
        process_records.note_ask(record, 1.0, "KILL")
    (tmp_path / "asked").write_text("1764.1764.500000 TERM\n17\n5.500000 TERM\n")
    assert process_records.asks(record) == [(5.5, "TERM")]
