"""Cards: there, enough, of the right kind, free and well."""

from __future__ import annotations

from typing import Any

import pytest

from agent.host.gpu import (
    ComputeCapability,
    ComputeMode,
    Gpu,
    Mig,
    MigInstance,
    RecoveryAction,
    RemappedRows,
)
from agent.host.reading import Unknown
from agent.preflight.case import Credit
from agent.preflight.checks import (
    gpu_architecture,
    gpu_busy,
    gpu_count,
    gpu_health,
    gpu_memory,
    gpu_model,
    gpu_present,
)
from agent.preflight.facts import Neighbour
from agent.preflight.model import Level
from agent.quantity import Bytes
from tests.preflight.build import (
    FOREIGN,
    HANGS,
    WITH_GPUS,
    FakeFacts,
    as_reading,
    card,
    cards,
    case,
    known,
    memory,
    need,
    on_card,
    process,
)

PASS, WARN, FAIL, UNKNOWN = Level.PASS, Level.WARN, Level.FAIL, Level.UNKNOWN
SLICE = MigInstance("MIG-a", 1, 0, known(Bytes.gib(20)), known(Bytes(0)))
SLICED = Mig(enabled=True, pending=True, instances=(SLICE,))


def on(read: Any, *requirements: Any, **more: Any) -> Any:
    return case(FakeFacts(cards=as_reading(read)), *requirements, host=WITH_GPUS, **more)


@pytest.mark.parametrize(
    ("read", "gpus", "level", "says"),
    [
        (cards(4), (), PASS, "4 × NVIDIA CMP 170HX"),
        ((), (), FAIL, "lists no card"),
        (HANGS, (), UNKNOWN, "no answer within 2 s"),
        (Unknown("no driver here", unsupported=True), (), FAIL, "no driver here"),
        (cards(2), ("GPU-7",), FAIL, "GPU-7 is not there"),
        ((*cards(1), card(1, lost="fell off the bus")), (), FAIL, "card 1 (0000:01:00.0) does not answer: fell off"),
        ((*cards(1), card(1, lost="fell off the bus")), ("GPU-0",), PASS, "NVIDIA"),
        ((card(0, mig=SLICED),), ("MIG-a",), PASS, "1 × "),
    ],
)
async def test_present(read: Any, gpus: tuple[str, ...], level: Level, says: str) -> None:
    answer = await gpu_present.look(on(read, gpus=gpus))
    assert answer.level is level
    assert says in answer.found


@pytest.mark.parametrize(
    ("read", "wanted", "gpus", "level"),
    [
        (cards(4), 4, (), PASS),
        (cards(6), 4, (), PASS),
        (cards(3), 4, (), FAIL),
        ((*cards(3), card(3, lost="off the bus")), 4, (), FAIL),
        (cards(6), 4, ("GPU-0", "GPU-1"), FAIL),
        ((), 1, (), FAIL),
        (HANGS, 4, (), UNKNOWN),
    ],
)
async def test_count(read: Any, wanted: int, gpus: tuple[str, ...], level: Level) -> None:
    answer = await gpu_count.look(on(read, need("gpu.count", wanted), gpus=gpus))
    assert (answer.level, answer.need) == (level, str(wanted))


@pytest.mark.parametrize(
    ("wanted", "name", "level"),
    [
        ("cmp-170hx", "NVIDIA CMP 170HX", PASS),
        ("rtx-pro-6000", "NVIDIA RTX PRO 6000 Blackwell Workstation Edition", PASS),
        ("nvidia-h200", "NVIDIA H200", PASS),
        ("a100", "NVIDIA A100-SXM4-80GB", PASS),
        ("a100-80gb", "NVIDIA A100-SXM4-80GB", PASS),
        ("rtx4090", "NVIDIA GeForce RTX 4090", PASS),
        ("rtx-3080ti", "NVIDIA GeForce RTX 3080 Ti", PASS),
        ("a100", "NVIDIA CMP 170HX", WARN),
        ("a10", "NVIDIA A100-SXM4-80GB", WARN),
        ("l40", "NVIDIA L40S", WARN),
        ("rtx-4090", "NVIDIA GeForce RTX 4090 Laptop GPU", WARN),
        ("rtx-4090", "NVIDIA GeForce RTX 4090 D", WARN),
        ("rtx-4070-ti", "NVIDIA GeForce RTX 4070", WARN),
        ("rtx-4070", "NVIDIA GeForce RTX 4070 Ti SUPER", WARN),
        ("h200", "", UNKNOWN),
    ],
)
async def test_an_unlike_name_is_a_warning(wanted: str, name: str, level: Level) -> None:
    answer = await gpu_model.look(on(cards(2, name=name), need("gpu.model", wanted)))
    assert answer.level is level


@pytest.mark.parametrize(
    ("size", "level"),
    [
        (Bytes.mib(65_536), PASS),
        (Bytes.mib(62_300), PASS),  # a nominal 64 GB, 5 % tolerated
        (Bytes.mib(62_200), FAIL),
        (Bytes.gib(40), FAIL),
        (Unknown("not supported"), UNKNOWN),
    ],
)
async def test_memory_is_nominal(size: Any, level: Level) -> None:
    answer = await gpu_memory.look(on((card(0), card(1, memory_total=size)), need("gpu.memory", Bytes.gib(64))))
    assert answer.level is level


