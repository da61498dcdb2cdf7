"""Real pynvml in its own process, against the stand-in library."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from blockbuster import blockbuster_ctx

from agent.adapters.nvml import NvmlBounds, NvmlGpus
from agent.clock import SystemClock
from agent.host.gpu import (
    READINGS,
    ComputeCapability,
    ComputeMode,
    Gpu,
    GpuEvent,
    GpuEventKind,
    GpuProcess,
    RecoveryAction,
    RemappedRows,
)
from agent.host.reading import Known, Unknown, value_of
from agent.quantity import Bytes
from tests.lab.nvml import hosts
from tests.lab.nvml.standin import StandIn
from tests.lab.procs import stop

SWIFT = NvmlBounds(answer_s=10.0, kill_after_s=0.2, retry_after_s=0.0, reopen_after_s=0.0, end_s=2.0)
Open = Callable[..., NvmlGpus]


@pytest.fixture
async def gpus() -> AsyncIterator[Open]:
    """Opens sources, and closes them in the end."""
    opened: list[NvmlGpus] = []

    def open_(bounds: NvmlBounds | None = None, **more: Any) -> NvmlGpus:
        opened.append(NvmlGpus(SystemClock(), bounds, **more))
        return opened[-1]

    yield open_
    for source in opened:
        await source.close()


async def cards_of(source: NvmlGpus) -> tuple[Gpu, ...]:
    reading = await source.read()
    assert isinstance(reading, Known), reading
    return reading.value


async def known(source: NvmlGpus) -> Known[tuple[Gpu, ...]]:
    """The first reading that is one: a busy machine may start an owner in more than one bound."""
    async with asyncio.timeout(60):
        while isinstance(reading := await source.read(), Unknown):
            await asyncio.sleep(0.05)
    return reading


def unknown(card: Gpu) -> set[str]:
    return {name for name, reading in card.readings().items() if isinstance(reading, Unknown)}


async def test_four_cmp_170hx_are_seen_with_all_that_they_say(nvml: StandIn, gpus: Open) -> None:
    host = hosts.cmp170hx(4)
    host["cards"][1]["memory"]["used"] = 2 * hosts.GIB
    host["cards"][1]["processes"] = [{"pid": 4121, "memory": 2 * hosts.GIB}, {"pid": 4122, "memory": None}]
    nvml.show(host)
    first, second, *rest = await cards_of(gpus())
    assert len(rest) == 2
    assert (first.index, first.name, first.pci) == (0, "NVIDIA CMP 170HX", "00000000:41:00.0")
    assert first.uuid == host["cards"][0]["uuid"]
    assert value_of(first.memory_total) == Bytes.gib(64)
    assert value_of(first.memory_used) == 0
    assert value_of(first.memory_reserved) == Bytes.mib(615)
    assert value_of(first.unified_memory) is False
    assert value_of(first.compute_capability) == ComputeCapability(8, 0)
    assert value_of(first.architecture) == "ampere"
    assert (value_of(first.power_w), value_of(first.power_limit_w)) == (38.0, 250.0)
    assert (value_of(first.temperature_c), value_of(first.sm_clock_mhz)) == (34, 210)
    assert (value_of(first.sm_clock_max_mhz), value_of(first.memory_clock_mhz)) == (1410, 1215)
    assert value_of(first.throttle) == ("idle",)
    assert (value_of(first.pcie_width), value_of(first.pcie_width_max)) == (4, 4)
    assert (value_of(first.pcie_generation), value_of(first.pcie_generation_max)) == (1, 1)
    assert value_of(first.compute_mode) is ComputeMode.DEFAULT
    assert value_of(first.recovery_action) is RecoveryAction.NONE
    assert (value_of(first.persistence), value_of(first.xid_events), value_of(first.minor)) == (True, True, 0)
    assert value_of(first.utilization) == 0.0
    assert unknown(first) == {"mig", "ecc", "ecc_uncorrected", "remapped_rows"}
    assert value_of(second.memory_used) == Bytes.gib(2)
    known, silent = value_of(second.processes) or ()
    assert (known.pid, value_of(known.memory), known.kind, known.instance) == (4121, Bytes.gib(2), "compute", "")
    assert isinstance(silent.memory, Unknown)


async def test_six_cards_are_six(nvml: StandIn, gpus: Open) -> None:
    nvml.show(hosts.cmp170hx(6))
    assert [card.index for card in await cards_of(gpus())] == list(range(6))


async def test_every_question_that_is_asked_is_one_that_the_stand_in_knows(nvml: StandIn, gpus: Open) -> None:
    nvml.show(hosts.rtx_pro_6000(4))
    first, *_ = await cards_of(gpus())
    assert unknown(first) == set()
    assert value_of(first.architecture) == "blackwell"
    assert value_of(first.ecc) is True
    assert value_of(first.remapped_rows) == RemappedRows(0, 0, pending=False, failed=False)
    (display,) = value_of(first.processes) or ()
    assert (display.pid, display.kind) == (1001, "graphics")


async def test_a_card_without_memory_of_its_own_says_so_and_goes_on(nvml: StandIn, gpus: Open) -> None:
    nvml.show(hosts.gb10())
    (spark,) = await cards_of(gpus())
    assert value_of(spark.unified_memory) is True
    assert spark.memory_total == Unknown("not supported by this card", unsupported=True) == spark.memory_used
    assert value_of(spark.processes) == (GpuProcess(4121, Known(Bytes.gib(30), spark.processes.at)),)  # type: ignore[union-attr]
    assert value_of(spark.utilization) == 0.0
    assert spark.lost is None


async def test_a_sliced_card_shows_its_slices(nvml: StandIn, gpus: Open) -> None:
    nvml.show(hosts.a100_mig())
    (card,) = await cards_of(gpus())
    mig = value_of(card.mig)
    assert mig is not None
    assert (mig.enabled, mig.pending) == (True, True)
    assert [(one.gpu_instance, value_of(one.memory_used)) for one in mig.instances] == [(1, Bytes.gib(20)), (2, 0)]
    assert mig.instances[0].uuid.startswith("MIG-")
    assert card.utilization == Unknown("not supported by this card", unsupported=True)
    assert [process.instance for process in value_of(card.processes) or ()] == ["1/0"]


async def test_a_lost_card_is_lost_with_its_reason_and_the_others_go_on(nvml: StandIn, gpus: Open) -> None:
    nvml.show(hosts.cmp170hx(4))
    source = gpus()
    before = await cards_of(source)
    nvml.show(hosts.lost_card(4, lost=2))
    after = await cards_of(source)
    assert [card.lost is None for card in after] == [True, True, False, True]
    lost = after[2]
    assert "fallen off the bus" in (lost.lost or "")
    assert (lost.uuid, lost.pci, lost.name) == (before[2].uuid, before[2].pci, before[2].name)
    assert unknown(lost) == set(READINGS)
    assert value_of(after[3].memory_total) == Bytes.gib(64)


async def test_a_card_lost_before_it_was_ever_seen_keeps_its_place(nvml: StandIn, gpus: Open) -> None:
    nvml.show(hosts.lost_card(4, lost=2))
    lost = (await cards_of(gpus()))[2]
    assert (lost.index, lost.uuid, lost.lost is None) == (2, "", False)


async def test_a_card_lost_halfway_through_its_answers_is_lost(nvml: StandIn, gpus: Open) -> None:
    host = hosts.cmp170hx(2)
    host["cards"][0]["errors"] = {"nvmlDeviceGetPowerUsage": hosts.GPU_IS_LOST}
    nvml.show(host)
    first, second = await cards_of(gpus())
    assert (first.lost is None, second.lost) == (False, None)
    assert first.uuid == host["cards"][0]["uuid"]


async def test_a_card_that_nvml_no_longer_lists_is_lost_not_forgotten(nvml: StandIn, gpus: Open) -> None:
    host = hosts.cmp170hx(4)
    nvml.show(host)
    source = gpus()
    await source.read()
    gone = host["cards"].pop(1)
    nvml.show(host)
    cards = await cards_of(source)
    assert [card.uuid for card in cards if card.lost] == [gone["uuid"]]
    assert len(cards) == 4


async def test_a_lost_card_is_found_again_by_opening_nvml_anew(nvml: StandIn, gpus: Open) -> None:
    nvml.show(hosts.lost_card())
    source = gpus(SWIFT)
    assert any(card.lost for card in await cards_of(source))
    first = pid_of(source)
    nvml.show(hosts.cmp170hx(4))
    assert not any(card.lost for card in await cards_of(source))
    assert pid_of(source) != first


async def test_one_failing_answer_costs_that_reading_alone(nvml: StandIn, gpus: Open) -> None:
    host = hosts.cmp170hx(1)
    host["cards"][0]["errors"] = {"nvmlDeviceGetUtilizationRates": hosts.UNKNOWN_ERROR, "nvmlDeviceGetComputeMode": 4}
    nvml.show(host)
    (card,) = await cards_of(gpus())
    assert card.utilization == Unknown("NVML: Unknown Error")
    assert card.compute_mode == Unknown("no permission to ask NVML for it")
    assert value_of(card.power_w) == 38.0


async def test_memory_of_an_old_driver_names_the_reserve_that_it_counts(nvml: StandIn, gpus: Open) -> None:
    host = hosts.cmp170hx(1)
    host["cards"][0]["errors"] = {"nvmlDeviceGetMemoryInfo_v2": 13}
    nvml.show(host)
    (card,) = await cards_of(gpus())
    assert value_of(card.memory_used) == Bytes.mib(615)
    assert "reserve" in card.memory_reserved.reason  # type: ignore[union-attr]
    assert value_of(card.unified_memory) is False


async def test_questions_that_an_old_driver_does_not_know_have_their_older_form(nvml: StandIn, gpus: Open) -> None:
    host = hosts.cmp170hx(1)
    host["cards"][0]["errors"] = {"nvmlDeviceGetTemperatureV": 13, "nvmlDeviceGetCurrentClocksEventReasons": 13}
    nvml.show(host)
    (card,) = await cards_of(gpus())
    assert (value_of(card.temperature_c), value_of(card.throttle)) == (34, ("idle",))


@pytest.mark.parametrize(
    ("mask", "names"), [(0, ()), (0x44, ("sw_power_cap", "hw_thermal")), (0x1001, ("idle", "0x1000"))]
)
async def test_why_clocks_are_held_down_is_said_by_name(
    nvml: StandIn, gpus: Open, mask: int, names: tuple[str, ...]
) -> None:
    host = hosts.cmp170hx(1)
    host["cards"][0]["throttle"] = mask
    nvml.show(host)
    (card,) = await cards_of(gpus())
    assert value_of(card.throttle) == names


async def test_what_is_newer_than_the_agent_is_unknown_with_its_number(nvml: StandIn, gpus: Open) -> None:
    host = hosts.cmp170hx(1)
    host["cards"][0] |= {"recovery_action": 12, "architecture": 44}
    nvml.show(host)
    (card,) = await cards_of(gpus())
    assert "12" in card.recovery_action.reason  # type: ignore[union-attr]
    assert "44" in card.architecture.reason  # type: ignore[union-attr]


async def test_a_recovery_action_is_named(nvml: StandIn, gpus: Open) -> None:
    host = hosts.cmp170hx(1)
    host["cards"][0]["recovery_action"] = 2
    nvml.show(host)
    (card,) = await cards_of(gpus())
    assert value_of(card.recovery_action) is RecoveryAction.NODE_REBOOT


async def test_cards_change_under_a_running_source(nvml: StandIn, gpus: Open) -> None:
    host = hosts.cmp170hx(1)
    nvml.show(host)
    source = gpus()
    await source.read()
    host["cards"][0]["memory"]["used"] = 48 * hosts.GIB
    nvml.show(host)
    assert value_of((await cards_of(source))[0].memory_used) == Bytes.gib(48)


async def test_callers_that_come_together_share_one_reading(nvml: StandIn, gpus: Open) -> None:
    nvml.show(hosts.cmp170hx(1))
    source = gpus()
    first, second = await asyncio.gather(source.read(), source.read())
    assert first is second


# ── who computed of late ──────────────────────────────────────────────────────────────────────────────────────────


def shown(*shares: dict[str, Any], **more: Any) -> tuple[hosts.Document, str]:
    """A host with one card where these computed, and the card's UUID."""
    host = hosts.cmp170hx(1)
    host["cards"][0] |= {"shares": list(shares)} | more
    return host, host["cards"][0]["uuid"]


