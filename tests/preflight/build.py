"""Plans, cards and hosts for the tests of the checks: small documents of our own."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from agent.clock import Instant
from agent.engines.model import EngineKind, EngineLaunch
from agent.host.gpu import READINGS, ComputeCapability, Gpu, GpuProcess
from agent.host.links import Links
from agent.host.model import DiskSpace, Driver, HostMemory
from agent.host.process import Holders, Listener, Process
from agent.host.reading import Known, Reading, Unknown
from agent.plan.model import ContainerPlan, ImagePlan, Plan, RecipeRef, Requirement
from agent.plan.watch import Span, Watch
from agent.preflight.case import Case, Credit
from agent.preflight.facts import (
    Boot,
    ContainerEngine,
    Image,
    LockLimit,
    MemoryUser,
    Neighbour,
    PathFact,
    PathKind,
    Toolkit,
)
from agent.preflight.inside import parse
from agent.preflight.trial import Ran, Trial
from agent.quantity import Bytes

T = TypeVar("T")
NOW = Instant(mono=100.0, wall=1_800_000_000.0)
HANGS = Unknown("no answer within 2 s")
SLUG = "tiny-on-four"
FOREIGN = "f" * 64
NONE = Bytes(0)
ROOMY = Bytes.gib(900)


def known(value: T) -> Known[T]:
    return Known(value, NOW)


def watch() -> Watch:
    others = ("backoff", "budget", "derived")
    spans: dict[str, Any] = {f.name: Span(None, "") for f in fields(Watch) if f.name not in others}
    return Watch(**spans)


def plan(
    *requirements: Requirement,
    host: Mapping[str, Any] | None = None,
    body: Mapping[str, Any] | None = None,
    runtime: str = "docker",
    gpus: tuple[str, ...] = (),
    model: str | None = None,
    how: str = "local",
    engine: EngineLaunch | None = None,
) -> Plan:
    """A plan of one container that asks for the requirements."""
    container = ContainerPlan("tiny", None, {"Image": "tiny:1", **(body or {}), "HostConfig": dict(host or {})})
    return Plan(
        plan_id="p1",
        recipe=RecipeRef(SLUG, 1, "c0", "5a", "test"),
        runtime=runtime,
        engine=engine or EngineLaunch(EngineKind.VLLM, port=8095, model=model),
        image=ImagePlan("tiny:1", how),
        container=container if runtime == "docker" else None,
        requirements=requirements,
        watch=watch(),
        claims=(),
        missing=(),
        unapplied=(),
        warnings=(),
        origins={},
        gpus=gpus,
    )


def need(check: str, value: Bytes | int | str, words: str = "") -> Requirement:
    return Requirement(check, value, "profile requirements (recipe config.runtime.notes)", words)


WITH_GPUS: Mapping[str, Any] = {"DeviceRequests": [{"Count": -1, "Capabilities": [["gpu"]]}]}


def card(index: int, **readings: Any) -> Gpu:
    """A card of 64 GB, idle, sm_80; `readings` are values, or `Unknown`."""
    values: dict[str, Any] = {
        "memory_total": Bytes.mib(65_536),
        "memory_used": Bytes(0),
        "compute_capability": ComputeCapability(8, 0),
        "architecture": "ampere",
        "unified_memory": False,
        "pcie_width_max": 4,
        "processes": (),
        **readings,
    }
    lost = values.pop("lost", None)
    name = values.pop("name", "NVIDIA CMP 170HX")
    read = {key: as_reading(values.get(key, Unknown("not supported", unsupported=True))) for key in READINGS}
    return Gpu(index=index, uuid=f"GPU-{index}", pci=f"0000:0{index}:00.0", name=name, lost=lost, **read)


def as_reading(value: Any) -> Reading[Any]:
    return value if isinstance(value, Known | Unknown) else known(value)


def cards(count: int = 4, **readings: Any) -> tuple[Gpu, ...]:
    return tuple(card(index, **readings) for index in range(count))


def on_card(pid: int, memory: Bytes | None = None, kind: str = "compute") -> GpuProcess:
    return GpuProcess(pid, known(memory) if memory is not None else Unknown("not supported"), kind)


def process(pid: int, name: str, command: str = "", container: str | None = None, state: str = "S") -> Process:
    return Process(
        pid=pid,
        ppid=1,
        state=state,
        start_ticks=1,
        name=name,
        cmdline=tuple(command.split()),
        cpu_seconds=0.0,
        threads=1,
        uid=known(0),
        cgroup=known("/"),
        container=container,
    )


def memory(total: Bytes, available: Bytes, hugepages: Bytes = NONE, shared: Bytes = NONE) -> HostMemory:
    return HostMemory(
        total=known(total),
        available=known(available),
        swap_total=known(Bytes(0)),
        swap_free=known(Bytes(0)),
        locked=known(Bytes(0)),
        shared=known(shared),
        hugepages=known(hugepages),
        oom_kills=known(0),
    )


def driver(
    version: Any = "610.57.04", module: Any = "610.57.04", library: Any = "610.57.04", cuda: Any = "13.2"
) -> Driver:
    return Driver(
        version=as_reading(version),
        kernel_module=as_reading(module),
        userland=as_reading(library),
        cuda=as_reading(cuda),
    )


def disk(mount: str = "/", free: Bytes = ROOMY, **more: Any) -> DiskSpace:
    values: dict[str, Any] = {
        "kind": "ext4",
        "read_only": False,
        "total": Bytes.gib(1000),
        "inodes_free": 10**6,
        **more,
    }
    return DiskSpace(path=mount, mount=mount, available=free, **values)


def folder(path: str, **more: Any) -> PathFact:
    return PathFact(path, **{"real": path, "kind": PathKind.FOLDER, "mode": 0o755, **more})


def file(path: str, **more: Any) -> PathFact:
    return PathFact(path, **{"real": path, "kind": PathKind.FILE, "mode": 0o644, "size": Bytes(1), **more})


def nothing(path: str) -> PathFact:
    return PathFact(path, path, PathKind.NOTHING)


ENGINE = ContainerEngine(
    name="docker",
    version="28.2.2",
    api_version="1.50",
    root_dir="/var/lib/docker",
    runtimes=("runc", "nvidia"),
    default_runtime="runc",
    live_restore=True,
    cgroup_driver="systemd",
    machine="x86_64",
)


@dataclass
class FakeFacts:
    """A host of four idle 64 GB cards, 400 GiB of RAM, and nothing in the way. Fields are what a test changes."""

    cards: Reading[tuple[Gpu, ...]] = field(default_factory=lambda: known(cards()))
    drivers: Driver = field(default_factory=driver)
    ram: Reading[HostMemory] = field(default_factory=lambda: known(memory(Bytes.gib(400), Bytes.gib(390))))
    users: Reading[tuple[MemoryUser, ...]] = field(default_factory=lambda: known(()))
    held: Reading[Bytes] = field(default_factory=lambda: known(Bytes(0)))
    cgroup: Reading[Bytes] = field(default_factory=lambda: HANGS)
    processes: dict[int, Process] = field(default_factory=dict)
    holders: Reading[Holders] = field(default_factory=lambda: known(Holders((), 0)))
    listening: dict[int, Reading[tuple[Listener, ...]]] = field(default_factory=dict)
    disks: dict[str, Reading[DiskSpace]] = field(default_factory=dict)
    paths: dict[str, Reading[PathFact]] = field(default_factory=dict)
    folders: dict[str, tuple[PathFact, ...]] = field(default_factory=dict)
    contents: dict[str, bytes] = field(default_factory=dict)
    engine: Reading[ContainerEngine] = field(default_factory=lambda: known(ENGINE))
    around: Reading[tuple[Neighbour, ...]] = field(default_factory=lambda: known(()))
    names: Reading[Neighbour | None] = field(default_factory=lambda: known(None))
    images: Reading[Image | None] = field(default_factory=lambda: known(Image("sha256:" + "a" * 64)))
    limit: Reading[LockLimit] = field(default_factory=lambda: known(LockLimit("dockerd (pid 7)", None, True)))
    kit: Reading[Toolkit] = field(default_factory=lambda: known(Toolkit("/usr/bin/nvidia-container-runtime-hook")))
    booted: Reading[Boot] = field(default_factory=lambda: known(Boot(3600.0)))
    seen_links: Reading[Links] = field(default_factory=lambda: Unknown("no agent has watched this host's cards yet"))
    ran: list[Reading[Ran]] = field(default_factory=lambda: [known(Ran(0, parse.ACCEPTED))])
    """What each trial comes to, the last one again and again."""
    tried: list[Trial] = field(default_factory=list)

    async def gpus(self) -> Reading[tuple[Gpu, ...]]:
        return self.cards

    async def driver(self) -> Driver:
        return self.drivers

    async def memory(self) -> Reading[HostMemory]:
        return self.ram

    async def memory_users(self) -> Reading[tuple[MemoryUser, ...]]:
        return self.users

    async def unattributed(self) -> Reading[Bytes]:
        return self.held

    async def cgroup_memory(self, pid: int) -> Reading[Bytes]:
        return self.cgroup

    async def process(self, pid: int) -> Reading[Process]:
        return known(self.processes[pid]) if pid in self.processes else Unknown(f"there is no process {pid}")

    async def gpu_holders(self) -> Reading[Holders]:
        return self.holders

    async def listeners(self, port: int) -> Reading[tuple[Listener, ...]]:
        return self.listening.get(port, known(()))

    async def disk(self, path: str) -> Reading[DiskSpace]:
        return self.disks.get(path, known(disk()))

    async def path(self, path: str) -> Reading[PathFact]:
        return self.paths.get(path, known(nothing(path)))

    async def folder(self, path: str) -> Reading[tuple[PathFact, ...]]:
        return known(self.folders[path]) if path in self.folders else Unknown(f"there is no folder {path}")

    async def start_of(self, path: str, length: int, offset: int = 0) -> Reading[bytes]:
        if path not in self.contents:
            return Unknown(f"no right to read {path}")
        return known(self.contents[path][offset : offset + length])

    async def container_engine(self) -> Reading[ContainerEngine]:
        return self.engine

    async def neighbours(self) -> Reading[tuple[Neighbour, ...]]:
        return self.around

    async def name_holder(self, name: str) -> Reading[Neighbour | None]:
        return self.names

    async def image(self, reference: str) -> Reading[Image | None]:
        return self.images

    async def lock_limit(self, in_container: bool) -> Reading[LockLimit]:
        return self.limit

    async def toolkit(self) -> Reading[Toolkit]:
        return self.kit

    async def boot(self) -> Reading[Boot]:
        return self.booted

    async def sha256(self, path: str) -> Reading[str]:
        return known(hashlib.sha256(self.contents[path]).hexdigest()) if path in self.contents else HANGS

    async def links(self) -> Reading[Links]:
        return self.seen_links

    async def try_out(self, trial: Trial) -> Reading[Ran]:
        self.tried.append(trial)
        return self.ran[min(len(self.tried), len(self.ran)) - 1]


def case(facts: FakeFacts | None = None, *requirements: Requirement, credit: Credit | None = None, **more: Any) -> Case:
    return Case(plan(*requirements, **more), facts or FakeFacts(), credit or Credit())
