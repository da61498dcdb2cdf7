"""A driver whose library lacks what newer ones have: that costs those readings, and no card."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent.adapters.nvml import NvmlGpus
from agent.clock import SystemClock
from agent.host.reading import Known, Unknown
from agent.preflight.checks.gpu_architecture import capability
from tests.lab.compiler import shared_library
from tests.lab.fixtures import without
from tests.lab.packages import Unavailable

LIBRARY = r"""
#include <stdio.h>
#include <string.h>
typedef struct { unsigned long long total, free, used; } memory_v1;
int nvmlInit_v2(void) { return 0; }
int nvmlInitWithFlags(unsigned flags) { (void)flags; return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 2; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) {
  if (index > 1) return 2;
  *handle = (void *)(long)(index + 1);
  return 0;
}
int nvmlDeviceGetName(void *handle, char *name, unsigned size) {
  (void)handle; strncpy(name, "NVIDIA CMP 170HX", size); return 0;
}
int nvmlDeviceGetUUID(void *handle, char *uuid, unsigned size) {
  snprintf(uuid, size, "GPU-0000000%ld", (long)handle); return 0;
}
int nvmlDeviceGetMemoryInfo(void *handle, memory_v1 *memory) {
  (void)handle;
  memory->total = 64ULL << 30; memory->used = 615ULL << 20; memory->free = memory->total - memory->used;
  return 0;
}
int nvmlSystemGetDriverVersion(char *version, unsigned size) { strncpy(version, "610.57.04", size); return 0; }
const char *nvmlErrorString(int code) { (void)code; return "error"; }
"""


@pytest.fixture
async def old_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[NvmlGpus]:
    """Cards, names, memory and the driver's version, and nothing else."""
    source = tmp_path / "old.c"
    source.write_text(LIBRARY)
    try:
        shared_library(source, tmp_path / "libnvidia-ml.so.1")
    except Unavailable as gap:
        without(gap)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    gpus = NvmlGpus(SystemClock())
    yield gpus
    await gpus.close()


async def test_every_card_is_read_as_far_as_it_says(old_driver: NvmlGpus) -> None:
    """No events, no PCI address, no capability: named as such, and the cards are there."""
    reading = await old_driver.read()
    assert isinstance(reading, Known)
    first, second = reading.value
    assert (first.lost, first.uuid, second.uuid) == (None, "GPU-00000001", "GPU-00000002")
    assert first.pci == ""
    assert isinstance(first.memory_total, Known)
    assert isinstance(first.xid_events, Unknown)
    assert isinstance(first.power_w, Unknown)
    assert "does not know" in first.power_w.reason


async def test_the_name_tells_what_the_driver_does_not(old_driver: NvmlGpus) -> None:
    """A capability that this driver never says is read off the product's name."""
    reading = await old_driver.read()
    assert isinstance(reading, Known)
    assert capability(reading.value[0]) == "sm_80"


async def test_who_computed_is_not_known_to_it(old_driver: NvmlGpus) -> None:
    await old_driver.read()
    found = (await old_driver.shares(["GPU-00000001"]))["GPU-00000001"]
    assert isinstance(found, Unknown)
    assert "does not know" in found.reason