async def shares_of(source: NvmlGpus, uuid: str) -> Any:
    await known(source)
    found = (await source.shares([uuid]))[uuid]
    return found.value if isinstance(found, Known) else found


async def test_who_computed_is_told_of_each_card_that_is_asked_for(nvml: StandIn, gpus: Open) -> None:
    """Of the last ten seconds: who rests since then is not there."""
    host = hosts.cmp170hx(3)
    first, second, third = (card["uuid"] for card in host["cards"])
    host["cards"][0]["shares"] = [{"pid": 7, "sm": 60, "age": 2}, {"pid": 8, "sm": 3}, {"pid": 9, "sm": 90, "age": 60}]
    host["cards"][2]["shares"] = [{"pid": 10, "sm": 100}]
    nvml.show(host)
    source = gpus()
    await known(source)
    found = await source.shares([first, second])
    assert {uuid: value_of(one) for uuid, one in found.items()} == {first: {7: 0.6, 8: 0.03}, second: {}}
    assert value_of((await source.shares([third]))[third]) == {10: 1.0}


@pytest.mark.parametrize(
    ("code", "words"), [(4, "no permission"), (3, "not supported by this card"), (13, "does not know the question")]
)
async def test_who_computed_is_unknown_where_the_driver_does_not_tell(
    nvml: StandIn, gpus: Open, code: int, words: str
) -> None:
    host, uuid = shown(errors={"nvmlDeviceGetProcessUtilization": code})
    nvml.show(host)
    found = await shares_of(gpus(), uuid)
    assert isinstance(found, Unknown)
    assert words in found.reason


