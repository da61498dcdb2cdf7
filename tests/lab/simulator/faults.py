"""What can be made to go wrong, how it is written, and the board on which all processes of an engine read it."""

from __future__ import annotations

import json
import mmap
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from .failures import CLASSES

KINDS: Mapping[str, str] = {
    "stall": "the engine loop hangs while requests run",
    "stall_idle": "the engine loop hangs while nothing runs; requests that come later are not counted",
    "worker_hang": "a worker hangs: a line about shared memory every 60 s, then the executor's own timeout",
    "shm_broadcast": "the same as worker_hang",
    "zombie": "the same as zombie_held",
    "zombie_held": "a client's disconnect leaves its request Running: no tokens, KV held",
    "zombie_burning": "a client's disconnect goes unnoticed: tokens go on",
    "exit0": "the engine core is killed: 503, then the server exits 0",
    "exit": "the server ends at once with code N (arg)",
    "oom": "the engine core dies of a CUDA out of memory error: 503, then exit 0",
    "health_503_keepalive": "the engine core is killed and the server stays up: 503 for ever",
    "slow_start": "the start takes N times as long (arg, 3), still with progress",
    "start_stuck": "the start stands still, silent, at the share N of the weights (arg, 0.4)",
    "start_fail": "the start fails with the class given as arg",
    "slow_decode": "a decode step takes N times as long (arg, 10)",
    "slow_prefill": "a prefill takes N times as long (arg, 10)",
    "kv_flat": "the KV gauge stays at 0, as with models that keep a state instead of a cache",
    "metrics_404": "GET /metrics answers 404",
    "metrics_hang": "GET /metrics never answers",
    "leak": "the server takes N MB of memory a real second and gives none back (arg, 20)",
    "health_hang": "GET /health never answers",
    "compile": "a compiler (arg: its name, ptxas) works beside the engine; what waits for it is a stall of its own",
    "counters_reset": "counters begin anew, as after the engine restarted itself inside its container",
    "eat_memory": "the server takes memory (arg: MiB at most, 1024) until the kernel's OOM killer ends it",
    "say": "the server writes arg into its log",
    "stale_gauge": "after the last request was aborted the gauges keep their values until a new request comes",
}
ALIASES: Mapping[str, str] = {"zombie": "zombie_held", "shm_broadcast": "worker_hang"}
_HEAD = struct.Struct("<II")
_SIZE = 16384


class UnknownFault(ValueError):
    """The word names no fault."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: its kind, its argument, and for how many engine seconds it lasts (None: until it is cleared)."""

    kind: str
    arg: str = ""
    for_s: float | None = None

    def number(self, default: float) -> float:
        """The argument as a number."""
        return float(self.arg) if self.arg else default


def parse(text: str) -> Fault:
    """`kind`, `kind:arg` or `kind:arg@seconds`; `exit 3` is taken too. Raises UnknownFault."""
    words, _, lasting = text.strip().partition("@")
    kind, _, arg = words.replace(" ", ":", 1).partition(":")
    return make(kind, arg, float(lasting) if lasting else None)


def make(kind: str, arg: str = "", for_s: float | None = None) -> Fault:
    """A checked fault. Raises UnknownFault."""
    if kind not in KINDS:
        raise UnknownFault(f"no fault {kind!r}; there are {', '.join(sorted(KINDS))}, and clear")
    if kind == "start_fail" and arg not in CLASSES:
        raise UnknownFault(f"no class {arg!r} of failed starts; there are {', '.join(sorted(CLASSES))}")
    return Fault(ALIASES.get(kind, kind), arg, for_s)


def parse_many(text: str) -> tuple[Fault, ...]:
    """Faults between commas or line ends; blank lines and lines that begin with # do not count."""
    lines = [
        part.strip() for line in text.splitlines() if not line.lstrip().startswith("#") for part in line.split(",")
    ]
    return tuple(parse(line) for line in lines if line and line != "clear")


@dataclass(slots=True)
class Board:
    """The faults in force, in memory that a forked process shares with its parent: it works while a socket hangs.

    One process writes. An odd number at its head says that a write is under way, so that a reader looks again.
    """

    _memory: mmap.mmap = field(default_factory=lambda: mmap.mmap(-1, _SIZE))
    _seen: int = -1
    _faults: dict[str, Fault] = field(default_factory=dict)

    def put(self, faults: Iterable[Fault]) -> None:
        """Replace what is in force."""
        body = json.dumps([[f.kind, f.arg, f.for_s] for f in faults]).encode()
        turn, _ = _HEAD.unpack_from(self._memory)
        _HEAD.pack_into(self._memory, 0, turn + 1, 0)
        self._memory[_HEAD.size : _HEAD.size + len(body)] = body
        _HEAD.pack_into(self._memory, 0, turn + 2, len(body))

    def faults(self) -> dict[str, Fault]:
        """What is in force, by kind."""
        turn, size = _HEAD.unpack_from(self._memory)
        if turn % 2 == 0 and turn != self._seen:
            body = self._memory[_HEAD.size : _HEAD.size + size]
            if _HEAD.unpack_from(self._memory)[0] == turn:
                self._seen = turn
                self._faults = {kind: Fault(kind, arg, for_s) for kind, arg, for_s in json.loads(body or b"[]")}
        return self._faults

    def get(self, kind: str) -> Fault | None:
        """The fault of this kind, if it is in force."""
        return self.faults().get(kind)
