"""The checks of the cards on six hosts, each as the real NVML code reads it from the stand-in library."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from agent.adapters.nvml import NvmlGpus
from agent.clock import SystemClock
from agent.preflight.case import Case
from agent.preflight.model import Level
from agent.preflight.run import only, run
from agent.quantity import Bytes
from tests.lab.nvml import hosts
from tests.lab.nvml.standin import StandIn
from tests.preflight.build import WITH_GPUS, FakeFacts, known, memory, need, plan, process

PP4 = (
    need("gpu.count", 4),
    need("gpu.model", "cmp-170hx"),
    need("gpu.memory", Bytes.gb(64)),
    need("gpu.architecture", "8.0"),
    need("gpu.busy", Bytes.mib(2000)),
    need("driver.version", "610.57.04"),
)
SPARK = (
    need("gpu.count", 1),
    need("gpu.memory", Bytes.gb(128)),
    need("gpu.architecture", "12.1"),
    need("driver.version", "580.142"),
)
CARDS = only({"gpu.present", *(one.id for one in PP4), "gpu.health"})


class ShownHost(FakeFacts):
    """A fake host with the cards and the driver that NVML shows."""

    def __init__(self, source: NvmlGpus) -> None:
        super().__init__(ram=known(memory(Bytes.gib(121), Bytes.gib(100))))
        self.gpus, self.driver = source.read, source.driver  # type: ignore[method-assign]
        self.processes = {pid: process(pid, "other", "other --serve") for pid in (777, 4121)}


@pytest.fixture
async def shown(nvml: StandIn) -> AsyncIterator[ShownHost]:
    """Its library is found when the first reading starts NVML's own process."""
    source = NvmlGpus(SystemClock())
    yield ShownHost(source)
    await source.close()


NO_TROUBLE: dict[str, Level] = {}
HOSTS: list[tuple[str, Any, Any, tuple[str, ...], dict[str, Level]]] = [
    ("four CMP 170HX", hosts.cmp170hx(4), PP4, (), NO_TROUBLE),
    ("six CMP 170HX", hosts.cmp170hx(6), PP4, (), NO_TROUBLE),
    (
        "four RTX PRO 6000",
        hosts.rtx_pro_6000(4),
        PP4,
        (),
        {"gpu.model": Level.WARN, "gpu.architecture": Level.FAIL},
    ),
    ("one GB10", hosts.gb10(), SPARK, (), {"gpu.busy": Level.FAIL}),
    (
        "a sliced A100",
        hosts.a100_mig(),
        PP4,
        (),
        {
            "gpu.count": Level.FAIL,
            "gpu.model": Level.WARN,
            "gpu.busy": Level.FAIL,
            "gpu.health": Level.FAIL,
            "driver.version": Level.FAIL,
        },
    ),
    (
        "a card lost",
        hosts.lost_card(4, lost=2),
        PP4,
        (),
        {
            "gpu.present": Level.FAIL,
            "gpu.count": Level.FAIL,
            "gpu.memory": Level.UNKNOWN,
            "gpu.architecture": Level.UNKNOWN,
            "gpu.busy": Level.UNKNOWN,
        },
    ),
    ("a card lost that was not chosen", hosts.lost_card(6, lost=5), PP4, ("first four",), NO_TROUBLE),
]


@pytest.mark.parametrize(
    ("document", "requirements", "chosen", "troubles"), [row[1:] for row in HOSTS], ids=[row[0] for row in HOSTS]
)
async def test_what_each_host_is_told(
    nvml: StandIn, shown: ShownHost, document: Any, requirements: Any, chosen: Any, troubles: dict[str, Level]
) -> None:
    nvml.show(document)
    gpus = tuple(card["uuid"] for card in document["cards"][:4]) if chosen else ()
    findings = await run(Case(plan(*requirements, host=WITH_GPUS, gpus=gpus), shown), CARDS)
    assert {one.check: one.level for one in findings if one.level is not Level.PASS} == troubles, findings


async def test_the_process_in_the_way_is_named(nvml: StandIn, shown: ShownHost) -> None:
    nvml.show(hosts.gb10())
    findings = {one.check: one for one in await run(Case(plan(*SPARK, host=WITH_GPUS), shown), CARDS)}
    assert "30 GiB in use, by pid 4121 (other) on card 0, 30 GiB: other --serve" in findings["gpu.busy"].found
    assert "kill 4121" in findings["gpu.busy"].hint


async def test_the_reserve_of_the_driver_is_not_in_use(nvml: StandIn, shown: ShownHost) -> None:
    """Four idle cards reserve 2,460 MiB together: counted as used, they would fail the author's own guard."""
    document = hosts.cmp170hx(4)
    assert sum(card["memory"]["reserved"] for card in document["cards"]) > Bytes.mib(2000)
    nvml.show(document)
    findings = await run(Case(plan(*PP4, host=WITH_GPUS), shown), only({"gpu.busy"}))
    assert findings[0].found == "0 B in use"


async def test_a_host_without_a_driver_refuses_and_says_where_to_look(shown: ShownHost) -> None:
    """The stand-in shows nothing before it is told to: NVML cannot be opened."""
    findings = await run(Case(plan(*PP4, host=WITH_GPUS), shown), CARDS)
    advice_only = {"gpu.model", "driver.version"}
    assert {one.check for one in findings if one.refuses} >= {one.id for one in CARDS} - advice_only
    assert "nvidia-smi -L" in findings[0].hint