async def test_who_computed_is_unknown_on_a_sliced_card(nvml: StandIn, gpus: Open) -> None:
    """Whatever the driver answers there: it is not what a slice did."""
    host = hosts.a100_mig()
    host["cards"][0]["shares"] = [{"pid": 777, "sm": 60}]
    nvml.show(host)
    found = await shares_of(gpus(), host["cards"][0]["uuid"])
    assert isinstance(found, Unknown)
    assert "slices (MIG)" in found.reason


async def test_who_computed_is_unknown_of_a_card_that_is_lost_or_not_there(nvml: StandIn, gpus: Open) -> None:
    nvml.show(hosts.lost_card(2, lost=1))
    source = gpus()
    for uuid in (hosts.cmp170hx(2)["cards"][1]["uuid"], "GPU-of-another-host"):
        assert await shares_of(source, uuid) == Unknown("the card does not answer")


async def test_who_computed_is_asked_of_the_owner_that_there_is(nvml: StandIn, gpus: Open) -> None:
    """Before the first reading there is none, and for this none is started."""
    host, uuid = shown()
    nvml.show(host)
    found = (await gpus().shares([uuid]))[uuid]
    assert found == Unknown("NVML has not been asked yet")


async def test_readings_and_who_computed_are_asked_one_after_the_other(nvml: StandIn, gpus: Open) -> None:
    """At once: each has the answer to its own question."""
    host, uuid = shown({"pid": 7, "sm": 60})
    nvml.show(host)
    source = gpus()
    await known(source)
    for _ in range(5):
        reading, found = await asyncio.gather(source.read(), source.shares([uuid]))
        assert len(value_of(reading) or ()) == 1
        assert value_of(found[uuid]) == {7: 0.6}


