"""What the kernel says that matters for a GPU engine, with its time; no right to look is said."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agent.adapters.kernel_log import KernelRing, line_of, read_ring
from agent.clock import SystemClock
from agent.host.reading import Known, Unknown


@pytest.mark.parametrize(
    ("record", "line"),
    [
        ("4,1,5000000,-;NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.\n SUBSYSTEM=pci",
         "2026-11-30T00:00:05.000Z NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus."),
        ("3,2,7500000,-;Out of memory: Killed process 42 (vllm) total-vm:1kB",
         "2026-11-30T00:00:07.500Z Out of memory: Killed process 42 (vllm) total-vm:1kB"),
        ("3,3,1,-;INFO: task python:77 blocked for more than 120 seconds.",
         "2026-11-30T00:00:00.000Z INFO: task python:77 blocked for more than 120 seconds."),
        ("6,4,1,-;eth0: link up", None),
        ("torn", None),
    ],
)  # fmt: skip
def test_lines_that_matter_come_with_their_time(record: str, line: str | None) -> None:
    assert line_of(record, booted=1_795_996_800.0) == line


def test_a_ring_is_read_to_its_end() -> None:
    """Each record is one read, and nothing more means the end: never a wait for the next line."""
    reader, writer = os.pipe2(os.O_NONBLOCK | os.O_DIRECT)
    try:
        os.write(writer, b"4,1,1000000,-;NVRM: one")
        os.write(writer, b"6,2,2000000,-;usb 1-1: new device")
        os.write(writer, b"4,3,3000000,-;oom-kill:constraint=CONSTRAINT_MEMCG")
        assert [line.split(" ", 1)[1] for line in read_ring(reader, 0.0)] == [
            "NVRM: one",
            "oom-kill:constraint=CONSTRAINT_MEMCG",
        ]
    finally:
        os.close(reader)
        os.close(writer)


async def test_no_kernel_log_is_an_answer_with_its_reason(tmp_path: Path) -> None:
    found = await KernelRing(SystemClock(), tmp_path / "kmsg").lines()
    assert isinstance(found, Unknown)
    assert "there is no" in found.reason


async def test_the_hosts_own_ring_is_read_or_the_right_to_it_is_named() -> None:
    found = await KernelRing(SystemClock()).lines()
    assert isinstance(found, Known) or "CAP_SYSLOG" in found.reason or "there is no" in found.reason
