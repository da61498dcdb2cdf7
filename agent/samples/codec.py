"""One sample as a line of JSON, written for an incident or by hand (pure; README.md tells the form).

What a line leaves out was not looked at. What is not understood is refused: a typing mistake must not become a signal
that is merely missing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import lru_cache
from typing import Any, TypeVar

from agent.clock import Instant
from agent.container.port import ContainerView, RunState, StopRequest
from agent.engines.dialect import Dialect
from agent.engines.lines import is_echo
from agent.engines.model import EngineKind, EngineReading, LogEvent, Pong, RankReading
from agent.errors import InvalidInput
from agent.samples.checked import build, listed, mapping, one, refuse_unknown, slim, written
from agent.samples.logs import KEPT_EVENTS
from agent.samples.model import (
    Activity,
    Canary,
    Connections,
    GpuSample,
    Health,
    Miss,
    Missed,
    Sample,
    Xid,
)

T = TypeVar("T")

COUNTED = ("running", "waiting", "kv_usage", "prompt_tokens", "generation_tokens", "finished", "held_tokens")
"""Figures whose change proves a step, where a line names no `progress` of its own."""
ANY_CARD = "GPU-0"
FARTHEST_S = 1e11
MOST_RANKS = 1024
FAMILIES = {
    "vllm:": EngineKind.VLLM,
    "sglang:": EngineKind.SGLANG,
    "llamacpp:": EngineKind.LLAMACPP,
    "trtllm_": EngineKind.TRTLLM,
}
FAMILY = re.compile(f"^({'|'.join(FAMILIES)})", re.MULTILINE)
SOURCES = (frozenset(f.name for f in fields(Sample)) - {"at", "scrape"}) | {"t", "wall", "metrics"}
"""The keys of a line."""


def sample_of(line: Mapping[str, Any], dialect: Dialect | None) -> Sample:
    """One line. Raises InvalidInput."""
    refuse_unknown(line, SOURCES, "a sample")
    at = instant(line)
    container = container_of(line.get("container", RunState.RUNNING.value))
    runs = isinstance(container, ContainerView) and container.running
    events, count = log_of(line.get("log", []), dialect)
    return Sample(
        at=at,
        container=container,
        scrape=scrape_of(line.get("metrics"), dialect, runs=runs),
        health=short(line.get("health"), Health, lambda value: {"status": value, "seconds": 0.0}),
        ping=short(line.get("ping"), Pong, lambda value: {"alive": value}),
        connections=short(line.get("connections"), Connections, lambda value: {"established": value}),
        activity=short(line.get("activity"), Activity),
        gpus=cards_of(line.get("gpus")),
        log=events,
        log_lines=one(int, line.get("log_lines", count), "log_lines"),
        log_unread=missed_of(mapping(line["log_unread"], "log_unread")) if line.get("log_unread") else None,
        xids=tuple(xid_of(entry) for entry in listed(line.get("xids", []), "xids")),
        canary=answer_of(line.get("canary")),
        canary_out=one(bool, line.get("canary_out", False), "canary_out"),
        stop=build(StopRequest, line["stop"]) if line.get("stop") is not None else None,
        oom_kills=counter(line.get("oom_kills")),
        host_oom_kills=counter(line.get("host_oom_kills")),
    )


def counter(value: Any) -> int | None:
    return None if value is None else one(int, value, "a counter")


def instant(line: Mapping[str, Any]) -> Instant:
    mono = time_of(line["t"], "t")
    return Instant(mono=mono, wall=time_of(line.get("wall", mono), "wall"))


def time_of(value: Any, key: str) -> float:
    """Seconds on some clock; one that is thousands of years away is a mistake, and no calendar could show it."""
    seconds = one(float, value, key)
    if abs(seconds) > FARTHEST_S:
        raise InvalidInput(f"{key}: {seconds:g} s is no time on any clock")
    return seconds


def container_of(value: Any) -> ContainerView | Missed:
    """A state, a view, or why it could not be looked at."""
    if isinstance(value, str):
        return in_state(value)
    if is_missed(value):
        return missed_of(value)
    return view_of(mapping(value, "container"))


@lru_cache(maxsize=16)
def in_state(state: str) -> ContainerView:
    return view_of({"state": state})


def view_of(value: Mapping[str, Any]) -> ContainerView:
    basics = {"id": "recorded", "name": "recorded", "slug": "recorded", "plan_id": "recorded", "generation": 1}
    pid = {"pid": 1} if value.get("state") == RunState.RUNNING else {}
    return build(ContainerView, {**basics, **pid, **value})


def scrape_of(value: Any, dialect: Dialect | None, *, runs: bool) -> EngineReading | Missed:
    """The engine's own text, parsed values, or why there is none."""
    if value is None:
        return Missed(Miss.NOT_ASKED, "not in the recording") if runs else Missed(Miss.GONE, "it does not run")
    if is_missed(value):
        return missed_of(value)
    if isinstance(value, str):
        if dialect is None:
            raise InvalidInput("its metrics are an engine's text, and no engine is named (head, or --engine)")
        return read_text(value, dialect)
    value = mapping(value, "metrics")
    if "ranks" not in value:
        value = {"ranks": [value]}
    ranks = tuple(rank_of(mapping(entry, "a rank")) for entry in listed(value["ranks"], "ranks"))
    return few(build(EngineReading, {**value, "ranks": ranks}))


