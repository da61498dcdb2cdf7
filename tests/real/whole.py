"""Real vLLM under real faults, by hand: `python -m tests.real.whole [PART …]` (load, faults, starts, ranks).

RECIPE_AGENT_REAL_ROWS is a part of the names of the faults to play, RECIPE_AGENT_REAL_MINUTES the length of the load.

One engine is used again: after each fault the agent brings it back, and the next fault meets the new process.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.real.engines import RealEngine, free_port, vllm
from tests.real.load import Stream, mixed, until, words
from tests.real.rig import NotSeen, Rig, Site, family

WINDOWS = {
    "period": 2.0,
    "scrape_timeout": 1.5,
    "suspect": 10.0,
    "stall": 30.0,
    "stall_blind": 60.0,
    "zombie": 20.0,
    "canary_idle": 30.0,
    "canary_idle_timeout": 8.0,
    "canary_timeout": 10.0,
    "refused": 6.0,
    "unobservable": 20.0,
    "start_silence": 60.0,
    "jit": 0.0,
    "term": 5.0,
    "term_clients": 8.0,
    "kill": 10.0,
    "release": 60.0,
}
"""A tenth to a third of what a recipe's own would be: the engine is small and the machine is not its own."""
FAULTY = ("stalled", "zombie", "dead")
FOUND_S = 150.0
BACK_S = 300.0
LONG = 65_536


@dataclass(frozen=True)
class Row:
    """One fault: which process, which signal, while busy or idle."""

    what: str
    number: signal.Signals
    busy: bool

    def __str__(self) -> str:
        how = "stopped" if self.number is signal.SIGSTOP else "killed"
        return f"{self.what} {how}, {'busy' if self.busy else 'idle'}"


ROWS = [
    Row(what, number, busy)
    for what in ("engine core", "worker", "API server")
    for number in (signal.SIGSTOP, signal.SIGKILL)
    for busy in (True, False)
]


def main(words_: Sequence[str]) -> None:
    shared = Path(os.environ.get("RECIPE_AGENT_SHARED") or Path(__file__).parents[2].parent / "shared")
    parts: Mapping[str, Callable[[Path], Iterator[str]]] = {
        "load": load,
        "faults": faults,
        "starts": starts,
        "ranks": ranks,
    }
    for part in words_ or parts:
        for line in parts[part](shared):
            print(line, flush=True)


@contextmanager
def rig_over(engine: RealEngine) -> Iterator[Rig]:
    folder = Path(tempfile.mkdtemp(prefix="real-vllm-"))
    rig = Rig(Site(folder, engine.slug, engine.command, engine.env, WINDOWS, restarts=99))
    try:
        yield rig
    finally:
        rig.close()
        print(f"(kept in {folder})", file=sys.stderr)


def engine_of(shared: Path, *more: str, port: int | None = None, model: Path | None = None) -> RealEngine:
    sizes = ("--max-model-len", str(LONG), "--max-num-batched-tokens", "2048")
    return vllm(shared, port or free_port(), *sizes, *more, model=model, VLLM_ALLOW_LONG_MAX_MODEL_LEN="1")


# ── faults ────────────────────────────────────────────────────────────────────────────────────────────────────────


def faults(shared: Path) -> Iterator[str]:
    engine = engine_of(shared)
    with rig_over(engine) as rig:
        rig.deploy()
        yield f"ready after {rig.wait(['ready', 'busy'], engine.ready_s):.0f} s"
        yield "| fault | verdict | after | serves again after | in its own words |"
        yield "| --- | --- | --- | --- | --- |"
        wanted = os.environ.get("RECIPE_AGENT_REAL_ROWS", "")
        for row in ROWS:
            if wanted in str(row):
                yield one(rig, engine, row)


def one(rig: Rig, engine: RealEngine, row: Row) -> str:
    generation = rig.status()["generation"]
    pid = pid_of(rig, engine, row.what)
    clients = [Stream(engine.port, engine.model, words(20), 60_000) for _ in range(2)] if row.busy else []
    if row.busy:
        rig.wait(["busy"], 30.0)
        until(lambda: clients[0].chunks > 20, 30.0)
    began = time.time()
    os.kill(pid, row.number)
    return mended(rig, str(row), began, generation, clients)


