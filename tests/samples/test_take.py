"""What one look makes of the processes that it saw."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from agent.clock import Instant
from agent.engines.model import EngineKind, EngineLaunch
from agent.host.gpu import Gpu, Mig, MigInstance, RecoveryAction
from agent.host.port import GpuSource
from agent.host.process import PortConnections, Process
from agent.host.reading import Known, Reading, Unknown, value_of
from agent.quantity import Bytes
from agent.samples.model import Connections, GpuSample
from agent.samples.take import Sources, Subject, activity_of, count_connections, read_gpus
from tests.plan.build import card

NOW = Instant(1.0, 1.0)
NOT_READ = Unknown("not read")


def process(
    pid: int, io_bytes: Reading[int], name: str = "engine", state: str = "S", own: Reading[int] = NOT_READ
) -> Process:
    return Process(
        pid=pid,
        ppid=1,
        state=state,
        start_ticks=1,
        name=name,
        cmdline=(),
        cpu_seconds=1.5,
        threads=1,
        uid=Unknown("not read"),
        cgroup=Unknown("not read"),
        container=None,
        io_bytes=io_bytes,
        own_bytes=own,
    )


@pytest.mark.parametrize(
    ("bytes_of", "together"),
    [
        ((Known(10, NOW), Known(5, NOW)), 15.0),
        ((Known(10, NOW), Unknown("it has ended")), 10.0),
        ((Unknown("no right"), Unknown("no right")), None),
        ((), None),
    ],
    ids=["all", "one has ended", "no right", "no process"],
)
def test_storage_traffic_is_that_of_all_processes_that_may_be_looked_into(bytes_of, together):
    tree = tuple(process(pid, reading) for pid, reading in enumerate(bytes_of))
    assert activity_of(tree).io_bytes == together


@pytest.mark.parametrize(
    ("own", "together"),
    [
        ((Known(10, NOW), Known(5, NOW)), 15),
        ((Known(10, NOW), Unknown("it has ended")), None),
        ((), None),
    ],
    ids=["all", "one has ended", "no process"],
)
def test_memory_is_that_of_all_processes_or_unknown(own, together):
    """A sum without one of them would look as if it had fallen, and with it again as if it had grown."""
    tree = tuple(process(pid, NOT_READ, own=reading) for pid, reading in enumerate(own))
    assert activity_of(tree).own_bytes == together


def test_states_and_compilers_are_named():
    nothing = Unknown("not read")
    tree = (process(1, nothing), process(2, nothing, "ptxas", "R"), process(3, nothing, state="D"))
    found = activity_of((*tree, process(4, nothing, state="T")))
    assert (found.compilers, found.uninterruptible, found.stopped) == (("ptxas",), (3,), (4,))
    assert (found.count, found.cpu_seconds) == (4, 6.0)


class Sockets:
    """Three connections on whatever port, one of them the agent's own."""

    async def connections(self, pid: int, port: int) -> Reading[PortConnections]:
        return Known(PortConnections(established=3, close_wait=1, unaccepted=0), NOW)


@pytest.mark.parametrize(("own", "clients"), [(0, 3), (1, 2), (5, 0)])
async def test_a_canary_under_way_is_no_client(own, clients):
    """An engine with no metrics would seem to have a client whenever the agent asks it for a token."""
    engine = EngineLaunch(EngineKind.TABBYAPI, port=5000, health="/health", metrics=None)
    subject = Subject(engine, None, (), read_metrics=lambda text: None, scrape_timeout_s=1.0, own=own)
    found = await count_connections(cast("Sources", SimpleNamespace(sockets=Sockets())), subject, 1)
    assert found == Connections(clients, 1)


# ── cards ─────────────────────────────────────────────────────────────────────────────────────────────────────────


class Host:
    """What NVML says of the host's cards."""

    def __init__(self, *gpus: Gpu) -> None:
        self.gpus = gpus

    async def read(self) -> Reading[tuple[Gpu, ...]]:
        return Known(self.gpus, NOW)


def sliced(*names: str, **more: Any) -> Gpu:
    size = Known(Bytes.gib(10), NOW)
    slices = tuple(MigInstance(name, at, 0, size, Known(Bytes(1 << 30), NOW)) for at, name in enumerate(names))
    return replace(card(0), mig=Known(Mig(True, True, slices), NOW), **more)


async def seen(uuid: str, *gpus: Gpu) -> GpuSample:
    found = await read_gpus(cast(GpuSource, Host(*gpus)), (uuid,))
    assert isinstance(found, tuple)
    return found[0]


async def test_a_slice_is_there_with_its_cards_health_and_nobody_elses_load() -> None:
    """Load and power are the whole card's: with another tenant on it they would look like a spinning kernel."""
    asks = Known(RecoveryAction(1), NOW)
    gpu = sliced("MIG-a", "MIG-b", utilization=Known(1.0, NOW), power_w=Known(60.0, NOW), recovery_action=asks)
    assert await seen("MIG-b", gpu) == GpuSample(
        "MIG-b", memory_used=1 << 30, temperature_c=value_of(gpu.temperature_c), recovery_action=1
    )


@pytest.mark.parametrize(
    ("gpu", "lost"),
    [
        (sliced("MIG-b"), True),
        (sliced("MIG-a", lost="fallen off the bus"), True),
        (replace(card(0), mig=Unknown("it did not answer in time")), False),
    ],
    ids=["taken away", "its card is lost", "not told now"],
)
async def test_a_slice_is_lost_when_it_is_known_to_be(gpu: Gpu, lost: bool) -> None:
    assert (await seen("MIG-a", gpu)).lost is lost


async def test_a_card_that_is_no_longer_listed_is_lost() -> None:
    assert (await seen("GPU-ffff", card(0))).lost
    assert not (await seen(card(0).uuid, card(0))).lost
