"""Memory, driver, limits, disk and boot of the host."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agent.engines.model import EngineKind, EngineLaunch
from agent.host.process import GpuHolder, Holders
from agent.host.reading import Unknown
from agent.preflight.case import Credit
from agent.preflight.checks import (
    disk_free,
    driver_cuda,
    driver_skew,
    driver_version,
    host_boot,
    memlock,
    memory_available,
    memory_swap,
    memory_total,
    shm,
)
from agent.preflight.facts import Boot, Image, LockLimit, MemoryUser, Neighbour
from agent.preflight.model import Level
from agent.quantity import Bytes
from tests.preflight.build import (
    ENGINE,
    FOREIGN,
    HANGS,
    WITH_GPUS,
    FakeFacts,
    as_reading,
    case,
    disk,
    driver,
    file,
    folder,
    known,
    memory,
    need,
    process,
)

PASS, WARN, FAIL, UNKNOWN = Level.PASS, Level.WARN, Level.FAIL, Level.UNKNOWN
GIB = Bytes.gib
FOUR = EngineLaunch(EngineKind.VLLM, port=8095, pipeline_parallel=4)


@pytest.mark.parametrize(("total", "level"), [(GIB(377), PASS), (GIB(355), PASS), (GIB(354), FAIL), (GIB(251), FAIL)])
async def test_the_hosts_size_is_nominal(total: Bytes, level: Level) -> None:
    facts = FakeFacts(ram=known(memory(total, total)))
    assert (await memory_total.look(case(facts, need("memory.total", GIB(373))))).level is level


async def test_where_available_memory_is_stated_too_it_decides() -> None:
    facts = FakeFacts(ram=known(memory(GIB(256), GIB(240))))
    asked = case(facts, need("memory.total", GIB(373)), need("memory.available", GIB(200)))
    assert (await memory_total.look(asked)).level is WARN
    assert (await memory_available.look(asked)).level is PASS


@pytest.mark.parametrize(
    ("available", "credit", "level"),
    [
        (GIB(200), Bytes(0), PASS),
        (GIB(199.9), Bytes(0), FAIL),  # no tolerance: what is pinned must be there
        (GIB(20), GIB(190), PASS),
        (GIB(5), GIB(190), FAIL),
    ],
)
async def test_available_memory(available: Bytes, credit: Bytes, level: Level) -> None:
    facts = FakeFacts(ram=known(memory(GIB(400), available)))
    asked = case(facts, need("memory.available", GIB(200)), credit=Credit(host_memory=credit))
    assert (await memory_available.look(asked)).level is level


async def test_the_largest_holders_are_named_with_container_and_lock() -> None:
    facts = FakeFacts(
        ram=known(memory(GIB(400), GIB(163))),
        users=known(
            (
                MemoryUser(1, "systemd", Bytes.mib(10), Bytes(0)),
                MemoryUser(50, "postgres", GIB(70), Bytes(0)),
                MemoryUser(4121, "llama-server", GIB(60), GIB(63), FOREIGN),
                MemoryUser(77, "VLLM::Worker", GIB(190), Bytes(0)),
            )
        ),
        around=known((Neighbour(FOREIGN, "old", True),)),
        held=known(GIB(40)),
    )
    asked = case(facts, need("memory.available", GIB(200)), credit=Credit(pids=frozenset({77})))
    answer = await memory_available.look(asked)
    assert answer.hint.startswith("70 GiB are held by pid 50 (postgres); 63 GiB are locked by pid 4121 (llama-server)")
    assert "in container old" in answer.hint
    assert "40 GiB are held by the kernel or a driver" in answer.hint
    assert "VLLM::Worker" not in answer.hint
    assert "systemd" not in answer.hint


async def test_huge_pages_and_shared_memory_are_explained() -> None:
    facts = FakeFacts(ram=known(memory(GIB(400), GIB(100), hugepages=GIB(128), shared=GIB(30))))
    answer = await memory_available.look(case(facts, need("memory.available", GIB(200))))
    assert "128 GiB are set aside as huge pages" in answer.hint
    assert "30 GiB are shared memory" in answer.hint


async def test_a_host_that_is_too_small_is_told_so() -> None:
    facts = FakeFacts(ram=known(memory(GIB(64), GIB(60))))
    answer = await memory_available.look(case(facts, need("memory.available", GIB(200))))
    assert "this host has 64 GiB in all" in answer.hint


@pytest.mark.parametrize("check", [memory_total, memory_available])
@pytest.mark.parametrize("partial", [False, True])
async def test_unread_memory_is_unknown(check: Any, partial: bool) -> None:
    unread = replace(memory(GIB(1), GIB(1)), total=HANGS, available=HANGS)
    facts = FakeFacts(ram=known(unread) if partial else HANGS)
    asked = case(facts, need("memory.total", GIB(1)), need("memory.available", GIB(1)))
    assert (await check.look(asked)).level is UNKNOWN


@pytest.mark.parametrize(
    ("found", "floor", "level"),
    [
        ("610.57.04", "610.57.04", PASS),
        ("610.57.05", "610.57.04", PASS),
        ("611.1", "610.57.04", PASS),
        ("610.57", "610.57.04", FAIL),
        ("580.159.04", "610.57.04", FAIL),
        ("1000.1", "610.57.04", PASS),  # numbers, not letters
        ("610.0", "610", PASS),
        ("garbage", "610", UNKNOWN),
        ("610", "the newest", UNKNOWN),
        (HANGS, "610", UNKNOWN),
    ],
)
async def test_the_drivers_floor(found: Any, floor: str, level: Level) -> None:
    facts = FakeFacts(drivers=driver(version=found, module=found))
    assert (await driver_version.look(case(facts, need("driver.version", floor)))).level is level


async def test_without_nvml_the_kernel_tells_the_driver() -> None:
    facts = FakeFacts(drivers=driver(version=Unknown("mismatch"), module="610.57.04"))
    assert (await driver_version.look(case(facts, need("driver.version", "610")))).level is PASS


@pytest.mark.parametrize(
    ("module", "library", "level"),
    [("610.1", "610.1", PASS), ("610.1", "610.2", FAIL), (HANGS, "610.2", UNKNOWN), ("610.1", HANGS, UNKNOWN)],
)
async def test_module_and_library_must_agree(module: Any, library: Any, level: Level) -> None:
    answer = await driver_skew.look(case(FakeFacts(drivers=driver(module=module, library=library)), host=WITH_GPUS))
    assert answer.level is level
    assert level is not FAIL or ("610.1" in answer.found and "610.2" in answer.found and "reboot" in answer.hint)


@pytest.mark.parametrize(
    ("env", "serves", "level"),
    [
        ({"CUDA_VERSION": "13.0.1"}, "13.0", PASS),
        ({"CUDA_VERSION": "13.2.0"}, "13.0", WARN),
        ({"NVIDIA_REQUIRE_CUDA": "cuda>=12.9 brand=tesla,driver>=535"}, "13.0", PASS),
        ({"NVIDIA_REQUIRE_CUDA": "cuda>=13.1"}, "13.0", WARN),
        ({}, "13.0", PASS),
        ({"CUDA_VERSION": "13.0.1"}, HANGS, UNKNOWN),
    ],
)
async def test_the_images_cuda(env: dict[str, str], serves: Any, level: Level) -> None:
    facts = FakeFacts(images=known(Image("sha256:a", env=env)), drivers=driver(cuda=serves))
    assert (await driver_cuda.look(case(facts, host=WITH_GPUS))).level is level


UNLIMITED = {"Ulimits": [{"Name": "stack", "Hard": 1}, {"Name": "memlock", "Soft": -1, "Hard": -1}]}
SOME = {"Ulimits": [{"Name": "memlock", "Soft": 1 << 30, "Hard": 1 << 30}]}


@pytest.mark.parametrize(
    ("host", "limit", "runtime", "level"),
    [
        (UNLIMITED, LockLimit("containerd", None, False), "runc", PASS),
        (UNLIMITED, LockLimit("containerd", Bytes.mib(8), True), "runc", PASS),
        (UNLIMITED, LockLimit("containerd", Bytes.mib(8), False), "runc", FAIL),
        (UNLIMITED, LockLimit("containerd", Bytes.mib(8), False), "my-own", WARN),
        (SOME, LockLimit("containerd", GIB(1), False), "runc", PASS),
        (SOME, LockLimit("containerd", Bytes.mib(8), False), "runc", FAIL),
        (UNLIMITED, HANGS, "runc", UNKNOWN),
    ],
)
async def test_memory_can_be_locked(host: Any, limit: Any, runtime: str, level: Level) -> None:
    facts = FakeFacts(limit=as_reading(limit), engine=known(replace(ENGINE, default_runtime=runtime)))
    assert (await memlock.look(case(facts, host=host))).level is level


def test_memlock_is_asked_only_where_it_is_wanted() -> None:
    assert not memlock.CHECK.applies(case())
    assert memlock.CHECK.applies(case(host=UNLIMITED))


@pytest.mark.parametrize(
    ("host", "there", "requirements", "level"),
    [
        ({"IpcMode": "host"}, disk("/dev/shm", GIB(190)), (), PASS),
        ({"IpcMode": "host"}, disk("/dev/shm", Bytes.mib(60)), (), WARN),
        ({"IpcMode": "host"}, disk("/dev", GIB(190)), (), WARN),
        ({"IpcMode": "host"}, disk("/dev/shm", GIB(8)), (need("shm", GIB(16)),), FAIL),
        ({"IpcMode": "host"}, HANGS, (), UNKNOWN),
        ({"Binds": ["/dev/shm:/dev/shm"]}, disk("/dev/shm", GIB(190)), (), PASS),
        ({}, disk("/dev/shm", GIB(190)), (), WARN),  # Docker's own 64 MiB
        ({"ShmSize": 16 << 30}, disk("/dev/shm", GIB(190)), (need("shm", GIB(16)),), PASS),
        ({"ShmSize": 1 << 30}, disk("/dev/shm", GIB(190)), (need("shm", GIB(16)),), FAIL),
    ],
)
async def test_shared_memory(host: Any, there: Any, requirements: Any, level: Level) -> None:
    facts = FakeFacts(disks={"/dev/shm": as_reading(there)})
    assert (await shm.look(case(facts, *requirements, host=host, engine=FOUR))).level is level


def test_one_process_needs_no_shared_memory() -> None:
    assert not shm.CHECK.applies(case())
    assert shm.CHECK.applies(case(engine=FOUR))


BINDS = {"Binds": ["/data/models:/models:ro", "/data/cache:/cache"]}


@pytest.mark.parametrize(
    ("disks", "wanted", "level", "says"),
    [
        ({}, GIB(700), PASS, "900 GiB free on /"),
        ({"/data/models": disk("/data", GIB(400))}, GIB(1300), PASS, "1300 GiB"),
        ({"/data/models": disk("/data", GIB(400))}, GIB(1400), FAIL, ""),
        ({"/data/cache": disk("/data", GIB(400), read_only=True)}, GIB(1), FAIL, "read-only"),
        ({"/data/models": disk("/data", GIB(400), read_only=True)}, GIB(1), PASS, ""),
        ({"/data/models": disk("/data", GIB(400), kind="nfs4")}, GIB(1), WARN, "over a network"),
        ({"/data/models": disk("/data", GIB(400), inodes_free=3)}, GIB(1), WARN, "3 inodes"),
        ({"/data/cache": disk("/data", GIB(1))}, GIB(1), WARN, "only 1 GiB left"),
        ({"/data/cache": HANGS}, GIB(1), UNKNOWN, "/data/cache"),
    ],
)
async def test_disk(disks: dict[str, Any], wanted: Bytes, level: Level, says: str) -> None:
    facts = FakeFacts(disks={path: as_reading(value) for path, value in disks.items()})
    answer = await disk_free.look(case(facts, need("disk.free", wanted), host=BINDS))
    assert answer.level is level
    assert says in answer.found


async def test_room_in_no_known_place_is_unknown_and_not_zero() -> None:
    """No engine says where images go, and the launch's mounts are not known yet: nothing was looked at."""
    facts = FakeFacts(engine=HANGS)
    answer = await disk_free.look(case(facts, need("disk.free", GIB(700))))
    assert (answer.level, answer.need) == (UNKNOWN, "700 GiB in all")
    assert "0 B" not in answer.found
    assert "container engine" in answer.hint
    plain = await disk_free.look(case(facts, need("disk.free", GIB(700)), runtime="process"))
    assert (plain.level, "--accept disk.free" in plain.hint) == (UNKNOWN, True)