async def test_a_small_card_is_named() -> None:
    read = (card(0), card(1, memory_total=Bytes.gib(40), name="NVIDIA A100"))
    answer = await gpu_memory.look(on(read, need("gpu.memory", Bytes.gib(64))))
    assert answer.found == "card 1 (NVIDIA A100): 40 GiB"


@pytest.mark.parametrize(("ram", "level"), [(Bytes.gib(122), PASS), (Bytes.gib(60), FAIL)])
async def test_a_card_without_own_memory_has_the_hosts(ram: Bytes, level: Level) -> None:
    unified = card(0, unified_memory=True, memory_total=Unknown("not supported", unsupported=True))
    facts = FakeFacts(cards=known((unified,)), ram=known(memory(ram, ram)))
    answer = await gpu_memory.look(case(facts, need("gpu.memory", Bytes.gib(128)), host=WITH_GPUS))
    assert answer.level is level


async def test_a_chosen_slice_has_its_own_memory() -> None:
    answer = await gpu_memory.look(on((card(0, mig=SLICED),), need("gpu.memory", Bytes.gib(64)), gpus=("MIG-a",)))
    assert answer.level is FAIL
    assert "20 GiB" in answer.found


@pytest.mark.parametrize(
    ("wanted", "capability", "level"),
    [
        ("sm_80", (8, 0), PASS),
        ("sm_80", (8, 6), PASS),  # device code runs on later minor versions
        ("sm_86", (8, 0), FAIL),
        ("sm_80", (9, 0), FAIL),
        ("8.0", (8, 0), PASS),
        ("8.0 9.0+PTX", (12, 0), PASS),
        ("8.0;8.6", (8, 9), PASS),
        ("sm_120", (12, 1), PASS),
        ("sm_121a", (12, 1), PASS),
        ("ampere", (8, 0), PASS),
        ("hopper", (8, 0), FAIL),
    ],
)
async def test_architecture(wanted: str, capability: tuple[int, int], level: Level) -> None:
    read = (card(0, compute_capability=ComputeCapability(*capability), architecture="ampere"),)
    answer = await gpu_architecture.look(on(read, need("gpu.architecture", wanted)))
    assert answer.level is level


async def test_an_unread_architecture_is_unknown() -> None:
    read = (card(0, compute_capability=Unknown("hangs")),)
    assert (await gpu_architecture.look(on(read, need("gpu.architecture", "sm_80")))).level is UNKNOWN


@pytest.mark.parametrize(
    ("used", "level"),
    [
        ((0, 0, 0, 0), PASS),
        ((499, 500, 500, 500), PASS),
        ((500, 500, 500, 500), FAIL),  # each small, but 2,000 MiB together
        ((2000, 0, 0, 0), FAIL),
    ],
)
async def test_use_counts_over_all_chosen_cards(used: tuple[int, ...], level: Level) -> None:
    read = tuple(card(index, memory_used=Bytes.mib(size)) for index, size in enumerate(used))
    assert (await gpu_busy.look(on(read, need("gpu.busy", Bytes.mib(2000))))).level is level


async def test_cards_that_were_not_chosen_may_be_busy() -> None:
    read = (card(0), card(1, memory_used=Bytes.gib(60)))
    assert (await gpu_busy.look(on(read, need("gpu.busy", Bytes.mib(2000)), gpus=("GPU-0",)))).level is PASS


async def test_who_is_in_the_way_is_named() -> None:
    facts = FakeFacts(
        cards=known(cards(2, memory_used=Bytes.gib(30), processes=(on_card(4121, Bytes.gib(30)),))),
        processes={4121: process(4121, "llama-server", "llama-server -m big.gguf", FOREIGN)},
        around=known((Neighbour(FOREIGN, "old-chat", True),)),
    )
    answer = await gpu_busy.look(case(facts, host=WITH_GPUS))
    assert answer.level is FAIL
    assert (
        "pid 4121 (llama-server) in container old-chat on card 0, 1, 60 GiB: llama-server -m big.gguf" in answer.found
    )
    assert "docker stop old-chat" in answer.hint
    assert answer.details["holders"][0]["container_id"] == FOREIGN


async def test_a_process_that_cannot_be_killed_wants_a_reboot() -> None:
    facts = FakeFacts(
        cards=known(cards(1, memory_used=Bytes.gib(30), processes=(on_card(9),))),
        processes={9: process(9, "VLLM::Worker", state="D")},
    )
    assert "reboot the host" in (await gpu_busy.look(case(facts, host=WITH_GPUS))).hint


async def test_memory_that_nobody_holds_says_where_to_look() -> None:
    answer = await gpu_busy.look(on(cards(1, memory_used=Bytes.gib(30))))
    assert "nobody whom the driver names" in answer.found
    assert "fuser" in answer.hint


