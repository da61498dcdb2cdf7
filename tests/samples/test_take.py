"""What one look makes of the processes that it saw."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from agent.clock import Instant
from agent.engines.model import EngineKind, EngineLaunch
from agent.host.process import PortConnections, Process
from agent.host.reading import Known, Reading, Unknown
from agent.samples.model import Connections
from agent.samples.take import Sources, Subject, activity_of, count_connections

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
