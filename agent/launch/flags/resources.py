"""Limits: ulimits, CPUs, memory's special numbers, restart policy."""

from __future__ import annotations

from typing import Any

from agent.launch import golang
from agent.launch.flags.kinds import refuse
from agent.launch.golang import Malformed
from agent.launch.model import Context

ULIMITS = frozenset(
    (
        "core", "cpu", "data", "fsize", "locks", "memlock", "msgqueue", "nice", "nofile", "nproc", "rss",
        "rtprio", "rttime", "sigpending", "stack",
    )
)  # fmt: skip


def ulimit(value: str, _: Context) -> dict[str, Any]:
    """`memlock=-1`, `nofile=1024:4096`. Raises Malformed."""
    name, equals, limits = value.partition("=")
    refuse(not equals, f"invalid ulimit argument: {value}")
    refuse(name not in ULIMITS, f"invalid ulimit type: {name}")
    parts = limits.split(":")
    refuse(len(parts) > 2, f"too many limit value arguments - {limits}, can only have up to two, `soft[:hard]`")
    soft = golang.integer(parts[0], base=10)
    hard = golang.integer(parts[1], base=10) if len(parts) == 2 else soft
    if hard != -1:
        refuse(soft == -1, f"ulimit soft limit must be less than or equal to hard limit: soft: -1, hard: {hard}")
        refuse(soft > hard, f"ulimit soft limit must be less than or equal to hard limit: {soft} > {hard}")
    return {"Name": name, "Hard": hard, "Soft": soft}


def sorted_ulimits(values: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One a name, the last given; in the order of their names."""
    return [limit for _, limit in sorted({limit["Name"]: limit for limit in values}.items())]


def cpus(value: str, _: Context) -> int:
    """CPUs as billionths of one, wrapped to 64 bits as the CLI does. Raises Malformed."""
    nano = golang.rational(value) * 1_000_000_000
    refuse(nano.denominator != 1, "value is too precise")
    return (int(nano) + golang.INT64) % (2 * golang.INT64) - golang.INT64


def swap(value: str, _: Context) -> int:
    """`--memory-swap`: bytes, or -1 for no limit. Raises Malformed."""
    return -1 if value == "-1" else golang.ram(value)


def weight(value: str, _: Context) -> int:
    """`--blkio-weight`, 16 bits."""
    return golang.unsigned(value, bits=16)


def restart(value: str) -> dict[str, Any]:
    """`--restart on-failure:3`. Raises Malformed."""
    if not value:
        return {"Name": "", "MaximumRetryCount": 0}
    name, colon, count = value.partition(":")
    refuse(bool(colon) and not name, "invalid restart policy format: no policy provided before colon")
    if not count:
        return {"Name": name, "MaximumRetryCount": 0}
    try:
        return {"Name": name, "MaximumRetryCount": golang.integer(count, base=10)}
    except Malformed as error:
        raise Malformed("invalid restart policy format: maximum retry count must be an integer") from error