def mended(rig: Rig, what: str, began: float, generation: int, clients: Sequence[Stream]) -> str:
    """The row of a fault that began then, once the next generation serves; its clients are cut off then."""
    try:
        rig.wait(["ready", "busy"], FOUND_S + BACK_S, generation=generation + 1)
    except NotSeen as error:
        return f"| {what} | NOT MENDED | | | {str(error)[-1500:]} |"
    finally:
        for client in clients:
            client.cut()
    back = time.time() - began
    verdict = first_fault(rig, began)
    if verdict is None:
        return f"| {what} | no fault was told | | {back:.0f} s | |"
    return f"| {what} | {verdict['data']['to']} | {at(verdict) - began:.1f} s | {back:.0f} s | {verdict['text']} |"


def pid_of(rig: Rig, engine: RealEngine, what: str) -> int:
    found = rig.processes()
    pid = rig.root() if what == "API server" else found.get(engine.core if what == "engine core" else engine.worker)
    if pid is None:
        raise NotSeen(f"no {what} among {found}")
    return pid


def at(event: Mapping[str, Any]) -> float:
    return datetime.fromisoformat(str(event["at"]).replace("Z", "+00:00")).timestamp()


def first_fault(rig: Rig, since: float) -> Mapping[str, Any] | None:
    told = [one for one in rig.events() if one["kind"] == "state" and one["data"].get("to") in FAULTY]
    return next((event for event in told if at(event) >= since), None)


# ── data-parallel ranks ───────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class RankRow:
    """The core of rank 1 is stopped. `pinned`: so many clients each rank has by name; `turn`: that come then and name
    none, so that the front end gives every second one to the rank that is gone."""

    what: str
    pinned: Mapping[str, int]
    turn: int = 0


RANK_ROWS = [
    RankRow("rank 1 stopped, all idle", {}),
    RankRow("rank 1 stopped idle, rank 0 busy", {"0": 2}),
    RankRow("rank 1 stopped idle, rank 0 busy, clients come", {"0": 2}, turn=4),
    RankRow("rank 1 stopped idle, clients come", {}, turn=4),
    RankRow("rank 1 stopped, both busy", {"0": 2, "1": 2}),
]
QUIET_S = 120.0


def ranks(shared: Path) -> Iterator[str]:
    """Two ranks, each with a core of its own: one that works beside one with nothing to do is left alone, one that hung
    is found."""
    engine = engine_of(shared, "--data-parallel-size", "2")
    with rig_over(engine) as rig:
        rig.deploy("gpu.present", "gpu.count", "gpu.busy", "gpu.health")  # the launch asks for two cards
        yield f"two ranks, ready after {rig.wait(['ready', 'busy'], engine.ready_s):.0f} s"
        yield beside(rig, engine)
        yield "| fault | verdict | after | serves again after | in its own words |"
        yield "| --- | --- | --- | --- | --- |"
        for row in RANK_ROWS:
            yield rank_row(rig, engine, row)


def beside(rig: Rig, engine: RealEngine) -> str:
    """Both idle for a while, then rank 0 works for long and rank 1 has nothing to do."""
    until(lambda: False, QUIET_S)
    began = time.time()
    client = Stream(engine.port, engine.model, words(20), 60_000, rank="0")
    until(lambda: False, QUIET_S)
    client.cut()
    told = [event["data"]["to"] for event in rig.events() if event["kind"] == "state" and at(event) >= began]
    return f"idle for {QUIET_S:.0f} s, then rank 0 busy beside rank 1 for {QUIET_S:.0f} s: {', '.join(told)}"