async def test_what_is_there_already_counts() -> None:
    """The author's figure is for image, weights and caches together, on an empty disk."""
    facts = FakeFacts(
        disks={path: known(disk(free=GIB(60))) for path in ("/var/lib/docker", "/m", "/m/v41")},
        images=known(Image("sha256:a", size=GIB(40))),
        folders={"/m/v41": (file("/m/v41/a.safetensors", size=GIB(334)),)},
        paths={"/m/v41": known(folder("/m/v41"))},
    )
    asked = {"host": {"Binds": ["/m:/models:ro"]}, "model": "/models/v41"}
    assert (await disk_free.look(case(facts, need("disk.free", GIB(430)), **asked))).level is PASS
    late = await disk_free.look(case(facts, need("disk.free", GIB(700)), **asked))
    assert (late.level, "374 GiB there already" in late.found) == (WARN, True)


@pytest.mark.parametrize(
    ("boot", "level"),
    [
        (Boot(60.0), PASS),
        (Boot(60.0, ("linux-image-amd64", "nvidia-driver"), True), WARN),
        (HANGS, UNKNOWN),
    ],
)
async def test_a_reboot_that_is_asked_for(boot: Any, level: Level) -> None:
    answer = await host_boot.look(case(FakeFacts(booted=as_reading(boot)), host=WITH_GPUS))
    assert answer.level is level
    assert level is not WARN or "nvidia-driver" in answer.found


