"""Processes of the host from /proc."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from agent.adapters.aside import Aside
from agent.adapters.procfs import Cgroups, Stat, open_files, parse_cgroups, parse_keys, parse_stat, pids, read
from agent.adapters.together import Together
from agent.clock import Clock
from agent.host.process import GpuHolder, Holders, Process
from agent.host.reading import Known, Reading, Unknown

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_OWN_NVML = "agent.adapters.nvml_owner"


class ProcProcesses:
    """A `Processes`. Whole scans of /proc cost about 10 µs a process, and those who ask at one moment share one."""

    def __init__(self, clock: Clock, proc: Path = Path("/proc"), cgroups: Path = Path("/sys/fs/cgroup")) -> None:
        self._clock = clock
        self._proc = proc
        self._cgroups = cgroups
        self._aside = Aside("/proc", seconds=5.0)
        self._walk = Together(self._walked)
        self._kills = Together(self._killed)

    async def look(self, pid: int) -> Reading[Process]:
        return await self._aside.look(lambda: self._look(pid))

    async def tree(self, pid: int) -> Reading[tuple[Process, ...]]:
        walked = await self._walk.ask(None)
        if isinstance(walked, Unknown):
            return walked
        # apart for each deployment: the command line of a process that hangs in the kernel may not come back
        return await self._aside.look(lambda: self._tree(pid, walked.value))

    async def in_container(self, container: str) -> Reading[tuple[Process, ...]]:
        return await self._aside.look(lambda: self._in_container(container))

    async def wchan(self, pid: int) -> Reading[str]:
        return await self._aside.look(lambda: self._wchan(pid))

    async def gpu_holders(self) -> Reading[Holders]:
        return await self._aside.look(self._gpu_holders)

    async def oom_kills(self, pid: int) -> Reading[int]:
        return await self._kills.ask(pid)

    async def _walked(self, _: tuple[None, ...]) -> Mapping[None, Reading[dict[int, Stat]]]:
        """The whole table, for all deployments that look at this moment."""
        return {None: await self._aside.look(lambda: Known(self._table(), self._clock.now()))}

    async def _killed(self, asked: tuple[int, ...]) -> Mapping[int, Reading[int]]:
        try:
            return await self._aside.run(lambda: {pid: self._oom_kills(pid) for pid in asked})
        except TimeoutError as error:
            return dict.fromkeys(asked, Unknown(str(error)))

    def _table(self) -> dict[int, Stat]:
        return {stat.pid: stat for stat in self._stats()}

    def _look(self, pid: int) -> Reading[Process]:
        stat = self._stat(pid)
        if stat is None:
            return Unknown(f"there is no process {pid}, or none that may be seen")
        return Known(self._process(stat), self._clock.now())

    def _tree(self, pid: int, stats: Mapping[int, Stat]) -> Reading[tuple[Process, ...]]:
        if pid not in stats:
            return Unknown(f"there is no process {pid}, or none that may be seen")
        children = defaultdict(list)
        for stat in stats.values():
            children[stat.ppid].append(stat)
        found = [stats[pid]]
        for stat in found:  # grows while it is walked: parents stand before their children
            found.extend(children[stat.pid])
        return Known(tuple(self._process(stat) for stat in found), self._clock.now())

    def _in_container(self, container: str) -> Reading[tuple[Process, ...]]:
        inside = [stat for stat in self._stats() if container in self._cgroups_of(stat.pid).containers]
        return Known(tuple(self._process(stat) for stat in inside), self._clock.now())

    def _wchan(self, pid: int) -> Reading[str]:
        now = self._clock.now()
        stat, text = self._stat(pid), read(self._proc / str(pid) / "wchan", now)
        if stat is None or isinstance(text, Unknown):
            return text if isinstance(text, Unknown) else Unknown(f"there is no process {pid}")
        if text.value in ("", "0") and stat.state != "R":
            return Unknown("the kernel does not tell where it waits (this wants CAP_SYS_PTRACE)")
        return Known("" if text.value == "0" else text.value, now)

    def _gpu_holders(self) -> Reading[Holders]:
        found, unreadable = [], 0
        for stat in self._stats():
            if stat.kernel_thread or stat.state == "Z":
                continue
            files = open_files(self._proc, stat.pid)
            if files is None:
                unreadable += 1
                continue
            devices = tuple(sorted(file for file in files if file.startswith("/dev/nvidia")))
            if devices and _OWN_NVML not in self._cmdline(stat.pid):
                found.append(GpuHolder(stat.pid, devices))
        return Known(Holders(tuple(found), unreadable), self._clock.now())

    def _oom_kills(self, pid: int) -> Reading[int]:
        now = self._clock.now()
        cgroups = self._cgroups_of(pid)
        memory = cgroups.controllers.get("memory")
        if memory is not None:
            file = self._cgroups / "memory" / memory.lstrip("/") / "memory.oom_control"
        elif cgroups.unified is not None:
            file = self._cgroups / cgroups.unified.lstrip("/") / "memory.events"
        else:
            return Unknown(f"process {pid} has no memory cgroup, or has ended")
        text = read(file, now)
        if isinstance(text, Unknown):
            return text
        kills = parse_keys(text.value).get("oom_kill")
        return Known(int(kills), now) if kills is not None else Unknown(f"{file} does not count kills")

    def _stats(self) -> Iterator[Stat]:
        for pid in pids(self._proc):
            if (stat := self._stat(pid)) is not None:
                yield stat

    def _stat(self, pid: int) -> Stat | None:
        text = read(self._proc / str(pid) / "stat", self._clock.now())
        return parse_stat(text.value) if isinstance(text, Known) and text.value else None

    def _process(self, stat: Stat) -> Process:
        cgroups = self._cgroups_of(stat.pid)
        return Process(
            pid=stat.pid,
            ppid=stat.ppid,
            state=stat.state,
            start_ticks=stat.start_ticks,
            name=stat.name,
            cmdline=self._cmdline(stat.pid),
            cpu_seconds=stat.cpu_ticks / _TICKS_PER_SECOND,
            threads=stat.threads,
            uid=self._uid(stat.pid),
            cgroup=self._cgroup(stat.pid, cgroups),
            container=cgroups.containers[-1] if cgroups.containers else None,
            io_bytes=self._io(stat.pid),
            own_bytes=self._own(stat.pid),
        )

    def _own(self, pid: int) -> Reading[int]:
        """Resident pages less those of files and shared memory (proc(5), statm)."""
        text = read(self._proc / str(pid) / "statm", self._clock.now())
        if isinstance(text, Unknown):
            return text
        words = text.value.split()
        if len(words) < 3:
            return Unknown(f"/proc/{pid}/statm tells nothing")
        return Known((int(words[1]) - int(words[2])) * _PAGE, text.at)

    def _io(self, pid: int) -> Reading[int]:
        """Wants CAP_SYS_PTRACE for a process of another user."""
        text = read(self._proc / str(pid) / "io", self._clock.now())
        if isinstance(text, Unknown):
            return text
        keys = parse_keys(text.value)
        moved = [keys.get("read_bytes"), keys.get("write_bytes")]
        if not all(word is not None and word.isdigit() for word in moved):
            return Unknown(f"/proc/{pid}/io counts no bytes of storage")
        return Known(sum(int(word or 0) for word in moved), text.at)

    def _cgroups_of(self, pid: int) -> Cgroups:
        text = read(self._proc / str(pid) / "cgroup", self._clock.now())
        return parse_cgroups(text.value) if isinstance(text, Known) else Cgroups(None, {})

    def _cgroup(self, pid: int, cgroups: Cgroups) -> Reading[str]:
        if cgroups.unified is None and not cgroups.controllers:
            return Unknown(f"cannot read the cgroup of process {pid}")
        return Known(cgroups.path, self._clock.now())

    def _cmdline(self, pid: int) -> tuple[str, ...]:
        text = read(self._proc / str(pid) / "cmdline", self._clock.now())
        return tuple(text.value.rstrip("\0").split("\0")) if isinstance(text, Known) and text.value else ()

    def _uid(self, pid: int) -> Reading[int]:
        text = read(self._proc / str(pid) / "status", self._clock.now())
        if isinstance(text, Unknown):
            return text
        return Known(int(parse_keys(text.value)["Uid"].split()[1]), text.at)