def rank_row(rig: Rig, engine: RealEngine, row: RankRow) -> str:
    generation = rig.status()["generation"]
    until(lambda: False, 60.0)  # both have been asked for tokens since they were ready, so that numbers are known
    clients = [
        Stream(engine.port, engine.model, words(20), 60_000, rank=rank)
        for rank, count in row.pinned.items()
        for _ in range(count)
    ]
    if clients:
        rig.wait(["busy"], 30.0)
        until(lambda: all(client.chunks > 20 for client in clients), 30.0)
    began = time.time()
    os.kill(rank_pid(rig, 1), signal.SIGSTOP)
    clients += [Stream(engine.port, engine.model, words(20), 60_000) for _ in range(row.turn)]
    return mended(rig, row.what, began, generation, clients)


def rank_pid(rig: Rig, rank: int) -> int:
    """The core of this rank, by its title."""
    found = {command(pid): pid for pid in family(rig.root() or 0)}
    return found[f"VLLM::EngineCore_DP{rank}"]


def command(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    return ""


# ── healthy load ──────────────────────────────────────────────────────────────────────────────────────────────────


def load(shared: Path) -> Iterator[str]:
    """Mixed load for so many minutes (RECIPE_AGENT_REAL_MINUTES, 10), long prefills and cut clients in it."""
    minutes = float(os.environ.get("RECIPE_AGENT_REAL_MINUTES", "10"))
    engine = engine_of(shared)
    with rig_over(engine) as rig:
        rig.deploy()
        rig.wait(["ready", "busy"], engine.ready_s)
        began, pid = time.time(), rig.root()
        with mixed(engine.port, engine.model, longest_prompt=LONG - 200, longest_answer=4000, clients=3) as seen:
            until(lambda: False, minutes * 60)
        told = [event for event in rig.events() if event["kind"] == "state" and at(event) >= began]
        suspects = sum(1 for event in told if event["data"].get("to") == "suspect")
        same = rig.root() == pid and rig.status()["generation"] == 1
        yield (
            f"{minutes:.0f} minutes: {seen.requests} requests ({seen.prompts} of {LONG:,} tokens, the longest "
            f"{seen.longest_s:.0f} s to its first token; {seen.cut} clients cut), {seen.chunks} tokens; "
            f"{'a FALSE verdict' if first_fault(rig, began) else 'no fault was told'}, {suspects} suspects, "
            f"{'the same process' if same else 'RESTARTED'}"
        )
        if first_fault(rig, began) or not same:
            yield rig.told()


# ── start-up ──────────────────────────────────────────────────────────────────────────────────────────────────────


def starts(shared: Path) -> Iterator[str]:
    yield "| start | state | after | in its own words |"
    yield "| --- | --- | --- | --- |"
    with tempfile.TemporaryDirectory() as folder:
        for what, engine in failing(shared, Path(folder)):
            yield start(what, engine)
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        yield start("port taken", engine_of(shared, port=holder.getsockname()[1]))


def failing(shared: Path, folder: Path) -> Iterator[tuple[str, RealEngine]]:
    model = shared / "captures/vllm/tiny-llama"
    yield "bad flag", engine_of(shared, "--no-such-flag")
    yield "bad path", engine_of(shared, model=Path("/nowhere/tiny-llama"))
    yield "KV cache too big", engine_of(shared, "--max-model-len", "8000000")
    broken = folder / "tiny-llama"
    broken.mkdir()
    for file in model.iterdir():
        raw = file.read_bytes()
        half = file.suffix == ".safetensors"
        (broken / file.name).write_bytes(raw[: len(raw) // 2] if half else raw)
    yield "truncated weights", engine_of(shared, model=broken)


def start(what: str, engine: RealEngine) -> str:
    with rig_over(engine) as rig:
        began = time.time()
        rig.ctl("deploy", engine.slug, "--yes", "--accept", "weights", "--accept", "port.free")
        try:
            rig.wait(["failed"], BACK_S)
        except NotSeen as error:
            return f"| {what} | NOT FAILED | | {str(error)[-1500:]} |"
        return f"| {what} | failed | {time.time() - began:.0f} s | {rig.status()['why']} |"


if __name__ == "__main__":
    main(sys.argv[1:])