@pytest.mark.parametrize(("state", "own", "level"), [("D", False, WARN), ("S", False, PASS), ("D", True, PASS)])
async def test_a_process_stuck_on_a_card(state: str, own: bool, level: Level, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_boot, "PAUSE_S", 0.0)
    facts = FakeFacts(
        holders=known(Holders((GpuHolder(9, ("/dev/nvidia0",)),), 0)),
        processes={9: process(9, "VLLM::Worker", state=state)},
    )
    credit = Credit(pids=frozenset({9}) if own else frozenset())
    assert (await host_boot.look(case(facts, host=WITH_GPUS, credit=credit))).level is level


@pytest.mark.parametrize(
    ("total", "free", "level", "says"),
    [
        (GIB(0), GIB(0), PASS, "no swap is set up"),
        (GIB(64), GIB(61), PASS, "3 GiB of 64 GiB in use"),
        (GIB(64), GIB(50), WARN, "14 GiB of 64 GiB in use"),
        (GIB(64), HANGS, UNKNOWN, "does not tell"),
    ],
)
async def test_swap_in_use_is_judged(total: Bytes, free: Any, level: Level, says: str) -> None:
    ram = replace(memory(GIB(400), GIB(300)), swap_total=known(total), swap_free=as_reading(free))
    answer = await memory_swap.look(case(FakeFacts(ram=known(ram)), need("memory.available", GIB(200))))
    assert answer.level is level
    assert says in answer.found


async def test_what_is_locked_and_who_holds_the_most_stand_in_the_advice() -> None:
    ram = replace(
        memory(GIB(400), GIB(100)), swap_total=known(GIB(64)), swap_free=known(GIB(1)), locked=known(GIB(190))
    )
    users = (MemoryUser(4121, "llama-server", GIB(120), GIB(0), FOREIGN),)
    facts = FakeFacts(ram=known(ram), users=known(users), around=known((Neighbour(FOREIGN, "chat", True),)))
    asked = case(facts, need("memory.available", GIB(200)))
    swap = await memory_swap.look(asked)
    assert "190 GiB are locked and cannot be swapped" in swap.hint
    assert "pid 4121 (llama-server) in container chat holds the most" in swap.hint
    available = await memory_available.look(asked)
    assert "190 GiB are locked in all (Mlocked)" in available.hint
