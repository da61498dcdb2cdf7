"""What watching costs an engine: tokens a second with the agent and without it, in one run, on a real llama-server.

    python -m tests.bench.bench_sampling

The real daemon watches a real engine that answers without a pause: one prompt, which its cache knows, and answers of
the same length, since tokens come the slower the further an answer goes (here 860 a second at first, 135 after 43,000),
and one long answer would measure that. Turn by turn, a second each, the daemon is stopped (SIGSTOP, so that nothing of
it runs) and let go on; its period is two seconds, so that each watched turn has one look in it. Each watched turn is
held against its two neighbours. That is ten times as much watching as a site has by its default, a look every ten
seconds: a turn's loss over ten seconds is what such a site loses. Turns are short since a machine's own ups and downs,
which last for seconds, are larger than what is to be seen. The mean is told with its standard error, and tokens a
processor second of the engine beside it.

Also: how long one scrape of vLLM (51 KB) takes to read, against the client library's parser.

Prints one line of JSON; ends with 1 when the ratio is below 0.995 or the scrape takes 5 ms or more.
"""

from __future__ import annotations

import json
import math
import os
import signal
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from agent.engines.vllm import Vllm
from tests.real.engines import free_port, llamacpp
from tests.real.load import Stream, until, words
from tests.real.rig import Rig, Site

PERIOD_S = 2.0
SITE_PERIOD_S = 10.0
"""The default of a site."""
TURN_S = 1.0
TURNS = 120
"""Watched ones."""
PROMPT = 16_000
ANSWER = 400
PROMISED_RATIO = 0.995
PROMISED_MS = 5.0
PARSES = 30
TICKS = os.sysconf("SC_CLK_TCK")


def main() -> int:
    shared = Path(os.environ.get("RECIPE_AGENT_SHARED") or Path(__file__).parents[2].parent / "shared")
    figures = {**sampling(shared), **parsing(shared / "captures/vllm/metrics-after-load.txt")}
    print(json.dumps(figures))
    return 0 if figures["tokens_per_s_ratio"] >= PROMISED_RATIO and figures["scrape_ms"] < PROMISED_MS else 1


def sampling(shared: Path) -> dict[str, Any]:
    engine = llamacpp(shared, free_port())
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        rig = Rig(Site(Path(folder), engine.slug, engine.command, watch={"period": PERIOD_S}))
        try:
            rig.deploy()
            rig.wait(["ready", "busy"], engine.ready_s)
            with answers(engine.port, engine.model) as client:
                until(lambda: client.chunks > 2 * ANSWER, 120.0)
                return turns(rig, client)
        finally:
            rig.agent.send_signal(signal.SIGCONT)
            rig.close()


class Client:
    """Asks for one answer after the other."""

    def __init__(self, port: int, model: str) -> None:
        self.leaves = threading.Event()
        self._port, self._model = port, model
        self._prompt = words(PROMPT)
        self._now = 0, self._ask()
        self._thread = threading.Thread(target=self._go_on, daemon=True)
        self._thread.start()

    @property
    def chunks(self) -> int:
        """Tokens so far."""
        before, stream = self._now
        return before + stream.chunks

    @property
    def failed(self) -> bool:
        return not self._thread.is_alive() and not self.leaves.is_set()

    def _ask(self) -> Stream:
        return Stream(self._port, self._model, self._prompt, ANSWER)

    def _go_on(self) -> None:
        before, stream = self._now
        while stream.join(60.0) and stream.chunks and not self.leaves.is_set():
            before, stream = before + stream.chunks, self._ask()
            self._now = before, stream

    def leave(self) -> None:
        self.leaves.set()
        self._now[1].cut()
        self._thread.join(60.0)


@contextmanager
def answers(port: int, model: str) -> Iterator[Client]:
    client = Client(port, model)
    try:
        yield client
    finally:
        client.leave()


def turns(rig: Rig, client: Client) -> dict[str, Any]:
    """How much faster or slower each watched turn is than the unwatched turns before and after it."""
    pid = rig.root()
    if pid is None:
        raise SystemExit("the engine is gone")
    spent = cpu_of(rig.agent.pid)
    found = [turn(rig, client, pid, watched=bool(number % 2)) for number in range(2 * TURNS + 1)]
    spent = cpu_of(rig.agent.pid) - spent
    speeds, costs = (
        [against_neighbours(list(rates), at) for at in range(1, 2 * TURNS, 2)] for rates in zip(*found, strict=True)
    )
    return {
        "tokens_per_s_ratio": of_a_site(statistics.mean(speeds)),
        "standard_error": round(error(speeds) * TURN_S / SITE_PERIOD_S, 4),
        "tokens_per_cpu_s_ratio": of_a_site(statistics.mean(costs)),
        "with_a_look_a_second": round(1 + statistics.mean(speeds), 4),
        "with_a_look_a_second_error": round(error(speeds), 4),
        "agent_cpu_ms_a_look": round(1000 * spent / TURNS, 1),
        "turns_s": TURN_S,
        "turns": TURNS,
    }


def against_neighbours(rates: list[float], at: int) -> float:
    return 2 * rates[at] / (rates[at - 1] + rates[at + 1]) - 1


def of_a_site(change: float) -> float:
    """The ratio that a site has at its default period, from the change of a turn that has a look in it."""
    return round(1 + change * TURN_S / SITE_PERIOD_S, 4)


def error(values: list[float]) -> float:
    """Standard error of the mean."""
    return statistics.stdev(values) / math.sqrt(len(values))


def turn(rig: Rig, client: Client, pid: int, *, watched: bool) -> tuple[float, float]:
    """Tokens a second, and tokens a processor second of the engine."""
    rig.agent.send_signal(signal.SIGCONT if watched else signal.SIGSTOP)
    tokens, cpu, began = client.chunks, cpu_of(pid), time.perf_counter()
    time.sleep(TURN_S)
    made, used, seconds = client.chunks - tokens, cpu_of(pid) - cpu, time.perf_counter() - began
    if client.failed:
        raise SystemExit("an answer broke off: what was measured is no throughput")
    return made / seconds, made / used


def cpu_of(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def parsing(file: Path) -> dict[str, Any]:
    text, read = file.read_text(), Vllm().read_metrics
    ours = best(lambda: read(text))
    theirs = best(lambda: list(text_string_to_metric_families(text)))
    return {
        "scrape_kb": round(len(text) / 1024),
        "scrape_ms": round(ours * 1000, 2),
        "client_library_ms": round(theirs * 1000, 2),
        "scrape_ratio": round(theirs / ours, 1),
    }


def best(work: Callable[[], object]) -> float:
    """Seconds of the quickest of many: what the machine's other users add is no part of it."""
    times = []
    for _ in range(PARSES):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times)


if __name__ == "__main__":
    sys.exit(main())
