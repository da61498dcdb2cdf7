"""What a container held must be free before the next start, and what it never held does not count."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from agent.action.record import Deployment, Fault
from agent.action.release import Proof, prove
from agent.clock import Instant
from agent.host.process import Listener
from agent.host.reading import Known
from agent.verdict.model import Remedy
from tests.plan.build import plan

NOW = Instant(1.0, 1.0)


class Taken:
    """Every port is listened on by process 77; no name is taken."""

    async def listeners(self, port: int) -> Known[tuple[Listener, ...]]:
        return Known((Listener("127.0.0.1", port, 5, Known(77, NOW)),), NOW)

    async def name_holder(self, name: str) -> None:
        return None


def failed(failure: str | None) -> Deployment:
    fault = Fault("exit", "exited", Remedy.RESTART, 1.0, failure=failure)
    return Deployment("small", "p", fault=fault if failure else None)


@pytest.mark.parametrize(
    ("failure", "proven"), [(None, False), ("cuda_fault", False), ("port", True)], ids=["no fault", "a crash", "port"]
)
async def test_a_port_that_it_never_got_is_not_held_by_it(failure: str | None, proven: bool) -> None:
    taken = Taken()
    proof = Proof(taken, taken, SimpleNamespace(), SimpleNamespace())  # type: ignore[arg-type]
    release = await prove(proof, plan(), failed(failure))
    assert release.proven is proven
    assert proven or "pid 77" in release.held[0]
