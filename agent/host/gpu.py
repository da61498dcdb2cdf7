"""What a GPU is and says about itself. Every field that is not its identity is a reading."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import IntEnum, StrEnum
from typing import Any, TypeAlias

from agent.clock import Instant
from agent.host.reading import Known, Reading, Unknown, to_json
from agent.quantity import Bytes

LATELY_S = 10.0
Shares: TypeAlias = Mapping[int, float]
"""Of one card: pid → share (0..1) of the last ten seconds in which a kernel of it ran. Who ran none is not there."""


class ComputeMode(StrEnum):
    """Who may open a CUDA context on the card."""

    DEFAULT = "default"
    EXCLUSIVE_THREAD = "exclusive_thread"
    PROHIBITED = "prohibited"
    EXCLUSIVE_PROCESS = "exclusive_process"


class RecoveryAction(IntEnum):
    """What the driver says the card needs (NVML field 230, NVML_FI_DEV_GET_GPU_RECOVERY_ACTION)."""

    NONE = 0
    GPU_RESET = 1
    NODE_REBOOT = 2
    DRAIN_P2P = 3
    DRAIN_AND_RESET = 4
    RECOVER_IMEX_DOMAIN = 5
    BUS_RESET = 6
    SYSTEM_REBOOT = 7


@dataclass(frozen=True, slots=True)
class ComputeCapability:
    """CUDA compute capability; `sm` is how compilers spell it (`sm_80`)."""

    major: int
    minor: int

    @property
    def sm(self) -> str:
        return f"sm_{self.major}{self.minor}"

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"

    def to_json(self) -> str:
        return str(self)


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """A process that holds memory of a card. `pid` is the host's, as long as the agent sees the host's pids."""

    pid: int
    memory: Reading[Bytes]
    kind: str = "compute"
    """`compute` or `graphics`."""
    instance: str = ""
    """`gi/ci` of the MIG instance, empty on a whole card."""

    def to_json(self) -> dict[str, Any]:
        own = {"pid": self.pid, "kind": self.kind, "instance": self.instance}
        return own | to_json({"memory": self.memory})


@dataclass(frozen=True, slots=True)
class RemappedRows:
    """Memory rows that were replaced by spares. `pending` wants a reset; `failed` a new card."""

    correctable: int
    uncorrectable: int
    pending: bool
    failed: bool

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("correctable", "uncorrectable", "pending", "failed")}


@dataclass(frozen=True, slots=True)
class MigInstance:
    """A slice of a card. Power, temperature and clocks exist for the whole card only."""

    uuid: str
    gpu_instance: int
    compute_instance: int
    memory_total: Reading[Bytes]
    memory_used: Reading[Bytes]

    def to_json(self) -> dict[str, Any]:
        own = {"uuid": self.uuid, "gpu_instance": self.gpu_instance, "compute_instance": self.compute_instance}
        return own | to_json({"memory_total": self.memory_total, "memory_used": self.memory_used})


@dataclass(frozen=True, slots=True)
class Mig:
    """Whether a card is sliced now, whether it will be after a reset, and its slices."""

    enabled: bool
    pending: bool
    instances: tuple[MigInstance, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "enabled": self.enabled,
            "pending": self.pending,
            "instances": [instance.to_json() for instance in self.instances],
        }


@dataclass(frozen=True, slots=True)
class Identity:
    """What names a card: NVML's index (it can change over a reboot), UUID, PCI address and product name."""

    index: int
    uuid: str = ""
    pci: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One card.

    `uuid`, `pci` and `name` are empty for a card that has never answered (then `lost` says why). Memory is what
    `nvidia-smi` shows: the driver's own reserve is not counted as used where the driver can tell (`memory_reserved`
    is known). Ratios are 0..1, powers watts, clocks MHz, temperatures °C.
    """

    index: int
    uuid: str
    pci: str
    name: str
    lost: str | None = None
    """Why the card does not answer (fallen off the bus, needs a reset, wedged); None when it does."""
    minor: Reading[int]
    """The N of /dev/nvidiaN."""
    memory_total: Reading[Bytes]
    memory_used: Reading[Bytes]
    memory_reserved: Reading[Bytes]
    unified_memory: Reading[bool]
    """The card has no memory of its own (GB10): the host's MemAvailable is the truth."""
    compute_capability: Reading[ComputeCapability]
    architecture: Reading[str]
    """`ampere`, `hopper`, `blackwell`, …"""
    utilization: Reading[float]
    power_w: Reading[float]
    power_limit_w: Reading[float]
    temperature_c: Reading[int]
    sm_clock_mhz: Reading[int]
    sm_clock_max_mhz: Reading[int]
    memory_clock_mhz: Reading[int]
    memory_clock_max_mhz: Reading[int]
    throttle: Reading[tuple[str, ...]]
    """Why clocks are held down now: `idle`, `sw_power_cap`, `hw_thermal`, …; empty when nothing holds them."""
    pcie_width: Reading[int]
    pcie_width_max: Reading[int]
    pcie_generation: Reading[int]
    pcie_generation_max: Reading[int]
    mig: Reading[Mig]
    compute_mode: Reading[ComputeMode]
    ecc: Reading[bool]
    ecc_uncorrected: Reading[int]
    """Uncorrected memory errors since the driver was loaded."""
    remapped_rows: Reading[RemappedRows]
    recovery_action: Reading[RecoveryAction]
    persistence: Reading[bool]
    xid_events: Reading[bool]
    """True: Xid events of this card are delivered."""
    processes: Reading[tuple[GpuProcess, ...]]

    @classmethod
    def gone(cls, identity: Identity, reason: str) -> Gpu:
        """The card as it appears when it does not answer: every reading unknown for the one reason."""
        unread = {name: Unknown(reason) for name in READINGS}
        return cls(
            index=identity.index, uuid=identity.uuid, pci=identity.pci, name=identity.name, lost=reason, **unread
        )

    @property
    def slices(self) -> tuple[MigInstance, ...]:
        """Its MIG slices; none where it is whole, or does not tell."""
        return self.mig.value.instances if isinstance(self.mig, Known) else ()

    def readings(self) -> dict[str, Reading[Any]]:
        """Every reading by its name."""
        return {name: getattr(self, name) for name in READINGS}

    def to_json(self) -> dict[str, Any]:
        """Identity, then name → value; a null's reason stands in `unknown` under the same name."""
        own = {"index": self.index, "uuid": self.uuid, "pci": self.pci, "name": self.name, "lost": self.lost}
        return own | to_json(self.readings())


_OWN = ("index", "uuid", "pci", "name", "lost")
READINGS: tuple[str, ...] = tuple(field.name for field in fields(Gpu) if field.name not in _OWN)


class GpuEventKind(StrEnum):
    """What NVML tells about by itself."""

    XID = "xid"
    DOUBLE_BIT_ECC = "double_bit_ecc"
    ROW_REMAP = "row_remap"
    ROW_REMAP_FAILED = "row_remap_failed"
    FATAL_POISON = "fatal_poison"
    UNAVAILABLE = "unavailable"
    RECOVERY_ACTION = "recovery_action"


@dataclass(frozen=True, slots=True)
class GpuEvent:
    """One event of one card. `data` is the Xid's number for `XID`, the driver's own figure for the others.

    `instance`: `gi/ci` where the event belongs to one MIG instance, empty where it concerns the whole card.
    """

    kind: GpuEventKind
    uuid: str
    pci: str
    data: int
    at: Instant
    instance: str = ""
