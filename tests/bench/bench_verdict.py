"""What a look costs once its readings are there: one sample folded into a full window, and judged.

    python -m tests.bench.bench_verdict

Half an hour of samples, four ranks, one request running. The making of the numbers that stand for readings is counted
too. Prints one line of JSON, milliseconds.
"""

from __future__ import annotations

import json
import statistics
import time

from agent.samples.window import KEPT_S
from tests.verdict.series import PP4, Player, Rank, World, pp4_watch

TURNS = 300


def main() -> int:
    ranks = [Rank(running=1.0, kv=0.1) for _ in range(4)]
    player = Player(pp4_watch(), PP4, World(ranks=ranks, clients=1), 3600.0, {})
    taken = []
    for _ in range(int(KEPT_S / player.period) + TURNS):
        began = time.perf_counter()
        player.look(work)
        taken.append(time.perf_counter() - began)
    if (verdict := player.ticks[-1].verdict).fault:
        raise SystemExit(f"the engine of this bench is not healthy: {verdict.why}")
    last = taken[-TURNS:]
    figures = {"verdict_ms": statistics.median(last), "worst_ms": max(last)}
    print(json.dumps({name: round(seconds * 1000, 3) for name, seconds in figures.items()}))
    return 0


def work(world: World, _: float) -> None:
    world.work()
    for rank in world.ranks:
        rank.generated += 600.0


if __name__ == "__main__":
    raise SystemExit(main())