@pytest.mark.parametrize("again_s", [0.0, 3600.0])
async def test_a_question_that_hangs_costs_the_readings_little(
    nvml: StandIn, gpus: Open, monkeypatch: pytest.MonkeyPatch, again_s: float
) -> None:
    """No bound is waited for twice, and it is not asked again at once: readings come again where it always hangs."""
    host, uuid = shown({"pid": 7, "sm": 60})
    nvml.show(host)
    monkeypatch.setattr("agent.adapters.nvml.SHARES_AGAIN_S", again_s)
    source = gpus(NvmlBounds(answer_s=2.0, kill_after_s=2.5))
    await known(source)
    nvml.show(host | {"hang": "nvmlDeviceGetProcessUtilization"})
    silent = (await source.shares([uuid]))[uuid]
    assert "has not answered for" in silent.reason  # type: ignore[union-attr]
    began = time.monotonic()
    reading = await source.read()
    assert isinstance(reading, Unknown)
    assert "has not answered for" in reading.reason
    assert time.monotonic() - began < 1.0, "the bound was waited for twice"
    nvml.show(host)
    await asyncio.sleep(0.6)
    await known(source)
    found = (await source.shares([uuid]))[uuid]
    assert (found == silent) if again_s else (value_of(found) == {7: 0.6})


