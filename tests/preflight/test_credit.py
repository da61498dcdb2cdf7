"""What a running deployment holds itself."""

from __future__ import annotations

import pytest

from agent.host.reading import Unknown
from agent.preflight.checks import gpu_busy, memory_available
from agent.preflight.credit import Running, credit_for
from agent.preflight.facts import MemoryUser
from agent.preflight.model import Level
from agent.quantity import Bytes
from tests.preflight.build import FOREIGN, WITH_GPUS, FakeFacts, card, case, known, memory, need, on_card

OURS = "0" * 64
GIB = Bytes.gib
WORKERS = tuple(MemoryUser(pid, "VLLM::Worker", GIB(50), Bytes(0), OURS, shared=GIB(40)) for pid in (10, 11))
ELSE = MemoryUser(99, "postgres", GIB(5), Bytes(0), FOREIGN)
RUNNING = Running(OURS, "tiny", ports=frozenset({8095}))


async def test_processes_are_found_by_their_container() -> None:
    credit = await credit_for(FakeFacts(users=known((*WORKERS, ELSE))), RUNNING)
    assert (credit.container, credit.name, credit.ports) == (OURS, "tiny", {8095})
    assert credit.pids == {10, 11}


async def test_shared_memory_counts_once() -> None:
    credit = await credit_for(FakeFacts(users=known((*WORKERS, ELSE))), RUNNING)
    assert credit.host_memory == GIB(10 + 10 + 40)


async def test_the_cgroup_knows_better() -> None:
    credit = await credit_for(FakeFacts(users=known(WORKERS), cgroup=known(GIB(63))), RUNNING)
    assert credit.host_memory == GIB(63)


@pytest.mark.parametrize(("also", "expect"), [((), GIB(64)), ((on_card(99, GIB(1)),), GIB(20))])
async def test_card_memory_is_its_own_where_it_is_alone(also: tuple[object, ...], expect: Bytes) -> None:
    read = card(0, memory_used=GIB(64), processes=(on_card(10, GIB(20)), *also))
    credit = await credit_for(FakeFacts(users=known(WORKERS), cards=known((read, card(1)))), RUNNING)
    assert credit.gpu_memory == {"GPU-0": expect}


@pytest.mark.parametrize(("stranger", "expect"), [(False, GIB(189)), (True, Bytes(0))])
async def test_memory_that_a_driver_pinned_is_its_own_only_where_it_is_alone(stranger: bool, expect: Bytes) -> None:
    others = (on_card(99),) if stranger else ()
    facts = FakeFacts(
        users=known(WORKERS),
        cards=known((card(0, processes=(on_card(10), *others)),)),
        held=known(GIB(189)),
        cgroup=known(Bytes(0)),
    )
    assert (await credit_for(facts, RUNNING)).host_memory == expect


async def test_a_host_that_tells_nothing_credits_nothing() -> None:
    dark = Unknown("hangs")
    credit = await credit_for(FakeFacts(users=dark, cards=dark, held=dark), RUNNING)
    assert (credit.host_memory, dict(credit.gpu_memory), credit.pids) == (0, {}, frozenset())


async def test_its_successor_passes_and_a_strangers_would_not() -> None:
    """The whole way: an engine that fills cards and RAM is replaced by its next version."""
    full = tuple(card(index, memory_used=GIB(62), processes=(on_card(10, GIB(60)),)) for index in range(4))
    facts = FakeFacts(
        users=known(WORKERS), cards=known(full), ram=known(memory(GIB(400), GIB(20))), cgroup=known(GIB(190))
    )
    credit = await credit_for(facts, RUNNING)
    for check in (gpu_busy, memory_available):
        wants = need("memory.available", GIB(200))
        assert (await check.look(case(facts, wants, host=WITH_GPUS, credit=credit))).level is Level.PASS
        assert (await check.look(case(facts, wants, host=WITH_GPUS))).level is Level.FAIL