async def test_the_running_deployment_counts_nothing() -> None:
    read = cards(4, memory_used=Bytes.gib(60), processes=(on_card(10, Bytes.gib(60)),))
    credit = Credit(pids=frozenset({10}), gpu_memory={f"GPU-{index}": Bytes.gib(60) for index in range(4)})
    assert (await gpu_busy.look(on(read, credit=credit))).level is PASS
    partly = Credit(pids=frozenset({10}), gpu_memory={"GPU-0": Bytes.gib(60)})
    assert (await gpu_busy.look(on(read, credit=partly))).level is FAIL


async def test_a_small_foreign_process_is_a_warning() -> None:
    read = cards(1, memory_used=Bytes.mib(300), processes=(on_card(11, Bytes.mib(300)),))
    assert (await gpu_busy.look(on(read))).level is WARN
    desktop = cards(1, memory_used=Bytes.mib(300), processes=(on_card(11, Bytes.mib(300), "graphics"),))
    assert (await gpu_busy.look(on(desktop))).level is PASS


@pytest.mark.parametrize(
    ("processes", "level"),
    [((), PASS), ((on_card(3, Bytes.gib(9)),), FAIL), (Unknown("not supported"), UNKNOWN)],
)
async def test_with_unified_memory_processes_tell(processes: Any, level: Level) -> None:
    read = (card(0, unified_memory=True, memory_used=Unknown("not supported"), processes=processes),)
    assert (await gpu_busy.look(on(read))).level is level


async def test_an_unread_use_is_unknown() -> None:
    read = (card(0), card(1, memory_used=HANGS))
    answer = await gpu_busy.look(on(read))
    assert (answer.level, answer.found) == (UNKNOWN, "card 1: no answer within 2 s")


@pytest.mark.parametrize(
    ("readings", "level", "says"),
    [
        ({}, PASS, "1 without complaint"),
        ({"recovery_action": RecoveryAction.GPU_RESET}, FAIL, "asks for a gpu reset"),
        ({"recovery_action": RecoveryAction.NODE_REBOOT}, FAIL, "asks for a node reboot"),
        ({"remapped_rows": RemappedRows(0, 1, True, False)}, FAIL, "waits to be replaced"),
        ({"remapped_rows": RemappedRows(0, 1, False, True)}, FAIL, "could not be replaced"),
        ({"remapped_rows": RemappedRows(3, 1, False, False)}, PASS, ""),
        ({"mig": SLICED}, FAIL, "is sliced (MIG, 1 instances)"),
        ({"mig": Mig(False, True)}, WARN, "after its next reset"),
        ({"compute_mode": ComputeMode.PROHIBITED}, FAIL, "prohibited"),
        ({"compute_mode": ComputeMode.EXCLUSIVE_PROCESS}, WARN, "lets one process in"),
        ({"ecc_uncorrected": 3}, WARN, "3 uncorrected"),
        ({"persistence": False}, WARN, "persistence mode is off"),
        ({"lost": "off the bus"}, UNKNOWN, "no card that answers"),
    ],
)
async def test_health(readings: dict[str, Any], level: Level, says: str) -> None:
    answer = await gpu_health.look(on((card(0, **readings),)))
    assert answer.level is level
    assert says in answer.found
    assert answer.hint or level in (PASS, UNKNOWN) or "reset" in says


async def test_a_slice_that_was_chosen_is_fine() -> None:
    assert (await gpu_health.look(on((card(0, mig=SLICED),), gpus=("MIG-a",)))).level is PASS


@pytest.mark.parametrize(("widths", "level"), [((4, 4, 4, 4), PASS), ((16, 16), PASS), ((4, 4, 1, 4), WARN)])
async def test_a_link_narrower_than_its_sisters_is_named(widths: tuple[int, ...], level: Level) -> None:
    read = tuple(card(index, pcie_width_max=width) for index, width in enumerate(widths))
    answer = await gpu_health.look(on(read))
    assert answer.level is level
    assert level is PASS or "card 2: PCIe x1" in answer.found


@pytest.mark.parametrize(
    "check", [gpu_present, gpu_count, gpu_memory, gpu_architecture, gpu_busy, gpu_health, gpu_model]
)
async def test_a_driver_that_hangs_is_unknown_everywhere(check: Any) -> None:
    requirements = (need("gpu.memory", Bytes.gib(64)), need("gpu.architecture", "sm_80"), need("gpu.model", "a100"))
    assert (await check.look(on(HANGS, *requirements))).level is UNKNOWN


def test_a_launch_without_cards_asks_nothing_of_them() -> None:
    checks = (gpu_present, gpu_count, gpu_busy, gpu_health)
    assert not any(check.CHECK.applies(case()) for check in checks)
    assert all(check.CHECK.applies(case(host=WITH_GPUS)) for check in checks)


def test_a_lost_card_has_an_identity() -> None:
    """Guards the builder: a lost card keeps its index, so that sentences can name it."""
    lost: Gpu = card(3, lost="x")
    assert (lost.index, lost.lost) == (3, "x")