async def test_the_driver_is_told_in_its_parts(nvml: StandIn, gpus: Open, tmp_path: Path) -> None:
    nvml.show(hosts.cmp170hx(1))
    version = tmp_path / "driver/nvidia/version"
    version.parent.mkdir(parents=True)
    version.write_text("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  610.43.02  Release Build  (root@x)\n")
    driver = await gpus(proc=tmp_path).driver()
    assert (value_of(driver.version), value_of(driver.userland)) == ("610.57.04", "610.57.04")
    assert (value_of(driver.kernel_module), value_of(driver.cuda)) == ("610.43.02", "13.3")
    assert value_of(driver.skewed) is True


async def test_without_a_kernel_module_skew_is_unknown_not_false(nvml: StandIn, gpus: Open, tmp_path: Path) -> None:
    nvml.show(hosts.cmp170hx(1))
    driver = await gpus(proc=tmp_path).driver()
    assert isinstance(driver.kernel_module, Unknown)
    assert driver.skewed == driver.kernel_module


async def test_a_host_without_the_library_says_so(gpus: Open, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    source = gpus()
    reading = await source.read()
    if isinstance(reading, Known):
        pytest.skip("this host has the real library")
    assert "no libnvidia-ml.so.1" in reading.reason
    driver = await source.driver()
    assert [type(part) for part in (driver.version, driver.userland, driver.cuda)] == [Unknown, Unknown, Unknown]
    assert source.last() is None


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (9, "kernel module is not loaded"),
        (hosts.VERSION_MISMATCH, "upgraded and the host not rebooted"),
        (4, "permission"),
    ],
)
async def test_nvml_that_does_not_open_says_why_and_is_tried_again(
    nvml: StandIn, gpus: Open, code: int, words: str
) -> None:
    nvml.show(hosts.cmp170hx(1) | {"errors": {"nvmlInitWithFlags": code}})
    source = gpus(SWIFT)
    reading = await source.read()
    assert isinstance(reading, Unknown)
    assert words in reading.reason
    assert value_of((await source.driver()).userland) == "610.57.04"  # known without NVML: this is how skew is seen
    nvml.show(hosts.cmp170hx(1))
    assert len(await cards_of(source)) == 1


async def test_a_failure_is_not_tried_again_at_once(nvml: StandIn, gpus: Open) -> None:
    nvml.show(hosts.cmp170hx(1) | {"errors": {"nvmlInitWithFlags": 9}})
    source = gpus(NvmlBounds(retry_after_s=60))
    first = await source.read()
    nvml.show(hosts.cmp170hx(1))
    assert await source.read() == first


async def test_an_xid_arrives_by_itself_with_its_card(nvml: StandIn, gpus: Open) -> None:
    host = hosts.cmp170hx(2)
    nvml.show(host)
    source = gpus()
    heard: asyncio.Queue[GpuEvent] = asyncio.Queue()
    leave = source.subscribe(heard.put_nowait)
    await source.read()
    host["cards"][1]["error"] = hosts.GPU_IS_LOST  # the card that reports 79 answers nothing any more
    host["events"] = [{"card": 1, "type": hosts.XID_EVENTS, "data": 79}]
    nvml.show(host)
    async with asyncio.timeout(10):
        event = await heard.get()
    assert (event.kind, event.data, event.uuid) == (GpuEventKind.XID, 79, host["cards"][1]["uuid"])
    assert (event.pci, event.instance) == (host["cards"][1]["pci"], "")
    leave()
    host["events"].append({"card": 0, "type": hosts.XID_EVENTS, "data": 31})
    nvml.show(host)
    await source.read()
    assert heard.empty()


async def test_a_listener_that_breaks_costs_the_others_nothing(nvml: StandIn, gpus: Open) -> None:
    host = hosts.cmp170hx(1)
    nvml.show(host)
    source = gpus()
    broken: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: broken.append(context))
    heard: asyncio.Queue[GpuEvent] = asyncio.Queue()

    def breaks(event: GpuEvent) -> None:
        raise ValueError(event.data)

    source.subscribe(breaks)
    source.subscribe(heard.put_nowait)
    await source.read()
    host["events"] = [{"card": 0, "type": hosts.RECOVERY_EVENTS, "data": 2, "gpu_instance": 1, "compute_instance": 0}]
    nvml.show(host)
    async with asyncio.timeout(10):
        event = await heard.get()
    assert (event.kind, event.instance) == (GpuEventKind.RECOVERY_ACTION, "1/0")
    assert isinstance(broken[0]["exception"], ValueError)
    assert len(await cards_of(source)) == 1


