"""Processes as the kernel shows them: real ones, and what a test cannot have in a folder that looks like /proc."""

from __future__ import annotations

import asyncio
import gc
import mmap
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from blockbuster import blockbuster_ctx

from agent.adapters.procfs_processes import ProcProcesses
from agent.clock import SystemClock
from agent.host.process import GpuHolder, Process
from agent.host.reading import Known, Unknown, value_of

CONTAINER = "c0ffee" + "0" * 58
PARENT = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(child.pid, flush=True)
sys.stdin.read()
child.kill()
child.wait()
"""


@pytest.fixture
def processes() -> ProcProcesses:
    return ProcProcesses(SystemClock())


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", "an argument"]) as child:
        yield child
        child.kill()


async def seen(processes: ProcProcesses, pid: int, so: Callable[[Process], bool]) -> Process:
    """The process, once it is `so` (the kernel takes a moment for a signal)."""
    async with asyncio.timeout(10):
        while True:
            reading = await processes.look(pid)
            if isinstance(reading, Known) and so(reading.value):
                return reading.value
            await asyncio.sleep(0.01)


async def test_a_process_is_told_by_what_it_is(processes: ProcProcesses, sleeper: subprocess.Popen[bytes]) -> None:
    process = await seen(processes, sleeper.pid, lambda process: process.state == "S")
    assert (process.pid, process.ppid, process.threads) == (sleeper.pid, os.getpid(), 1)
    assert process.cmdline == (sys.executable, "-c", "import time; time.sleep(600)", "an argument")
    assert process.name.startswith("python")
    assert isinstance(process.uid, Known)
    assert process.uid.value == os.geteuid()
    assert isinstance(process.cgroup, Known)
    assert not process.ended
    assert not process.unkillable


async def test_cpu_time_grows_with_work(processes: ProcProcesses) -> None:
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as child:
        try:
            await seen(processes, child.pid, lambda process: process.cpu_seconds >= 0.2)
        finally:
            child.kill()


async def test_a_start_time_tells_a_pid_from_its_successor(
    processes: ProcProcesses, sleeper: subprocess.Popen[bytes]
) -> None:
    own, child = await processes.look(os.getpid()), await processes.look(sleeper.pid)
    assert isinstance(own, Known)
    assert isinstance(child, Known)
    assert own.value.start_ticks < child.value.start_ticks
    since_boot = time.clock_gettime(time.CLOCK_BOOTTIME)
    assert 0 <= since_boot - child.value.start_ticks / os.sysconf("SC_CLK_TCK") < 60


async def test_a_stopped_process_is_stopped(processes: ProcProcesses, sleeper: subprocess.Popen[bytes]) -> None:
    sleeper.send_signal(signal.SIGSTOP)
    stopped = await seen(processes, sleeper.pid, lambda process: process.state == "T")
    assert not stopped.ended


async def test_a_zombie_has_ended(processes: ProcProcesses, sleeper: subprocess.Popen[bytes]) -> None:
    sleeper.kill()
    zombie = await seen(processes, sleeper.pid, lambda process: process.state == "Z")
    assert zombie.ended
    assert zombie.cmdline == ()


async def test_a_process_that_is_gone_is_unknown(processes: ProcProcesses, sleeper: subprocess.Popen[bytes]) -> None:
    sleeper.kill()
    sleeper.wait()
    for reading in (await processes.look(sleeper.pid), await processes.tree(sleeper.pid)):
        assert isinstance(reading, Unknown)
        assert str(sleeper.pid) in reading.reason


async def test_a_tree_has_all_descendants_parents_first(processes: ProcProcesses) -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        grandchild = int(parent.stdout.readline())
        tree = await processes.tree(parent.pid)
        own = await processes.tree(os.getpid())
        parent.communicate()
    assert isinstance(tree, Known)
    assert [process.pid for process in tree.value] == [parent.pid, grandchild]
    assert isinstance(own, Known)
    order = [process.pid for process in own.value]
    assert order[0] == os.getpid()
    assert order.index(parent.pid) < order.index(grandchild)


async def test_wchan_is_a_place_or_a_reason_never_a_zero(
    processes: ProcProcesses, sleeper: subprocess.Popen[bytes]
) -> None:
    await seen(processes, sleeper.pid, lambda process: process.state == "S")
    reading = await processes.wchan(sleeper.pid)
    assert isinstance(reading, Unknown) or reading.value not in ("", "0")


async def test_this_hosts_own_kills_are_counted_or_said_to_be_unreadable(processes: ProcProcesses) -> None:
    reading = await processes.oom_kills(os.getpid())
    assert isinstance(reading, Unknown) or reading.value >= 0


async def test_nothing_here_blocks_the_loop(processes: ProcProcesses, sleeper: subprocess.Popen[bytes]) -> None:
    with blockbuster_ctx():
        assert isinstance(await processes.tree(sleeper.pid), Known)
        assert isinstance(await processes.gpu_holders(), Known)
        assert isinstance(await processes.in_container(CONTAINER), Known)


class Tree:
    """A folder that looks like /proc, for what only a GPU host or a container engine has."""

    def __init__(self, folder: Path) -> None:
        self.proc = folder / "proc"
        self.cgroups = folder / "cgroup"
        self.proc.mkdir()

    def process(self, pid: int, *, ppid: int = 1, state: str = "S", flags: int = 0, cgroup: str = "0::/\n") -> Path:
        folder = self.proc / str(pid)
        (folder / "fd").mkdir(parents=True)
        (folder / "stat").write_text(f"{pid} (p{pid}) {state} {ppid} 0 0 0 -1 {flags} 0 0 0 0 1 1 0 0 20 0 1 0 {pid} 0")
        (folder / "cgroup").write_text(cgroup)
        (folder / "cmdline").write_bytes(b"engine\0--serve\0")
        (folder / "status").write_text("Name:\tx\nUid:\t0\t0\t0\t0\n")
        return folder

    def opens(self, pid: int, *files: str) -> None:
        for number, file in enumerate(files):
            (self.proc / str(pid) / "fd" / str(number)).symlink_to(file)


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


@pytest.fixture
def there(tree: Tree) -> ProcProcesses:
    return ProcProcesses(SystemClock(), tree.proc, tree.cgroups)


async def test_orphans_of_a_container_are_found_by_its_id(tree: Tree, there: ProcProcesses) -> None:
    tree.process(10, cgroup=f"0::/system.slice/docker-{CONTAINER}.scope\n")
    tree.process(11, cgroup=f"4:memory:/docker/{CONTAINER}\n0::/\n")
    tree.process(12, cgroup=f"0::/docker/{CONTAINER[:-1]}1\n")
    tree.process(13)
    reading = await there.in_container(CONTAINER)
    assert isinstance(reading, Known)
    assert [(process.pid, process.container) for process in reading.value] == [(10, CONTAINER), (11, CONTAINER)]


async def test_holders_of_cards_are_found_whatever_nvml_says(tree: Tree, there: ProcProcesses) -> None:
    tree.process(10)
    tree.opens(10, "/dev/nvidia1", "/dev/nvidia-uvm", "/dev/null", "/dev/nvidia1", "socket:[4]")
    tree.process(11)
    tree.opens(11, "/dev/null")
    tree.process(12, flags=0x00200000)
    tree.process(13)
    tree.opens(13, "/dev/nvidia0")
    (tree.proc / "13" / "cmdline").write_bytes(b"python\0-P\0-m\0agent.adapters.nvml_owner\x0014\0")
    reading = await there.gpu_holders()
    assert isinstance(reading, Known)
    assert reading.value.found == (GpuHolder(10, ("/dev/nvidia-uvm", "/dev/nvidia1")),)
    assert reading.value.unreadable == 0


async def test_processes_that_may_not_be_looked_into_are_counted(
    tree: Tree, there: ProcProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree.process(10)
    real = Path.iterdir

    def forbidden(folder: Path) -> Iterator[Path]:  # root may read everything, so the refusal is played
        if folder.name == "fd":
            raise PermissionError(13, "Permission denied", str(folder))
        return real(folder)

    monkeypatch.setattr(Path, "iterdir", forbidden)
    reading = await there.gpu_holders()
    assert isinstance(reading, Known)
    assert (reading.value.found, reading.value.unreadable) == ((), 1)


@pytest.mark.parametrize(
    ("cgroup", "file", "text"),
    [
        ("0::/docker/x\n", "docker/x/memory.events", "low 0\nhigh 0\nmax 9\noom 3\noom_kill 2\n"),
        ("4:memory:/docker/x\n0::/\n", "memory/docker/x/memory.oom_control", "oom_kill_disable 0\noom_kill 2\n"),
    ],
    ids=["v2", "v1"],
)
async def test_kills_for_memory_are_counted_by_cgroup(
    tree: Tree, there: ProcProcesses, cgroup: str, file: str, text: str
) -> None:
    tree.process(10, cgroup=cgroup)
    (tree.cgroups / file).parent.mkdir(parents=True)
    (tree.cgroups / file).write_text(text)
    reading = await there.oom_kills(10)
    assert isinstance(reading, Known)
    assert reading.value == 2


async def test_kills_that_cannot_be_counted_are_not_zero(tree: Tree, there: ProcProcesses) -> None:
    tree.process(10, cgroup="0::/docker/x\n")
    assert isinstance(await there.oom_kills(10), Unknown)
    assert isinstance(await there.oom_kills(99), Unknown)


async def test_a_uid_that_cannot_be_read_costs_itself_alone(tree: Tree, there: ProcProcesses) -> None:
    (tree.process(10) / "status").unlink()
    reading = await there.look(10)
    assert isinstance(reading, Known)
    assert isinstance(reading.value.uid, Unknown)
    assert reading.value.cmdline == ("engine", "--serve")


@pytest.mark.parametrize(
    ("state", "wchan", "expect"), [("D", "uvm_spin_loop", "uvm_spin_loop"), ("R", "0", ""), ("D", "0", None)]
)
async def test_where_it_waits(tree: Tree, there: ProcProcesses, state: str, wchan: str, expect: str | None) -> None:
    (tree.process(10, state=state) / "wchan").write_text(wchan)
    reading = await there.wchan(10)
    assert (reading.value if isinstance(reading, Known) else None) == expect
    looked = await there.look(10)
    assert isinstance(looked, Known)
    assert looked.value.unkillable is (state == "D")


async def test_to_json_keeps_the_reasons(tree: Tree, there: ProcProcesses) -> None:
    (tree.process(10) / "status").unlink()
    reading = await there.look(10)
    assert isinstance(reading, Known)
    document = reading.value.to_json()
    assert (document["pid"], document["uid"], document["cmdline"]) == (10, None, ["engine", "--serve"])
    assert "status" in document["unknown"]["uid"]


@pytest.mark.parametrize(
    ("text", "moved"),
    [
        ("rchar: 900\nwchar: 800\nread_bytes: 4096\nwrite_bytes: 512\ncancelled_write_bytes: 0\n", 4608),
        ("rchar: 900\n", None),
        (None, None),
    ],
    ids=["storage alone counts", "a kernel without it", "no such file"],
)
async def test_storage_traffic_is_counted_or_unknown(
    tree: Tree, there: ProcProcesses, text: str | None, moved: int | None
) -> None:
    folder = tree.process(10)
    if text is not None:
        (folder / "io").write_text(text)
    reading = await there.look(10)
    assert isinstance(reading, Known)
    assert value_of(reading.value.io_bytes) == moved


async def test_this_process_has_moved_bytes(processes: ProcProcesses, tmp_path: Path) -> None:
    with (tmp_path / "file").open("wb") as file:
        file.write(b"x" * 100_000)
        file.flush()
        os.fsync(file.fileno())
    reading = await processes.look(os.getpid())
    assert isinstance(reading, Known)
    assert isinstance(reading.value.io_bytes, Unknown) or reading.value.io_bytes.value >= 100_000


async def test_own_memory_is_what_is_neither_a_files_nor_shared(processes: ProcProcesses) -> None:
    """Fifty megabytes that are written to show; a mapped file of the same size does not."""
    gc.collect()  # what other tests left is not let go of in between
    before = value_of((await look_at_self(processes)).own_bytes)
    held = b"x" * 50_000_000
    after = value_of((await look_at_self(processes)).own_bytes)
    assert before is not None
    assert after is not None
    assert 45_000_000 < after - before < 80_000_000
    del held
    with tempfile.TemporaryFile() as file:
        file.write(b"y" * 50_000_000)
        file.flush()
        began = value_of((await look_at_self(processes)).own_bytes)
        with mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
            assert mapped.find(b"z") == -1  # every page is there now
            mapping = value_of((await look_at_self(processes)).own_bytes)
    assert began is not None
    assert mapping is not None
    assert mapping - began < 20_000_000


async def look_at_self(processes: ProcProcesses) -> Process:
    reading = await processes.look(os.getpid())
    assert isinstance(reading, Known)
    return reading.value


async def test_own_memory_that_cannot_be_read_is_unknown(tree: Tree, there: ProcProcesses) -> None:
    tree.process(7)
    reading = await there.look(7)
    assert isinstance(reading, Known)
    assert isinstance(reading.value.own_bytes, Unknown)
