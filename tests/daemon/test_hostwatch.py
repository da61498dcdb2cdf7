"""The host is watched all the time, and what is wrong with it is told once, to those that it concerns."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from agent.clock import SystemClock
from agent.container.trouble import RuntimeUnreachable
from agent.daemon.hostwatch import HostWatch, concerned
from agent.host.gpu import Gpu, GpuEvent, GpuEventKind, Mig, MigInstance
from agent.host.model import Driver
from agent.host.reading import Known, Reading, Unknown
from agent.quantity import Bytes
from agent.samples.model import Xid
from tests.container.fake import FakeRuntime, FakeWorld
from tests.plan.build import NOW, card

NONE = Unknown("not asked")


class Cards:
    """Two cards, and a driver whose library a test replaces."""

    def __init__(self) -> None:
        self.library = "610.57.04"
        self.reading: Reading[tuple[Gpu, ...]] = Known((card(0), card(1)), NOW)
        self.listeners: list[Callable[[GpuEvent], None]] = []

    async def read(self) -> Reading[tuple[Gpu, ...]]:
        return self.reading

    async def driver(self) -> Driver:
        kernel, library = Known("610.57.04", NOW), Known(self.library, NOW)
        return Driver(version=NONE, kernel_module=kernel, userland=library, cuda=NONE)

    def subscribe(self, listener: Callable[[GpuEvent], None]) -> Callable[[], None]:
        self.listeners.append(listener)
        return lambda: self.listeners.remove(listener)


class Memory:
    async def memory(self) -> Unknown:
        return Unknown("no meminfo in this test")


def watching(cards: Cards, world: FakeWorld) -> tuple[HostWatch, list[tuple[str, str]], list[Xid]]:
    told: list[tuple[str, str]] = []
    xids: list[Xid] = []
    watch = HostWatch(cards, Memory(), {"docker": FakeRuntime(world)}, SystemClock(), xids.append)  # type: ignore[arg-type]

    async def tell(key: str, why: str) -> None:
        told.append((key, why))

    watch.on_trouble = tell
    return watch, told, xids


async def test_an_upgrade_of_the_driver_is_told_once_and_is_over_after_the_reboot() -> None:
    cards = Cards()
    watch, told, _ = watching(cards, FakeWorld())
    await watch._look()
    assert told == []
    cards.library = "610.60"
    await watch._look()
    await watch._look()
    assert [key for key, _ in told] == [""]
    assert "610.60" in watch.trouble(["GPU-0000"], ())
    cards.library = "610.57.04"
    await watch._look()
    assert watch.trouble(["GPU-0000"], ()) == ""


async def test_an_xid_of_the_reboot_kind_blocks_its_card_alone_until_a_person_forgives_it() -> None:
    """Given to the loops at once as well, which judge it with the engine's own state."""
    cards = Cards()
    watch, told, xids = watching(cards, FakeWorld())
    task = asyncio.create_task(watch.run())
    try:
        while not cards.listeners:
            await asyncio.sleep(0)
        cards.listeners[0](GpuEvent(GpuEventKind.XID, "GPU-0001", "0000:02:00.0", 79, NOW))
        while not told:
            await asyncio.sleep(0)
        assert xids == [Xid("GPU-0001", 79)]
        assert "fallen off the bus" in watch.trouble(["GPU-0001"], ())
        assert watch.trouble(["GPU-0000"], ()) == ""
        watch.forgive(["GPU-0001"])
        assert watch.trouble(["GPU-0001"], ()) == ""
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert cards.listeners == []


async def test_cards_that_cannot_be_read_are_no_trouble_and_cost_no_other_collector() -> None:
    cards, world = Cards(), FakeWorld()
    cards.reading = Unknown("NVML hangs")
    world.trouble = RuntimeUnreachable(action="ask", why="nobody listens")
    watch, told, _ = watching(cards, world)
    await watch._look()
    assert told == []
    assert {name: one.success for name, one in watch.collectors.items()} == {
        "nvml": False,
        "memory": False,
        "docker": False,
    }


@pytest.mark.parametrize(
    ("instance", "uuids"),
    [("", ("GPU-0000", "MIG-a", "MIG-b")), ("1/0", ("GPU-0000", "MIG-b")), ("7/0", ("GPU-0000",))],
    ids=["the whole card", "one slice", "a slice that is gone"],
)
def test_an_xid_reaches_deployments_on_slices_of_its_card(instance: str, uuids: tuple[str, ...]) -> None:
    size = Known(Bytes.gib(10), NOW)
    slices = tuple(MigInstance(name, at, 0, size, size) for at, name in enumerate(("MIG-a", "MIG-b")))
    cards = (replace(card(0), mig=Known(Mig(True, True, slices), NOW)), card(1))
    event = GpuEvent(GpuEventKind.XID, "GPU-0000", "0000:01:00.0", 79, NOW, instance)
    assert concerned(event, cards) == uuids
