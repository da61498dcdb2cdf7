"""The words for what is wrong: label values of the counters, and names of incidents. A closed set."""

from __future__ import annotations

from enum import StrEnum


class Kind(StrEnum):
    """What a verdict found. Stable: dashboards and alerts name them."""

    BUSY = "busy"
    """Requests run and nothing moves."""
    IDLE = "idle"
    """Nothing runs, and one token cannot be had."""
    START = "start"
    """Nothing moves in a start-up, or it passed the limit that the launch states."""
    START_SLOW = "start_slow"
    EXIT = "exit"
    HOST_OOM = "host_oom"
    GONE = "gone"
    ENGINE_DEAD = "engine_dead"
    NVML_LOST = "nvml_lost"
    REFUSED = "refused"
    UNRESPONSIVE = "unresponsive"
    DRAIN = "drain"
    ZOMBIE_BURNING = "zombie_burning"
    ZOMBIE_HELD = "zombie_held"
    STALE_GAUGE = "stale_gauge"
    UNADMITTED = "unadmitted"
    """Requests wait that the engine will never take; it serves the others."""
    UNACCEPTED = "unaccepted"
    """It serves, and does not show what its profile wants to see."""
    XID = "xid"
    GPU_LOST = "gpu_lost"
    RECOVERY_ACTION = "recovery_action"


STALL_KINDS: frozenset[str] = frozenset({Kind.BUSY, Kind.IDLE, Kind.START, Kind.ZOMBIE_BURNING, Kind.ZOMBIE_HELD})
"""What a verdict of `stalled` or `zombie` can be of."""
SUSPECT_REASONS: frozenset[str] = frozenset(
    {Kind.BUSY, Kind.IDLE, Kind.ZOMBIE_BURNING, Kind.ZOMBIE_HELD, Kind.ENGINE_DEAD, Kind.NVML_LOST, Kind.UNADMITTED}
)
FAULT_KINDS: frozenset[str] = frozenset(set(Kind) - {Kind.START_SLOW, Kind.STALE_GAUGE, Kind.UNADMITTED})
"""What something is done about."""
