"""Who holds memory, what may be locked, and what the host says of its boot: /proc and /run, for the checks."""

from __future__ import annotations

import os
import resource
import socket
import struct
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from agent.adapters.process_start import DOOR
from agent.adapters.procfs import parse_cgroups, parse_keys, parse_stat, pids, read
from agent.adapters.runtime_threads import Threads
from agent.clock import Clock, Instant
from agent.host.reading import Known, Reading, Unknown
from agent.preflight.facts import Boot, LockLimit, MemoryUser, Toolkit
from agent.quantity import Bytes

T = TypeVar("T")

CAP_SYS_RESOURCE = 24
ENGINE_UNIT = "recipe-agent-engine@none.service"
"""An instance that never is, for what systemd makes of the template."""
HOOK = "nvidia-container-runtime-hook"
USUAL_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
CDI_FOLDERS = ("etc/cdi", "var/run/cdi")
ACCOUNTED = (
    *("MemFree", "Buffers", "Cached", "SwapCached", "AnonPages", "Slab"),
    *("KernelStack", "PageTables", "SecPageTables", "Percpu", "Hugetlb", "Zswap"),
)
"""Parts of meminfo that do not overlap; what is left of MemTotal was taken from the page allocator by a driver."""


class HostTables:
    """Reads of /proc that only the checks need. Whole scans take some 50 µs a process."""

    def __init__(
        self, clock: Clock, root: Path = Path("/"), docker_socket: str | None = None, deadline_s: float = 5.0
    ) -> None:
        self._clock = clock
        self._socket = docker_socket
        self._root = root
        self._proc = root / "proc"
        self._deadline = deadline_s
        self._threads = Threads("preflight-proc")

    async def memory_users(self) -> Reading[tuple[MemoryUser, ...]]:
        return await self._look(self._memory_users)

    async def unattributed(self) -> Reading[Bytes]:
        return await self._look(self._unattributed)

    async def cgroup_memory(self, pid: int) -> Reading[Bytes]:
        return await self._look(lambda: self._cgroup_memory(pid))

    async def lock_limit(self, docker: bool) -> Reading[LockLimit]:
        """Of what starts containers; of the unit that a process gets, or of the agent itself, which starts it then."""
        return await self._look(self._of_docker if docker else self._of_plain)

    async def toolkit(self) -> Reading[Toolkit]:
        return await self._look(self._toolkit)

    async def boot(self) -> Reading[Boot]:
        return await self._look(self._boot)

    async def _look(self, look: Callable[[], Reading[T]]) -> Reading[T]:
        try:
            return await self._threads.run(look, self._deadline)
        except TimeoutError:
            return Unknown(f"{self._proc}: no answer within {self._deadline:g} s")

    def _memory_users(self) -> Reading[tuple[MemoryUser, ...]]:
        now = self._clock.now()
        users = [user for pid in pids(self._proc) if (user := self._user(pid, now)) is not None]
        return Known(tuple(sorted(users, key=lambda user: (-user.holds, user.pid))), now)

    def _user(self, pid: int, now: Instant) -> MemoryUser | None:
        status = read(self._proc / str(pid) / "status", now)
        cgroup = read(self._proc / str(pid) / "cgroup", now)
        keys = parse_keys(status.value) if isinstance(status, Known) else {}
        if "RssAnon" not in keys:  # a kernel thread, or one that has ended
            return None
        containers = parse_cgroups(cgroup.value).containers if isinstance(cgroup, Known) else ()
        return MemoryUser(
            pid=pid,
            name=keys["Name"],
            resident=kib(keys, "RssAnon") + kib(keys, "RssShmem"),
            locked=max(kib(keys, "VmLck"), kib(keys, "VmPin")),
            container=containers[-1] if containers else None,
            shared=kib(keys, "RssShmem"),
        )

    def _unattributed(self) -> Reading[Bytes]:
        now = self._clock.now()
        text = read(self._proc / "meminfo", now)
        if isinstance(text, Unknown):
            return text
        keys = parse_keys(text.value)
        rest = kib(keys, "MemTotal") - sum(kib(keys, key) for key in ACCOUNTED)
        return Known(Bytes(max(0, rest)), now)

    def _cgroup_memory(self, pid: int) -> Reading[Bytes]:
        now = self._clock.now()
        text = read(self._proc / str(pid) / "cgroup", now)
        if isinstance(text, Unknown):
            return text
        cgroups = parse_cgroups(text.value)
        first = cgroups.controllers.get("memory")
        path = f"memory{first}" if first is not None else (cgroups.unified or "").lstrip("/")
        figures = read(self._root / "sys/fs/cgroup" / path / "memory.stat", now)
        if isinstance(figures, Unknown):
            return figures
        keys = parse_keys(figures.value)
        names = ("total_rss", "total_shmem") if first is not None else ("anon", "shmem")
        return Known(Bytes(sum(int(keys.get(name, "0")) for name in names)), now)

    def _of_plain(self) -> Reading[LockLimit]:
        has_unit = (self._root / str(DOOR).lstrip("/")).is_socket()
        return self._of_unit() if has_unit else self._of_agent()

    def _of_agent(self) -> Reading[LockLimit]:
        hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)[1]
        limit = None if hard == resource.RLIM_INFINITY else Bytes(hard)
        return self._limit("the agent", "self", limit)

    def _of_unit(self) -> Reading[LockLimit]:
        """As systemd would start one, an administrator's drop-ins and all."""
        words = ("systemctl", "show", "--value", "--property=LimitMEMLOCK", ENGINE_UNIT)
        try:
            done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, timeout=3, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            return Unknown(f"systemctl does not say what a unit of an engine may lock: {error}")
        said = done.stdout.decode(errors="replace").strip()
        if said != "infinity" and not said.isdigit():
            return Unknown(f"systemctl does not say what a unit of an engine may lock: {said or done.returncode}")
        hard = None if said == "infinity" else Bytes(int(said))
        return Known(LockLimit("a unit of an engine (recipe-agent-engine@.service)", hard, False), self._clock.now())

    def _of_docker(self) -> Reading[LockLimit]:
        """Of containerd, whose children become the containers; of dockerd where no containerd shows."""
        dockerd = self._dockerd()
        if isinstance(dockerd, Unknown):
            return dockerd
        pid = self._containerd_of(dockerd.value) or dockerd.value
        limits = read(self._proc / str(pid) / "limits", dockerd.at)
        if isinstance(limits, Unknown):
            return limits
        return self._limit(f"{self._name(pid)} (pid {pid})", str(pid), hard_limit(limits.value))

    def _dockerd(self) -> Reading[int]:
        """Who listens on the socket; by name where that is systemd in its place, or may not be asked."""
        now = self._clock.now()
        listening = peer_of(self._socket) if self._socket else None
        if listening is not None and self._name(listening) == "dockerd":
            return Known(listening, now)
        named = self._named("dockerd")
        if len(named) == 1:
            return Known(named[0], now)
        return Unknown(f"which of {len(named)} dockerd it is cannot be told" if named else "no dockerd shows here")

    def _containerd_of(self, dockerd: int) -> int | None:
        """Its own child, else the host's one that is nobody's child but init's."""
        parents = {pid: self._parent(pid) for pid in self._named("containerd")}
        own = [pid for pid, parent in parents.items() if parent == dockerd]
        hosts = [pid for pid, parent in parents.items() if parent == 1]
        return next(iter(own or hosts), None)

    def _parent(self, pid: int) -> int:
        stat = read(self._proc / str(pid) / "stat", self._clock.now())
        return parse_stat(stat.value).ppid if isinstance(stat, Known) and stat.value else 0

    def _limit(self, who: str, pid: str, hard: Bytes | None) -> Reading[LockLimit]:
        status = read(self._proc / pid / "status", self._clock.now())
        if isinstance(status, Unknown):
            return status
        capabilities = int(parse_keys(status.value).get("CapEff", "0"), 16)
        return Known(LockLimit(who, hard, bool(capabilities >> CAP_SYS_RESOURCE & 1)), status.at)

    def _toolkit(self) -> Reading[Toolkit]:
        """As dockerd sees it: its own search path and its own root, where this process may look at them."""
        dockerd = self._dockerd()
        own = read(self._proc / str(dockerd.value) / "environ", dockerd.at) if isinstance(dockerd, Known) else dockerd
        path = search_path(own.value) if isinstance(own, Known) else USUAL_PATH
        root = self._root_of(dockerd.value) if isinstance(dockerd, Known) and isinstance(own, Known) else self._root
        programs = [root / folder.lstrip("/") / HOOK for folder in path.split(":") if folder]
        hook = next((f"/{program.relative_to(root)}" for program in programs if os.access(program, os.X_OK)), None)
        files = [file for folder in CDI_FOLDERS for file in sorted((root / folder).glob("*nvidia*"))]
        cdi = tuple(f"/{file.relative_to(root)}" for file in files)
        return Known(Toolkit(hook, cdi, complete=isinstance(own, Known)), self._clock.now())

    def _root_of(self, pid: int) -> Path:
        """Its root folder as seen from here; ours where it may not be looked at."""
        root = self._proc / str(pid) / "root"
        return root if os.access(root / "proc", os.R_OK) else self._root

    def _boot(self) -> Reading[Boot]:
        now = self._clock.now()
        uptime = read(self._proc / "uptime", now)
        packages = read(self._root / "run/reboot-required.pkgs", now)
        return Known(
            Boot(
                seconds=float(uptime.value.split()[0]) if isinstance(uptime, Known) else None,
                wants=tuple(dict.fromkeys(packages.value.split())) if isinstance(packages, Known) else (),
                requested=(self._root / "run/reboot-required").exists(),
            ),
            now,
        )

    def _named(self, name: str) -> list[int]:
        return [pid for pid in pids(self._proc) if self._name(pid) == name]

    def _name(self, pid: int) -> str:
        text = read(self._proc / str(pid) / "comm", self._clock.now())
        return text.value.strip() if isinstance(text, Known) else ""


def kib(keys: Mapping[str, str], key: str) -> Bytes:
    """A size of status or meminfo, which say kB and mean 1024 bytes; 0 where the kernel does not have it."""
    return Bytes(int(keys.get(key, "0").removesuffix(" kB")) * 1024)


def hard_limit(limits: str) -> Bytes | None:
    """`Max locked memory` of /proc/PID/limits; None for no limit."""
    row = next(line for line in limits.splitlines() if line.startswith("Max locked memory"))
    hard = row.split()[4]
    return None if hard == "unlimited" else Bytes(int(hard))


def peer_of(path: str) -> int | None:
    """The process that listens on a unix socket, as the kernel tells who connects to it; None where nobody does."""
    try:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(1.0)
            client.connect(path)
            credentials = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    except OSError:
        return None
    return int(struct.unpack("3i", credentials)[0])


def search_path(environ: str) -> str:
    pairs = (entry.partition("=") for entry in environ.split("\0"))
    return next((value for key, _, value in pairs if key == "PATH"), USUAL_PATH)
