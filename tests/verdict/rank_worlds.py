"""Data-parallel ranks behind one front end, as scripts for a series: who is asked, who answers, who hangs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agent.samples.model import Window
from tests.verdict import scenarios as s
from tests.verdict.series import Rank, Script, Series, Tick, World

STEP_S = 10.0
IDLE_ASK_S = 300.0
TWO_STRIKES_S = 60.0
KNOWN = ("0", "0", "1", "1", "0", "0")
"""Answers that have shown that a number counts."""
SOON_S = 3 * STEP_S
"""A look late, for the ask and each of two answers."""


@dataclass
class Balancer:
    """Gives what names no rank to the ranks in turn; notes who was asked for."""

    world: World
    hung: frozenset[str] = frozenset()
    takes_names: bool = True
    picks_first: bool = False
    """What names no rank goes to the first that is least loaded, as by vLLM with one API server."""
    refuses_names: str = ""
    turn: int = 0
    wait: float = 0.0
    """Seconds until a step under way lets anything be answered."""

    def __post_init__(self) -> None:
        self.asked: list[tuple[float, str]] = []
        self.world.canary = lambda at: self.ask("", at)
        self.world.aimed = self.ask

    def ask(self, name: str, at: float) -> float | str | None:
        self.asked.append((at, name))
        if name and self.refuses_names:
            return self.refuses_names
        if name and int(name) >= len(self.world.ranks):
            return f"400 data_parallel_rank {name} is out of range"
        if self.picks_first and (not name or not self.takes_names):
            name = str(min(range(len(self.world.ranks)), key=lambda number: self.world.ranks[number].running))
        elif not name or not self.takes_names:
            self.turn += 1
            name = str(self.turn % len(self.world.ranks))
        if name in self.hung:
            return None
        rank = self.world.ranks[int(name)]
        self.world.on_token = lambda: self.count(rank)
        return self.wait + 0.2

    def count(self, rank: Rank) -> None:
        """One that was answered."""
        rank.prompt, rank.generated, rank.finished = rank.prompt + 10, rank.generated + 1, rank.finished + 1
        rank.gauges = True


def life(*, ranks: int = 2, busy_from: float | None = None, hangs: float | None = None, clients: int = 0,
         **how: Any) -> Any:  # fmt: skip
    """Idle; from `busy_from` on rank 0 decodes; from `hangs` on the last rank never answers. `clients` more than those
    that are served are connected from then on. `balancers` of the script are for looking at."""
    balancers: list[Balancer] = []

    def script(world: World, at: float) -> None:
        if not balancers:
            balancers.append(Balancer(world, **how))
        if busy_from is not None and at >= busy_from:
            s.decode(world, at)
        else:
            world.idle()
        if hangs is not None and at >= hangs:
            balancers[0].hung = frozenset({str(ranks - 1)})
            world.clients = int(world.clients or 0) + clients if busy_from is not None else clients

    script.balancers = balancers  # type: ignore[attr-defined]
    return script


def of(ranks: int, kind: Callable[[], Rank] = Rank) -> dict[str, Any]:
    return {"world": lambda: World(ranks=[kind() for _ in range(ranks)])}


def play(script: Script, seconds: float, ranks: int = 2, **how: Any) -> list[Tick]:
    return Series(script, seconds, **of(ranks), **how).play()


def window(ticks: list[Tick]) -> Window:
    return ticks[-1].window
