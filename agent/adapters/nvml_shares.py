"""Which processes computed on each card of late. Runs in NVML's own process, and only when it is asked for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pynvml as nvml

from agent.adapters.nvml_words import NEVER, said
from agent.clock import Instant
from agent.host.gpu import LATELY_S, Shares
from agent.host.reading import Known, Reading, Unknown, to_json

SLICED = "NVML tells it of no card that is cut into slices (MIG)"
NOBODY = (nvml.NVML_SUCCESS, nvml.NVML_ERROR_NOT_FOUND)
"""What is raised where no process has a sample; the first by pynvml itself."""


def shares_json(at: Instant) -> list[dict[str, Any]]:
    """A document for each card that answers; one that is lost has none."""
    found = []
    for index in range(nvml.nvmlDeviceGetCount()):
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            uuid = nvml.nvmlDeviceGetUUID(handle)
        except nvml.NVMLError:
            continue
        reading = read_shares(handle, at)
        pairs = Known(tuple(reading.value.items()), at) if isinstance(reading, Known) else reading
        found.append({"uuid": uuid} | to_json({"shares": pairs}))
    return found


def read_shares(handle: Any, at: Instant) -> Reading[Shares]:
    """Of one card."""
    if _sliced(handle):
        return Unknown(SLICED, unsupported=True)
    try:
        rows = nvml.nvmlDeviceGetProcessUtilization(handle, _microseconds(at.wall - LATELY_S))
    except nvml.NVMLError as error:
        if error.value not in NOBODY:
            return Unknown(said(error), unsupported=error.value in NEVER)
        rows = ()
    return Known(shares_of(rows, at.wall), at)


def shares_of(rows: Iterable[Any], wall: float) -> Shares:
    """By pid, of samples of that time. Some drivers hand out their whole buffer: rows of nobody, of long ago, and with
    numbers that are no percentages (Syllo/nvtop#110)."""
    first, last = _microseconds(wall - LATELY_S), _microseconds(wall + LATELY_S)
    table: dict[int, float] = {}
    for row in rows:
        if row.pid > 0 and row.smUtil <= 100 and first < row.timeStamp <= last:
            table[int(row.pid)] = max(row.smUtil / 100, table.get(int(row.pid), 0.0))
    return table


def _sliced(handle: Any) -> bool:
    try:
        return bool(nvml.nvmlDeviceGetMigMode(handle)[0])
    except nvml.NVMLError:  # most cards have none
        return False


def _microseconds(wall: float) -> int:
    return max(0, int(wall * 1_000_000))
