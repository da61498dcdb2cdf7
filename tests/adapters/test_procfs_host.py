"""The host's own facts."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest
from blockbuster import blockbuster_ctx

from agent.adapters.procfs_host import ProcHost, kernel_module, mount_of
from agent.clock import Instant, SystemClock
from agent.host.model import HostMemory
from agent.host.reading import Known, Unknown, value_of
from agent.quantity import Bytes

MEMINFO = """\
MemTotal:       391118848 kB
MemFree:         1000000 kB
MemAvailable:   171136614 kB
SwapTotal:       8388604 kB
SwapFree:        8388000 kB
Mlocked:        66060288 kB
Shmem:           1048576 kB
HugePages_Total:    1024
Hugepagesize:       2048 kB
"""


async def memory_of(proc: Path) -> HostMemory:
    reading = await ProcHost(SystemClock(), proc).memory()
    assert isinstance(reading, Known), reading
    return reading.value


async def test_this_host_says_what_it_is() -> None:
    facts = await ProcHost(SystemClock()).facts()
    assert (facts.hostname, facts.kernel) == (os.uname().nodename, os.uname().release)
    assert facts.cpus == len(os.sched_getaffinity(0))
    assert isinstance(facts.boot_id, Known)
    assert len(facts.boot_id.value) == 36
    assert isinstance(facts.booted, Known)
    assert abs(time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) - facts.booted.value) < 120
    assert facts.to_json()["boot_id"] == facts.boot_id.value


async def test_this_hosts_memory_adds_up() -> None:
    memory = await memory_of(Path("/proc"))
    total, available = value_of(memory.total), value_of(memory.available)
    assert total is not None
    assert available is not None
    assert 0 < available <= total
    assert total == pytest.approx(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"), rel=0.01)


async def test_kilobytes_of_meminfo_are_kibibytes(tmp_path: Path) -> None:
    (tmp_path / "meminfo").write_text(MEMINFO)
    (tmp_path / "vmstat").write_text("nr_free_pages 4\noom_kill 3\n")
    memory = await memory_of(tmp_path)
    assert value_of(memory.total) == Bytes.gib(373)
    assert value_of(memory.locked) == Bytes.gib(63)
    assert value_of(memory.hugepages) == Bytes.gib(2)
    assert value_of(memory.oom_kills) == 3


async def test_what_an_old_kernel_does_not_say_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "meminfo").write_text("MemTotal:       391118848 kB\n")
    memory = await memory_of(tmp_path)
    assert value_of(memory.total) == Bytes.gib(373)
    others = ("available", "swap_total", "locked", "hugepages", "oom_kills")
    assert [type(getattr(memory, name)) for name in others] == [Unknown] * len(others)
    document = memory.to_json()
    assert document["available"] is None
    assert "MemAvailable" in document["unknown"]["available"]


async def test_a_hidden_proc_is_unknown_with_its_file(tmp_path: Path) -> None:
    host = ProcHost(SystemClock(), tmp_path)
    reading = await host.memory()
    assert isinstance(reading, Unknown)
    assert "meminfo" in reading.reason
    facts = await host.facts()
    assert isinstance(facts.boot_id, Unknown)
    assert isinstance(facts.booted, Unknown)


async def test_the_disk_under_a_path_that_does_not_exist_yet(tmp_path: Path) -> None:
    host = ProcHost(SystemClock())
    here, there = await host.disk(str(tmp_path)), await host.disk(str(tmp_path / "not/yet/there"))
    assert isinstance(here, Known)
    assert isinstance(there, Known)
    assert (there.value.mount, there.value.total) == (here.value.mount, here.value.total)
    assert here.value.total == shutil.disk_usage(tmp_path).total
    assert 0 <= here.value.available <= here.value.total
    assert not here.value.network
    assert here.value.to_json()["network"] is False


async def test_proc_is_a_file_system_of_its_kind() -> None:
    reading = await ProcHost(SystemClock()).disk("/proc/self")
    assert isinstance(reading, Known)
    assert (reading.value.mount, reading.value.kind) == ("/proc", "proc")


MOUNTS = """\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:40 / /srv rw shared:9 - nfs4 box:/srv rw
31 30 8:17 / /srv/models rw shared:9 - xfs /dev/sdb1 rw
32 22 8:33 / /mnt/with\\040blank rw - btrfs /dev/sdc1 rw
33 22 0:50 / /over ro - ext4 /dev/sdd1 ro
34 22 0:51 / /over rw - tmpfs tmpfs rw
"""


@pytest.mark.parametrize(
    ("path", "expect"),
    [
        ("/var/lib", ("/", "ext4")),
        ("/srv", ("/srv", "nfs4")),
        ("/srv2", ("/", "ext4")),
        ("/srv/models/a/b", ("/srv/models", "xfs")),
        ("/mnt/with blank/x", ("/mnt/with blank", "btrfs")),
        ("/over/x", ("/over", "tmpfs")),
    ],
)
def test_a_path_is_on_the_innermost_mount(path: str, expect: tuple[str, str]) -> None:
    assert mount_of(path, MOUNTS) == expect


def test_no_kernel_module_is_said_in_words(tmp_path: Path) -> None:
    reading = kernel_module(tmp_path, Instant(1.0, 2.0))
    assert isinstance(reading, Unknown)
    assert "not loaded" in reading.reason


async def test_nothing_here_blocks_the_loop(tmp_path: Path) -> None:
    host = ProcHost(SystemClock())
    with blockbuster_ctx():
        assert isinstance(await host.memory(), Known)
        assert isinstance(await host.disk(str(tmp_path)), Known)
        assert isinstance((await host.facts()).boot_id, Known)
