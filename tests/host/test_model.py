"""What a host is, as JSON and as words."""

from __future__ import annotations

import json

import pytest

from agent.clock import Instant
from agent.host.gpu import READINGS, ComputeCapability, Gpu, Identity
from agent.host.model import DiskSpace, Driver, Host, HostFacts
from agent.host.reading import Known, Reading, Unknown, describe, to_json, value_of
from agent.quantity import Bytes

AT = Instant(mono=10.0, wall=1_800_000_000.0)
NO_NVML = Unknown("no libnvidia-ml.so.1", unsupported=True)


def version(text: str) -> Known[str]:
    return Known(text, AT)


@pytest.mark.parametrize(
    ("kernel", "library", "skewed"),
    [
        (version("610.57.04"), version("610.57.04"), Known(False, AT)),
        (version("610.43.02"), version("610.57.04"), Known(True, AT)),
        (Unknown("not loaded"), version("610.57.04"), Unknown("not loaded")),
        (version("610.57.04"), NO_NVML, NO_NVML),
    ],
)
def test_skew_is_known_only_where_both_parts_are(
    kernel: Reading[str], library: Reading[str], skewed: Reading[bool]
) -> None:
    assert Driver(version=NO_NVML, kernel_module=kernel, userland=library, cuda=NO_NVML).skewed == skewed


def test_a_null_in_json_has_its_reason() -> None:
    document = to_json({"used": Known(Bytes.mib(1), AT), "ecc": NO_NVML, "power": Unknown("timed out")})
    assert document == {
        "used": 1048576,
        "ecc": None,
        "power": None,
        "unknown": {"ecc": "no libnvidia-ml.so.1", "power": "timed out"},
        "unsupported": ["ecc"],
    }


def test_the_unknown_is_never_a_value() -> None:
    assert value_of(Known(0, AT)) == 0
    assert value_of(Unknown("why")) is None
    assert describe(Known(Bytes.gib(2), AT)) == "2 GiB"
    assert describe(Unknown("timed out")) == "unknown (timed out)"


def test_a_card_that_does_not_answer_has_no_value_at_all() -> None:
    card = Gpu.gone(Identity(2, "GPU-2", "00000000:43:00.0", "NVIDIA CMP 170HX"), "fallen off the bus")
    assert card.lost == "fallen off the bus"
    assert set(card.readings().values()) == {Unknown("fallen off the bus")}
    document = card.to_json()
    assert (document["index"], document["uuid"], document["memory_total"]) == (2, "GPU-2", None)
    assert set(document["unknown"]) == set(READINGS)


def test_a_snapshot_is_json() -> None:
    host = Host(
        at=AT,
        facts=HostFacts(
            hostname="rig", kernel="6.1", machine="x86_64", cpus=8, boot_id=version("b"), booted=Known(1.0, AT)
        ),
        memory=Unknown("no right to read /proc/meminfo"),
        driver=Driver(version=version("610.57.04"), kernel_module=NO_NVML, userland=NO_NVML, cuda=NO_NVML),
        gpus=Known((Gpu.gone(Identity(0, "GPU-0"), "lost"),), AT),
    )
    document = json.loads(json.dumps(host.to_json()))
    assert document["at"] == "2027-01-15T08:00:00.000Z"
    assert (document["facts"]["boot_id"], document["driver"]["version"]) == ("b", "610.57.04")
    assert (document["memory"], document["unknown"]["memory"]) == (None, "no right to read /proc/meminfo")
    assert document["gpus"][0]["lost"] == "lost"


@pytest.mark.parametrize(
    ("kind", "network"), [("ext4", False), ("nfs4", True), ("fuse.sshfs", True), ("overlay", False), ("9p", True)]
)
def test_a_file_system_behind_a_network_is_known(kind: str, network: bool) -> None:
    sizes = {"total": Bytes(2), "available": Bytes(1), "inodes_free": None}
    assert DiskSpace(path="/x", mount="/", kind=kind, read_only=False, **sizes).network is network  # type: ignore[arg-type]


def test_a_compute_capability_is_spelled_both_ways() -> None:
    assert (str(ComputeCapability(12, 1)), ComputeCapability(8, 0).sm) == ("12.1", "sm_80")