def read_text(text: str, dialect: Dialect) -> EngineReading:
    """An engine's own text; that of another engine would look like one without metrics."""
    reading = few(dialect.read_metrics(text))
    if not reading.ranks and (other := foreign(text)) is not None and other is not dialect.kind:
        raise InvalidInput(
            f"its metrics are those of {other}, and the engine is {dialect.kind} (head, plan or --engine)"
        )
    return reading


def foreign(text: str) -> EngineKind | None:
    """Whose families the text holds."""
    found = FAMILY.search(text)
    return FAMILIES[found[1]] if found is not None else None


def few(reading: EngineReading) -> EngineReading:
    """As many schedulers as an engine could have."""
    if len(reading.ranks) > MOST_RANKS:
        raise InvalidInput(
            f"its metrics are of {len(reading.ranks):,} schedulers; no engine has more than {MOST_RANKS:,}"
        )
    if len({rank.rank for rank in reading.ranks}) != len(reading.ranks):
        raise InvalidInput("its metrics hold one rank twice")
    return reading


def rank_of(value: Mapping[str, Any]) -> RankReading:
    """One scheduler; what it counts is its progress where none is named."""
    told = {name: value[name] for name in COUNTED if value.get(name) is not None}
    rank = build(RankReading, {"rank": "0", "progress": told, **value})
    below = [name for name in COUNTED if (getattr(rank, name) or 0.0) < 0]
    if below:
        raise InvalidInput(f"{below[0]}: it is below zero")
    return rank


def log_of(value: Any, dialect: Dialect | None) -> tuple[tuple[LogEvent, ...], int]:
    """Lines as the engine wrote them, or events; and how many lines there were."""
    events, count = list[LogEvent](), 0
    for entry in listed(value, "log"):
        if not isinstance(entry, str):
            events.append(build(LogEvent, entry))
            count += 1
            continue
        if dialect is None:
            raise InvalidInput("it holds log lines, and no engine is named (head, or --engine)")
        count += 0 if is_echo(entry) else 1
        if (event := dialect.read_log(entry)) is not None:
            events.append(event)
    return tuple(events[-KEPT_EVENTS:]), count


def cards_of(value: Any) -> tuple[GpuSample, ...] | Missed | None:
    if value is None:
        return None
    if is_missed(value):
        return missed_of(value)
    return tuple(build(GpuSample, {"uuid": ANY_CARD, **mapping(entry, "a card")}) for entry in listed(value, "gpus"))


def xid_of(value: Any) -> Xid:
    return build(Xid, {"uuid": ANY_CARD, "number": value} if isinstance(value, int) else value)


def answer_of(value: Any) -> Canary | None:
    if value is None:
        return None
    stated = {"token": value} if isinstance(value, bool) else mapping(value, "canary")
    return build(Canary, {"seconds": 0.0, "why": "recorded", **stated})


def short(value: Any, kind: type[T], widen: Callable[[Any], Mapping[str, Any]] | None = None) -> T | Missed | None:
    """A part that may be missing, missed, whole, or (with `widen`) one plain value."""
    if value is None:
        return None
    if is_missed(value):
        return missed_of(value)
    if widen is not None and not isinstance(value, Mapping):
        value = widen(value)
    return build(kind, value)


def is_missed(value: Any) -> bool:
    return isinstance(value, Mapping) and "missed" in value


def missed_of(value: Mapping[str, Any]) -> Missed:
    refuse_unknown(value, {"missed", "why"}, "a source that gave nothing")
    return build(Missed, {"kind": value["missed"], "why": value.get("why", f"{value['missed']} (recorded)")})


def line_of(sample: Sample) -> dict[str, Any]:
    """One sample; what is as if it had not been looked at is left out."""
    line = {"t": sample.at.mono, "wall": sample.at.wall, "metrics": written(sample.scrape)}
    rest = slim(sample)
    del rest["at"], rest["scrape"]
    return line | rest
