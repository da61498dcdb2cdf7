"""The host's GPUs through NVML's own process: no call waits longer than its bound, and closing never hangs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent.adapters.aside import Aside
from agent.adapters.nvml_process import OwnerProcess
from agent.adapters.nvml_recall import identities, recall
from agent.adapters.nvml_wire import decode_card, decode_event, decode_shares, decode_text
from agent.adapters.procfs_host import kernel_module
from agent.clock import Clock
from agent.host.gpu import Gpu, GpuEvent, Identity, Shares
from agent.host.model import Driver
from agent.host.reading import Known, Reading, Unknown

SHARES_AGAIN_S = 600.0
"""Who computes is not asked again for so long after it went without an answer: a driver that hangs at it hangs for the
readings, too."""


@dataclass(frozen=True, slots=True)
class NvmlBounds:
    """How long NVML may take, in seconds.

    A full reading of an H200 takes 8 ms (5 ms of processor time); the bound is for a driver that is busy. The first
    answer of a process may take `open_s` more: cards that nobody uses are initialised for it where the driver keeps no
    state of them, one to three seconds each (NVIDIA, Driver Persistence), so that ten of them take as long. A driver
    that hung while it was opened is not waited for so long again.

    A process that is silent for `kill_after_s` is replaced. After a failure, a new one is not tried before
    `retry_after_s`; with a card lost, NVML is opened anew after `reopen_after_s`, since only that can find it again.
    """

    answer_s: float = 5.0
    open_s: float = 30.0
    kill_after_s: float = 30.0
    retry_after_s: float = 30.0
    reopen_after_s: float = 300.0
    end_s: float = 1.0


class NvmlGpus:
    """A `GpuSource`. Events flow from the first reading on."""

    def __init__(self, clock: Clock, bounds: NvmlBounds | None = None, proc: Path = Path("/proc")) -> None:
        self._clock = clock
        self._bounds = bounds or NvmlBounds()
        self._proc = proc
        self._aside = Aside("NVML")
        self._spawner = Aside("NVML", self._bounds.answer_s + self._bounds.open_s)
        self._hung = False
        """The last process did not answer in time."""
        self._owner: OwnerProcess | None = None
        self._stuck: OwnerProcess | None = None
        self._reading: asyncio.Task[Reading[tuple[Gpu, ...]]] | None = None
        self._last: Known[tuple[Gpu, ...]] | None = None
        self._known: dict[str, Identity] = {}
        self._driver: dict[str, Reading[str]] = {}
        self._failure = Unknown("NVML has not been asked yet")
        self._retry_at = 0.0
        self._listeners: list[Callable[[GpuEvent], None]] = []
        self._shut = False
        self._shares_failure = Unknown("NVML has not been asked yet")
        self._shares_at = 0.0

    async def read(self) -> Reading[tuple[Gpu, ...]]:
        """All cards, now. Callers that come while a reading is under way share it."""
        if self._shut:
            return Unknown("NVML has been let go: the agent is leaving")
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._read(), name="NVML reading")
        return await asyncio.shield(self._reading)

    def last(self) -> Known[tuple[Gpu, ...]] | None:
        return self._last

    async def shares(self, uuids: Collection[str]) -> Mapping[str, Reading[Shares]]:
        """Of the owner that reads the cards; for this none is started."""
        found = await self._shares()
        if isinstance(found, Unknown):
            return dict.fromkeys(uuids, found)
        return {uuid: found.get(uuid, Unknown("the card does not answer")) for uuid in uuids}

    async def _shares(self) -> dict[str, Reading[Shares]] | Unknown:
        if self._reading is not None:  # its owner may just be starting
            await asyncio.shield(self._reading)
        if self._owner is None:
            return self._failure
        if asyncio.get_running_loop().time() < self._shares_at:
            return self._shares_failure
        answer = await self._owner.ask(self._bounds.answer_s, "shares")
        if isinstance(answer, Unknown):
            self._shares_failure, self._shares_at = answer, asyncio.get_running_loop().time() + SHARES_AGAIN_S
            return answer
        try:
            return decode_shares(answer["shares"], self._clock.now())
        except (KeyError, TypeError, ValueError) as error:
            return Unknown(str(answer.get("failed") or f"NVML's own process is of another version ({error!r})"))

    async def driver(self) -> Driver:
        if not self._driver:
            await self.read()
        kernel = await self._aside.look(lambda: kernel_module(self._proc, self._clock.now()))
        nvml = {name: self._driver.get(name, self._failure) for name in ("version", "userland", "cuda")}
        return Driver(kernel_module=kernel, **nvml)

    def subscribe(self, listener: Callable[[GpuEvent], None]) -> Callable[[], None]:
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    async def close(self) -> None:
        self._shut = True
        if self._owner is not None:
            await self._drop(self._owner)
        if self._reading is not None:
            await self._reading
        if self._owner is not None:  # started while this waited
            await self._drop(self._owner)

    async def _read(self) -> Reading[tuple[Gpu, ...]]:
        owner = await self._ready_owner()
        if isinstance(owner, Unknown):
            return owner
        answer = await owner.ask(self._bounds.answer_s + (0.0 if owner.opened or self._hung else self._bounds.open_s))
        self._hung = isinstance(answer, Unknown) and not owner.closed
        if isinstance(answer, Unknown):
            if owner.closed:
                await self._fail(owner, answer.reason)
            else:
                self._failure = answer
            return answer
        return await self._take(owner, answer)

    async def _take(self, owner: OwnerProcess, answer: Mapping[str, Any]) -> Reading[tuple[Gpu, ...]]:
        """A document that cannot be read comes from other code: the package was replaced under the running agent."""
        try:
            return await self._understand(owner, answer)
        except (KeyError, TypeError, ValueError) as error:
            return await self._fail(owner, f"NVML's own process is of another version ({error!r}): restart the agent")

    async def _understand(self, owner: OwnerProcess, answer: Mapping[str, Any]) -> Reading[tuple[Gpu, ...]]:
        now = self._clock.now()
        self._driver = {name: decode_text(answer["driver"], name, now) for name in ("version", "userland", "cuda")}
        if "failed" in answer:
            return await self._fail(owner, answer["failed"])
        cards = recall(tuple(decode_card(card, now) for card in answer["cards"]), self._known)
        self._known = identities(cards)
        self._last = Known(cards, now)
        return self._last

    async def _ready_owner(self) -> OwnerProcess | Unknown:
        now = asyncio.get_running_loop().time()
        if self._owner is not None and self._outlived(self._owner, now):
            await self._drop(self._owner)
        if self._owner is not None:
            return self._owner
        if self._stuck is not None and not self._stuck.gone():
            return Unknown(f"NVML hangs in the kernel (process {self._stuck.pid} cannot be killed): reboot the host")
        self._stuck = None
        if now < self._retry_at:
            return self._failure
        return await self._start()

    async def _start(self) -> OwnerProcess | Unknown:
        owner = await OwnerProcess.start(self._spawner, self._heard)
        if isinstance(owner, Unknown):
            return self._put_off(owner.reason)
        self._owner = owner
        return owner

    def _outlived(self, owner: OwnerProcess, now: float) -> bool:
        """Whether it hangs, or has a lost card that only a new one can find again."""
        lost = self._last is not None and any(card.lost for card in self._last.value)
        patience = self._bounds.kill_after_s + (0.0 if owner.opened else self._bounds.open_s)
        return owner.silent_s > patience or (lost and now - owner.started > self._bounds.reopen_after_s)

    async def _fail(self, owner: OwnerProcess, reason: str) -> Unknown:
        await self._drop(owner)
        return self._put_off(reason)

    def _put_off(self, reason: str) -> Unknown:
        self._failure = Unknown(reason)
        self._retry_at = asyncio.get_running_loop().time() + self._bounds.retry_after_s
        return self._failure

    async def _drop(self, owner: OwnerProcess) -> None:
        """Ends it; one that cannot be ended is left behind, and no other is started until it is gone."""
        self._owner = None
        if not await owner.end(self._bounds.end_s):
            self._stuck = owner

    def _heard(self, document: Mapping[str, Any]) -> None:
        event = decode_event(document, self._clock.now())
        loop = asyncio.get_running_loop()
        for listener in self._listeners:
            loop.call_soon(listener, event)  # one listener that breaks costs neither the line nor the others