async def test_a_card_without_xid_events_says_that_it_is_blind(nvml: StandIn, gpus: Open) -> None:
    host = hosts.cmp170hx(2)
    host["cards"][0]["event_types"] = 0
    del host["cards"][1]["event_types"]
    nvml.show(host)
    for card in await cards_of(gpus()):
        assert isinstance(card.xid_events, Unknown)
        assert card.xid_events.unsupported


def pid_of(source: NvmlGpus) -> int:
    """The owner process, as /proc knows it: a child of this one."""
    own = [
        int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit() and is_owner(entry, os.getpid())
    ]
    assert len(own) == 1, own
    return own[0]


def is_owner(entry: Path, parent: int) -> bool:
    try:
        mine = int((entry / "stat").read_text().rpartition(")")[2].split()[1]) == parent
        return mine and b"agent.adapters.nvml_owner" in (entry / "cmdline").read_bytes()
    except OSError:
        return False


async def test_a_call_that_hangs_costs_its_bound_once_and_the_loop_goes_on(nvml: StandIn, gpus: Open) -> None:
    host = hosts.cmp170hx(1)
    nvml.show(host)
    bound = 2.0  # the first answer comes with the start of its owner, which a busy machine takes half a second for
    source = gpus(NvmlBounds(answer_s=bound))
    good = await known(source)
    nvml.show(host | {"hang": True})
    longest = 0.0
    reading = asyncio.create_task(source.read())
    while not reading.done():
        tick = time.monotonic()
        await asyncio.sleep(0.01)
        longest = max(longest, time.monotonic() - tick)
    assert isinstance(reading.result(), Unknown)
    assert "has not answered for" in reading.result().reason  # type: ignore[union-attr]
    assert longest < bound / 2, "the loop stood still"
    began = time.monotonic()
    assert isinstance(await source.read(), Unknown)
    assert time.monotonic() - began < bound / 2, "the bound was waited for twice"
    assert source.last() is good


async def test_an_owner_that_hangs_is_replaced_and_readings_come_again(nvml: StandIn, gpus: Open) -> None:
    host = hosts.cmp170hx(1)
    nvml.show(host | {"hang": "nvmlDeviceGetPowerUsage"})
    source = gpus(NvmlBounds(answer_s=2.0, open_s=0.0, kill_after_s=0.1))
    assert isinstance(await source.read(), Unknown)
    hung = pid_of(source)
    nvml.show(host)  # the call that hangs stays where it is
    await asyncio.sleep(0.15)
    assert len((await known(source)).value) == 1
    assert pid_of(source) != hung


async def test_cards_that_take_long_to_initialise_are_waited_for_once(nvml: StandIn, gpus: Open) -> None:
    """Without persistence mode the driver takes a second or more a card, for the first question alone."""
    nvml.show(hosts.cmp170hx(8) | {"open_s": 4.0})
    source = gpus(NvmlBounds(answer_s=1.0, open_s=60.0))
    assert len(await cards_of(source)) == 8


async def test_a_driver_that_hangs_while_it_is_opened_is_not_waited_for_so_long_again(
    nvml: StandIn, gpus: Open
) -> None:
    """Each look of each deployment would wait for it."""
    nvml.show(hosts.cmp170hx(1) | {"hang": True})
    source = gpus(NvmlBounds(answer_s=0.5, open_s=12.0, kill_after_s=0.1))
    assert isinstance(await source.read(), Unknown)
    hung = pid_of(source)
    await asyncio.sleep(0.15)
    began = time.monotonic()
    assert isinstance(await source.read(), Unknown)
    assert pid_of(source) != hung
    assert time.monotonic() - began < 12.0


async def test_an_owner_that_dies_says_how_and_is_replaced(nvml: StandIn, gpus: Open) -> None:
    nvml.show(hosts.cmp170hx(1))
    source = gpus(SWIFT)
    await source.read()
    os.kill(pid_of(source), signal.SIGSEGV)
    reading = await source.read()
    assert reading == Unknown("NVML's own process was killed by SIGSEGV")
    assert len(await cards_of(source)) == 1


