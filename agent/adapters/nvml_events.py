"""NVML's own events: registered once, forwarded as they come. Runs in NVML's own process."""

from __future__ import annotations

import time
from collections.abc import Callable
from ctypes import c_void_p, cast
from typing import Any

import pynvml as nvml

from agent.adapters.nvml_cards import identify
from agent.adapters.nvml_words import instance_of, said
from agent.clock import Instant
from agent.host.gpu import GpuEventKind, Identity
from agent.host.reading import Known, Reading, Unknown

_KINDS = {
    nvml.nvmlEventTypeXidCriticalError: GpuEventKind.XID,
    nvml.nvmlEventTypeDoubleBitEccError: GpuEventKind.DOUBLE_BIT_ECC,
    0x400: GpuEventKind.ROW_REMAP,  # by number: the oldest pynvml that is allowed does not name these
    0x800: GpuEventKind.ROW_REMAP_FAILED,
    0x2000: GpuEventKind.FATAL_POISON,
    0x4000: GpuEventKind.UNAVAILABLE,
    0x8000: GpuEventKind.RECOVERY_ACTION,
}
_WANTED = sum(_KINDS)
_WAIT_MS = 1000
_PAUSE_S = 5.0


class Events:
    """The events of every card that was there when NVML was opened."""

    def __init__(self, at: Instant) -> None:
        self._set, self._trouble = _event_set()
        # An event names its card by the handle alone, and a card that has fallen off the bus no longer says its UUID.
        self._cards: dict[int | None, Identity] = {}
        self._registered = (
            [] if self._set is None else [self._register(index, at) for index in range(nvml.nvmlDeviceGetCount())]
        )

    def delivered(self, index: int) -> Reading[bool]:
        """Whether Xid events of the card `index` arrive here."""
        if self._trouble:
            return Unknown(self._trouble)
        if index >= len(self._registered):
            return Unknown("the card was not there when events were registered")
        return self._registered[index]

    def forward(self, send: Callable[[dict[str, Any]], None]) -> None:
        """Sends each event, for ever."""
        while self._set is not None:
            try:
                event = nvml.nvmlEventSetWait_v2(self._set, _WAIT_MS)
            except nvml.NVMLError as error:
                self._waited(error)
                continue
            self._trouble = None
            if event.eventType in _KINDS:
                send(self._document(event))

    def _waited(self, error: Any) -> None:
        if error.value == nvml.NVML_ERROR_TIMEOUT:
            self._trouble = None
            return
        # One lost card can fail the wait for all of them.
        self._trouble = f"waiting for events fails: {said(error)}"
        time.sleep(_PAUSE_S)

    def _register(self, index: int, at: Instant) -> Reading[bool]:
        """A card that cannot be registered costs its own events only."""
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            self._cards[_address(handle)] = identify(index, handle)
            kinds = nvml.nvmlDeviceGetSupportedEventTypes(handle) & _WANTED
            if kinds:
                nvml.nvmlDeviceRegisterEvents(handle, kinds, self._set)
        except nvml.NVMLError as error:
            return Unknown(said(error), unsupported=error.value == nvml.NVML_ERROR_NOT_SUPPORTED)
        if not kinds & nvml.nvmlEventTypeXidCriticalError:
            return Unknown("this card has no Xid events", unsupported=True)
        return Known(True, at)

    def _document(self, event: Any) -> dict[str, Any]:
        identity = self._cards.get(_address(event.device), Identity(index=-1))
        return {
            "kind": _KINDS[event.eventType].value,
            "uuid": identity.uuid,
            "pci": identity.pci,
            "data": int(event.eventData),
            "instance": instance_of(event.gpuInstanceId, event.computeInstanceId),
        }


def _event_set() -> tuple[Any, str | None]:
    """A set to register with; where the driver has none, why: that costs the events, and no reading."""
    try:
        return nvml.nvmlEventSetCreate(), None
    except nvml.NVMLError as error:
        return None, f"this driver tells of no events: {said(error)}"


def _address(handle: Any) -> int | None:
    return cast(handle, c_void_p).value
