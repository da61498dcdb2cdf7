"""A small world for the decision: one deployment, one runtime, steps carried out at once, and a kill at any point."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from agent.action.adopt import adopt
from agent.action.codec import record_from_json, record_to_json
from agent.action.decide import decide
from agent.action.model import Create, Nothing, Remove, SaveEvidence, Signal, Start, Step, Wait
from agent.action.record import Deployment, Held
from agent.action.seen import Release, Seen, Upkeep, Worn
from agent.action.transition import Outcome, finish, intend, look
from agent.clock import Instant
from agent.container.port import ContainerView, RunState
from agent.plan.watch import Span, Watch
from agent.verdict.model import Judged, Remedy, Verdict

BOOT = "boot-1"


def watch(**seconds: float | None) -> Watch:
    """Windows of a quick engine; any by name."""
    spans = {
        "period": 10.0, "scrape_timeout": 5.0, "suspect": 60.0, "stall": 180.0, "stall_blind": 447.0, "zombie": 60.0,
        "canary_idle": 300.0, "canary_timeout": 194.0, "start_expected": 450.0, "start_alert": 900.0,
        "start_silence": 300.0, "start_limit": None, "refused": 30.0, "unobservable": 120.0, "jit": 120.0,
        "drain": 0.0, "term": 20.0, "term_clients": 60.0, "kill": 30.0, "release": 120.0, "healthy": 1800.0,
    }  # fmt: skip
    spans |= seconds
    return Watch(**{name: Span(value, "test") for name, value in spans.items()})


def healthy(why: str = "ready") -> Verdict:
    return Verdict(Judged.READY, why)


def fault(
    kind: str = "busy", remedy: Remedy = Remedy.RESTART, state: Judged = Judged.STALLED, **more: object
) -> Verdict:
    return Verdict(state, f"{kind}: nothing moves", kind=kind, remedy=remedy, **more)  # type: ignore[arg-type]


class Killed(Exception):
    """The agent was killed here."""


@dataclass
class World:
    """What exists outside of the agent, and the record on its disk."""

    verdict: Callable[[int], Verdict]
    """Generation → what a look at its running container says."""
    watch: Watch = field(default_factory=watch)
    obeys_term: bool = True
    obeys_kill: bool = True
    release: Release = field(default_factory=Release)
    boot: str = BOOT
    other: str = ""
    window: str = ""
    upkeep: Upkeep = field(default_factory=Upkeep)
    worn: Callable[[int], tuple[Worn, ...]] = lambda _: ()
    """Generation → what has become worse of it."""
    clients: int = 0
    held: Callable[[int], Held] = lambda _: Held()
    """Starts so far → what is in use before the next."""
    disk: str = ""
    containers: dict[str, ContainerView] = field(default_factory=dict)
    clock: float = 1000.0
    wall: float = 0.0
    """How far the wall clock is ahead."""
    steps: list[Step] = field(default_factory=list)
    created: list[int] = field(default_factory=list)
    most_at_once: int = 0
    kill_at: int = -1
    points: int = 0

    def store(self, record: Deployment) -> Deployment:
        self.disk = json.dumps(record_to_json(record))
        return record

    def load(self) -> Deployment:
        return record_from_json(json.loads(self.disk))

    def failpoint(self) -> None:
        """Every place where the agent may die."""
        self.points += 1
        if self.points == self.kill_at:
            raise Killed

    def seen(self, record: Deployment) -> tuple[Deployment, Seen]:
        now = Instant(self.clock, self.clock + self.wall)
        adopted = adopt(record, tuple(self.containers.values()), self.boot, self.clock + self.wall)
        verdict = None
        watched = adopted.record.takedown is None and adopted.record.started_at is not None
        if watched and adopted.container is None:
            verdict = fault("gone", state=Judged.DEAD)
        elif watched and adopted.container is not None and adopted.container.state is RunState.RUNNING:
            verdict = self.verdict(adopted.container.generation)
        elif watched:
            verdict = fault("exit", state=Judged.DEAD)
        down = adopted.record.takedown is not None and adopted.container is None and not adopted.leftovers
        return adopted.record, Seen(
            now=now,
            watch=self.watch,
            boot_id=self.boot,
            container=adopted.container,
            leftovers=adopted.leftovers,
            verdict=verdict,
            release=self.release if down else None,
            other=self.other,
            window=self.window,
            upkeep=self.upkeep,
            worn=self.worn(adopted.record.generation) if adopted.record.takedown is None else (),
            clients=self.clients,
        )

    def tick(self, record: Deployment) -> Deployment:
        """One turn of the loop, with its failpoints."""
        record, seen = self.seen(record)
        record = self.store(look(record, seen, 10.0))
        self.failpoint()
        step = decide(record, seen)
        self.steps.append(step)
        record = self.store(intend(record, step, seen))
        self.failpoint()
        outcome = self.do(step, record)
        self.failpoint()
        record = self.store(finish(record, step, outcome, seen))
        self.failpoint()
        self.clock += 10.0 if isinstance(step, Nothing | Wait) else 0.1
        return record

    def do(self, step: Step, record: Deployment) -> Outcome:
        match step:
            case Create(generation=generation):
                key = f"c{generation}-{len(self.created)}"
                view = ContainerView(key, "demo", "demo", record.target, generation, RunState.CREATED)
                self.containers[key] = view
                self.created.append(generation)
                self.most_at_once = max(self.most_at_once, len(self.containers))
                return Outcome(container=key, held=self.held(len(self.created) - 1))
            case Start(container=key):
                self.containers[key] = replace(
                    self.containers[key], state=RunState.RUNNING, pid=7, started_at=self.clock + self.wall
                )
            case Signal(container=key, name=name):
                if (name == "TERM" and self.obeys_term) or (name == "KILL" and self.obeys_kill):
                    self.containers[key] = replace(self.containers[key], state=RunState.EXITED, exit_code=0, pid=None)
            case Remove(container=key):
                self.containers.pop(key, None)
            case SaveEvidence():
                return Outcome(incident="i")
            case _:
                pass
        return Outcome()

    def run(self, record: Deployment, ticks: int) -> Deployment:
        """So many ticks; a kill restarts the agent from its disk."""
        self.store(record)
        for _ in range(ticks):
            try:
                record = self.tick(record)
            except Killed:
                record = self.load()
        return record