async def test_an_owner_that_breaks_says_its_last_words(
    nvml: StandIn, gpus: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvml.show(hosts.cmp170hx(1))
    monkeypatch.setenv("PYTHONHOME", "/nonexistent")
    reading = await gpus().read()
    assert isinstance(reading, Unknown)
    assert "ended with status 1: " in reading.reason


async def test_signals_to_the_group_do_not_end_the_owner_before_the_agent(nvml: StandIn, gpus: Open) -> None:
    nvml.show(hosts.cmp170hx(1))
    source = gpus(SWIFT)
    await known(source)
    owner = pid_of(source)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(owner, number)
    assert len(await cards_of(source)) == 1
    assert pid_of(source) == owner


@pytest.mark.parametrize("hang", [False, True])
async def test_closing_leaves_no_process_and_does_not_wait_for_a_hung_call(nvml: StandIn, hang: bool) -> None:
    host = hosts.cmp170hx(1)
    nvml.show(host)
    source = NvmlGpus(SystemClock(), NvmlBounds(answer_s=30))
    await source.read()
    owner = pid_of(source)
    nvml.show(host | {"hang": hang})
    under_way = asyncio.create_task(source.read())
    await asyncio.sleep(0.05)
    began = time.monotonic()
    await source.close()
    assert time.monotonic() - began < 10, "the call that hangs was waited for, for 30 s"
    assert not Path(f"/proc/{owner}").exists()
    assert isinstance(await under_way, Known | Unknown)
    assert isinstance(await source.read(), Unknown)


PROGRAM = """
import asyncio, sys
from agent.adapters.nvml import NvmlBounds, NvmlGpus
from agent.clock import SystemClock

async def main():
    source = NvmlGpus(SystemClock(), NvmlBounds(answer_s=0.5, open_s=0.0))
    print(type(await source.read()).__name__, flush=True)

asyncio.run(main())
"""


def test_a_program_that_never_closes_ends_all_the_same_while_nvml_hangs(nvml: StandIn) -> None:
    nvml.show(hosts.cmp170hx(1) | {"hang": True})
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=20, cwd=Path(__file__).parents[2]
    )
    assert (done.returncode, done.stdout) == (0, "Unknown\n"), done.stderr
    assert time.monotonic() - began < 10


async def test_nothing_here_blocks_the_loop(nvml: StandIn) -> None:
    nvml.show(hosts.cmp170hx(4))
    with blockbuster_ctx():
        source = NvmlGpus(SystemClock())
        assert isinstance(await source.read(), Known)
        assert isinstance((await source.driver()).version, Known)
        await source.close()


async def test_an_owner_that_cannot_be_killed_is_left_behind_and_no_other_is_started(
    nvml: StandIn, gpus: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvml.show(hosts.cmp170hx(1))
    source = gpus(NvmlBounds(answer_s=2.0, kill_after_s=0.1, end_s=0.1))
    await known(source)
    stuck = pid_of(source)
    stop(stuck)
    with monkeypatch.context() as patch:
        patch.setattr(subprocess.Popen, "kill", lambda process: None)  # as in state D: the signal stays pending
        assert isinstance(await source.read(), Unknown)
        await asyncio.sleep(0.15)
        reading = await source.read()
    assert isinstance(reading, Unknown)
    assert f"process {stuck} cannot be killed" in reading.reason
    assert pid_of(source) == stuck
    os.kill(stuck, signal.SIGCONT)
    await known(source)
    assert pid_of(source) != stuck


async def test_events_that_cannot_be_waited_for_are_said_to_be_blind(nvml: StandIn, gpus: Open) -> None:
    nvml.show(hosts.cmp170hx(1) | {"errors": {"nvmlEventSetWait_v2": hosts.UNKNOWN_ERROR}})
    source = gpus()
    async with asyncio.timeout(10):
        while isinstance((await cards_of(source))[0].xid_events, Known):
            await asyncio.sleep(0.02)
    assert (await cards_of(source))[0].xid_events == Unknown("waiting for events fails: NVML: Unknown Error")


async def test_an_owner_of_another_version_is_named_not_raised(
    nvml: StandIn, gpus: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvml.show(hosts.cmp170hx(1))
    monkeypatch.setattr("agent.adapters.nvml_wire.READINGS", (*READINGS, "a_field_of_tomorrow"))
    reading = await gpus().read()
    assert isinstance(reading, Unknown)
    assert "restart the agent" in reading.reason
