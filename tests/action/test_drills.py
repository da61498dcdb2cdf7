"""Which process a drill takes, and how its time line is read off the agent's own events."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent.action.drills import Drill, Mark, core_of, marks_of, outcome
from agent.action.store import Event
from tests.daemon.engines import process

BEGAN = 1000.0


def state(at: float, before: str, to: str) -> Event:
    return Event(BEGAN + at, "demo", "state", f"is {to}", {"from": before, "to": to})


def step(at: float, name: str) -> Event:
    return Event(BEGAN + at, "demo", "step", f"does {name}", {"step": name})


LIFE = (
    state(1, "ready", "busy"),
    state(60, "busy", "suspect"),
    state(180, "suspect", "stalled"),
    step(181, "SaveEvidence"),
    step(182, "Stop"),
    step(190, "Remove"),
    step(192, "Start"),
    state(193, "pending", "starting"),
    state(640, "starting", "ready"),
)


def test_the_time_line_is_what_the_agent_saw_and_did() -> None:
    marks = [(mark.what, mark.at) for mark in marks_of(LIFE, BEGAN)]
    assert marks == [
        ("detected", 180),
        ("evidence", 181),
        ("stop begun", 182),
        ("removed", 190),
        ("restarted", 192),
        ("ready", 640),
    ]


@pytest.mark.parametrize(
    ("drill", "events", "own", "said"),
    [
        (Drill.STALL, LIFE, (), "detected after 180 s, restarted and ready after 640 s"),
        (Drill.STALL, LIFE[:-1], (), None),
        (Drill.CRASH, (state(0.5, "stopped", "ready"),), (), None),
        (Drill.STALL, (*LIFE[:3], state(200, "stalled", "quarantined")), (), "failed: is quarantined"),
        (Drill.ZOMBIE, (), (Mark(3, "freed", ""),), "freed the request by itself after 3 s: no zombie"),
        (Drill.ZOMBIE, (state(70, "busy", "zombie"), step(71, "Abort"), state(80, "zombie", "ready")), (), "healed"),
        (Drill.SLOW_START, (state(5, "starting", "ready"),), (), None),
        (Drill.SLOW_START, (state(30, "starting", "ready"),), (Mark(25, "resumed", ""),), "slow, and left alone"),
        (Drill.SLOW_START, (state(9, "starting", "stalled"),), (Mark(25, "resumed", ""),), "failed: a start"),
    ],
)
def test_how_a_drill_ended(drill: Drill, events: tuple[Event, ...], own: tuple[Mark, ...], said: str | None) -> None:
    marks = sorted([*own, *marks_of(events, BEGAN)], key=lambda mark: mark.at)
    found = outcome(drill, marks)
    assert found is None if said is None else found is not None and said in found


def test_the_core_is_known_by_its_name_else_it_is_the_busiest_below_the_first() -> None:
    server = replace(process(1), cmdline=("python3", "serve"), cpu_seconds=90.0)
    core = replace(process(2), name="VLLM::EngineCor", cmdline=("VLLM::EngineCore",))
    worker = replace(process(3), cmdline=("python3", "worker"), cpu_seconds=50.0)
    assert core_of([server, worker, core]) is core
    assert core_of([server, worker]) is worker
    assert core_of([server]) is server
    assert core_of([replace(server, state="Z")]) is None
