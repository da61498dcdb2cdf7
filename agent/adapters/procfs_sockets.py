"""TCP connections and listeners from /proc/PID/net."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from agent.adapters.aside import Aside
from agent.adapters.procfs import (
    CLOSE_WAIT,
    ESTABLISHED,
    LISTEN,
    TcpRow,
    open_files,
    parse_connections,
    parse_tcp,
    pids,
    read,
)
from agent.adapters.together import Together
from agent.clock import Clock
from agent.host.process import Connection, Listener, PortConnections
from agent.host.reading import Known, Reading, Unknown


class ProcSockets:
    """A `Sockets`."""

    def __init__(self, clock: Clock, proc: Path = Path("/proc")) -> None:
        self._clock = clock
        self._proc = proc
        self._aside = Aside("/proc/net", seconds=5.0)
        self._together = Together(self._counted)

    async def connections(self, pid: int, port: int) -> Reading[PortConnections]:
        return await self._together.ask((pid, port))

    async def _counted(self, asked: tuple[tuple[int, int], ...]) -> Mapping[tuple[int, int], Reading[PortConnections]]:
        """For all deployments that look at this moment; most of them share the host's tables."""
        try:
            return await self._aside.run(lambda: self._count(asked))
        except TimeoutError as error:
            return dict.fromkeys(asked, Unknown(str(error)))

    def _count(self, asked: tuple[tuple[int, int], ...]) -> dict[tuple[int, int], Reading[PortConnections]]:
        """Each network namespace is read once: the kernel walks its whole hash of sockets to write the tables, which
        takes milliseconds however few there are."""
        tables: dict[object, Reading[tuple[str, str]]] = {}
        found: dict[tuple[int, int], Reading[PortConnections]] = {}
        for pid, port in asked:
            space = self._namespace(pid)
            if space not in tables:
                tables[space] = self._tables(str(pid))
            found[pid, port] = _counts(tables[space], port)
        return found

    def _namespace(self, pid: int) -> object:
        """What tells its network namespace from others; the process itself where it may not be asked."""
        try:
            return (self._proc / str(pid) / "ns" / "net").stat().st_ino
        except OSError:
            return f"process {pid}"

    async def table(self, pid: int, port: int) -> Reading[tuple[Connection, ...]]:
        return await self._aside.look(lambda: self._table(pid, port))

    async def listeners(self, port: int, pid: int | None = None) -> Reading[tuple[Listener, ...]]:
        return await self._aside.look(lambda: self._listeners(port, pid))

    def _table(self, pid: int, port: int) -> Reading[tuple[Connection, ...]]:
        text = self._tables(str(pid))
        if isinstance(text, Unknown):
            return text
        return Known(tuple(row for table in text.value for row in parse_connections(table, port)), text.at)

    def _listeners(self, port: int, pid: int | None) -> Reading[tuple[Listener, ...]]:
        rows = self._rows("self" if pid is None else str(pid), port)
        if isinstance(rows, Unknown):
            return rows
        listening = [row for row in rows.value if row.state == LISTEN]
        holders = self._holders({row.inode for row in listening}) if listening else {}
        nobody = Unknown("no process that this one may look into holds the socket")
        found = tuple(Listener(row.address, row.port, row.inode, holders.get(row.inode, nobody)) for row in listening)
        return Known(found, rows.at)

    def _rows(self, pid: str, port: int) -> Reading[list[TcpRow]]:
        text = self._tables(pid)
        if isinstance(text, Unknown):
            return text
        return Known([row for table in text.value for row in parse_tcp(table, port)], text.at)

    def _tables(self, pid: str) -> Reading[tuple[str, str]]:
        """The tables of both families as they are; a kernel without IPv6 has no tcp6."""
        now = self._clock.now()
        four, six = (read(self._proc / pid / "net" / name, now) for name in ("tcp", "tcp6"))
        if isinstance(four, Unknown):
            return four
        return Known((four.value, six.value if isinstance(six, Known) else ""), now)

    def _holders(self, inodes: set[int]) -> dict[int, Reading[int]]:
        """Socket inode → the lowest pid that has it open."""
        wanted = {f"socket:[{inode}]": inode for inode in inodes}
        found: dict[int, Reading[int]] = {}
        for pid in pids(self._proc):
            for target in (open_files(self._proc, pid) or set()) & wanted.keys():
                found.setdefault(wanted[target], Known(pid, self._clock.now()))
            if len(found) == len(wanted):
                break
        return found


def _counts(text: Reading[tuple[str, str]], port: int) -> Reading[PortConnections]:
    if isinstance(text, Unknown):
        return text
    rows = [row for table in text.value for row in parse_tcp(table, port)]
    states = [row.state for row in rows]
    counted = PortConnections(
        established=states.count(ESTABLISHED),
        close_wait=states.count(CLOSE_WAIT),
        unaccepted=sum(row.state == ESTABLISHED and row.inode == 0 for row in rows),
    )
    return Known(counted, text.at)
