"""What a container held must be free before the next start, and what it never held does not count."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from agent.action.record import Deployment, Held
from agent.action.release import Proof, memory_held, prove
from agent.action.seen import Release
from agent.clock import Instant
from agent.host.model import HostMemory
from agent.host.process import Listener
from agent.host.reading import Known, Unknown
from agent.quantity import Bytes
from tests.action.test_decide import fresh
from tests.action.world import World, fault, healthy
from tests.plan.build import plan

NOW = Instant(1.0, 1.0)


class Taken:
    """Every port is listened on by process 77; no name is taken."""

    async def listeners(self, port: int) -> Known[tuple[Listener, ...]]:
        return Known((Listener("127.0.0.1", port, 5, Known(77, NOW)),), NOW)

    async def name_holder(self, name: str) -> None:
        return None


@pytest.mark.parametrize(
    ("port_failures", "ready_at", "proven"),
    [(0, None, False), (1, None, True), (3, None, True), (1, 5.0, False)],
    ids=["another crash", "a taken port", "given up for it", "it served since"],
)
async def test_a_port_that_it_never_got_is_not_held_by_it(
    port_failures: int, ready_at: float | None, proven: bool
) -> None:
    """Whatever the take-down is for: the next try, a removal by a person."""
    taken = Taken()
    proof = Proof(taken, taken, SimpleNamespace(), SimpleNamespace(), SimpleNamespace())  # type: ignore[arg-type]
    record = Deployment("small", "p", port_failures=port_failures, ready_at=ready_at)
    release = await prove(proof, plan(), record)
    assert release.proven is proven
    assert proven or "pid 77" in release.held[0]


def memory(available: float, anonymous: float = 10, shared: float = 1, total: float = 512) -> HostMemory:
    none = Unknown("not read")
    return HostMemory(
        total=Known(Bytes.gib(total), NOW), available=Known(Bytes.gib(available), NOW), swap_total=none, swap_free=none,
        locked=none, shared=Known(Bytes.gib(shared), NOW), hugepages=none, oom_kills=none,
        anonymous=Known(Bytes.gib(anonymous), NOW),
    )  # fmt: skip


BEFORE = Held(host=int(Bytes.gib(400)), anonymous=int(Bytes.gib(10)), shared=int(Bytes.gib(1)))


@pytest.mark.parametrize(
    ("now", "need", "field"),
    [
        (memory(400), 0, None),
        (memory(380), 0, None),
        (memory(200), 0, "late"),
        (memory(200), 250, "held"),
        (memory(200, anonymous=200), 0, "unknown"),
        (memory(200, shared=195), 250, "unknown"),
        (memory(200, anonymous=60), 250, "held"),
    ],
    ids=["back", "within the tolerance", "waited for", "too little for the plan", "others took it", "tmpfs took it",
         "others took a part"],
)  # fmt: skip
def test_host_memory_is_held_against_what_was_there_before(now: HostMemory, need: float, field: str | None) -> None:
    release = memory_held(now, BEFORE, int(Bytes.gib(need)))
    told = {name for name in ("held", "late", "unknown") if getattr(release, name)}
    assert told == ({field} if field else set())


def test_what_is_waited_for_does_not_block_in_the_end() -> None:
    """A start may go well without it; it is said that it is not back."""
    world = World(
        lambda generation: fault() if generation == 1 else healthy(), release=Release(late=("host memory: low",))
    )
    record = world.run(fresh(), 60)
    assert record.generation == 2
    waits = [step for step in world.steps if "waits for the release" in step.why]
    assert waits
    assert any("not back: host memory: low" in step.why for step in world.steps)
