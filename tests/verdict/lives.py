"""Healthy lives that look like a fault, and faults beside them: the scripts of the rows in `test_lives.py`."""

from __future__ import annotations

import json
from collections.abc import Callable

from agent.engines.llamacpp import LlamaCpp
from agent.engines.model import EngineReading
from agent.engines.trtllm import TrtLlm
from agent.samples.model import Health, Miss, Missed
from tests.verdict import scenarios as s
from tests.verdict.series import Script, World

NO_METRICS = Missed(Miss.UNSUPPORTED, "this engine exports no metrics")
TURNED_AWAY = Missed(Miss.HTTP, "/metrics answered 503")
NO_CARDS = Missed(Miss.UNSUPPORTED, "this deployment has no cards of its own")
SOFT = "[2026-11-30 10:00:00] Scheduler watchdog timeout (self.watchdog_timeout=30, self.soft=True)"

BACKGROUND = 'INFO:     127.0.0.1:40000 - "POST /v1/responses HTTP/1.1" 200 OK'


class Asked:
    """When a canary was first asked; what happens then is counted from there."""

    def __init__(self, takes: float) -> None:
        self.takes = takes
        self.at: float | None = None

    def __call__(self, asked: float) -> float:
        self.at = asked if self.at is None else self.at
        return max(1.0, self.at + self.takes - asked)

    def under_way(self, now: float) -> bool:
        return self.at is not None and self.at < now <= self.at + self.takes


def iterations(number: int, active: int, completed: int) -> str:
    blocks = {"usedNumBlocks": 10 * active, "maxNumBlocks": 100, "tokensPerBlock": 32}
    counts = {"numActiveRequests": active, "numQueuedRequests": 0, "numCompletedRequests": completed}
    return json.dumps([{"iter": number, **counts, "kvCacheStats": blocks}])


def iterations_end_with_the_work() -> Script:
    """TensorRT-LLM: the last entry still counts the request that it finished, then there are none."""
    fresh = [""]

    def script(world: World, at: float) -> None:
        world.idle()
        world.clients = int(at < 300)
        text = iterations(int(at), 1, int(at == 290)) if at < 300 else fresh[0] or "[]"
        world.scrape = TrtLlm().read_metrics(text)
        fresh[0] = ""

        def canary_ran() -> None:
            fresh[0] = iterations(int(at) + 1, 1, 1)

        world.on_token = canary_ran

    return script


def canary_of_a_new_shape(seconds: float = 120.0) -> Script:
    """Idle, and the canary's own kernels are compiled first."""
    asked = Asked(seconds)

    def script(world: World, at: float) -> None:
        world.idle()
        world.canary = asked
        world.compilers = ("ptxas",) if asked.under_way(at) else ()

    return script


def model_comes_back(grow: Callable[[World], None]) -> Script:
    """A server that unloads an idle model: the canary brings it back, which takes a minute and a half."""
    asked = Asked(90.0)

    def script(world: World, at: float) -> None:
        world.idle()
        world.clients, world.scrape, world.canary = 0, NO_METRICS, asked
        if asked.under_way(at):
            grow(world)

    return script


def onto_the_cards(world: World) -> None:
    world.memory = (world.memory or 0) + (4 << 30)


def from_the_disk(world: World) -> None:
    world.io += 1e10


def ranks_are_added(seconds: float) -> Script:
    """vLLM scales its data-parallel ranks: every path says 503 meanwhile, the metrics too."""

    def script(world: World, at: float) -> None:
        if 100 <= at < 100 + seconds:
            world.idle()
            world.scrape, world.health, world.clients = TURNED_AWAY, Health(503, 0.01), 0
        else:
            s.decode(world, at)
            world.scrape, world.health = None, Health(200, 0.01)

    return script


def soft_watchdog(world: World, at: float) -> None:
    """SGLang writes stacks while a kernel is compiled, and goes on."""
    silent = 60 <= at < 180
    world.compilers = ("ptxas",) if silent else ()
    world.health = None
    if not silent:
        s.decode(world, at, 4)
    if at == 100:
        world.log.append(SOFT)


def tokens_of_a_session(world: World, at: float) -> None:
    """SGLang: a session's tokens are kept between two of its requests; nothing runs and nobody is connected."""
    world.idle()
    world.cores = 0.0
    world.rank.running, world.rank.held, world.clients = 0, 5000.0, 0
    world.rank.extra["held"] = 5000.0

    def canary_ran() -> None:
        world.rank.finished += 1

    world.on_token = canary_ran


def background(asked: float, ends: float, stuck: float = 1e9) -> Script:
    """SGLang: a response that was asked for in the background is made between the two; nobody waits for it meanwhile.
    From `stuck` on it makes no step, and still others are answered."""

    def script(world: World, at: float) -> None:
        if at == asked:
            world.log.append(BACKGROUND)
        if asked <= at < min(ends, stuck):
            s.decode(world, at, 1)
        elif at >= stuck:
            world.rank.running, world.rank.waiting, world.rank.kv = 1, 0, 0.3
        else:
            world.idle()
            world.rank.running = 0
        world.clients = 0

    return script


def refused(script: Script) -> Script:
    """The same where the engine does not take the canary's question."""

    def refusing(world: World, at: float) -> None:
        script(world, at)
        world.canary = lambda asked: "/v1/completions answered 401 without a token"

    return refusing


def slots(task: int, processed: int, decoded: int) -> str:
    one = {"id": 0, "id_task": task, "is_processing": True, "n_prompt_tokens_processed": processed}
    return json.dumps([one | {"next_token": [{"n_decoded": decoded}]}])


def one_slot(seconds: float) -> Script:
    """llama-server without `--metrics` and with one slot: a long answer, behind which every canary waits; then the
    decode hangs for good, and the queue that answers `/slots` with it."""

    def script(world: World, at: float) -> None:
        world.scrape, world.gpus, world.cores, world.clients = NO_METRICS, NO_CARDS, 4.0, 1
        world.canary = lambda asked: None
        made = int(min(at, seconds) * 20)
        world.ping = LlamaCpp().read_pong(200, slots(7, 900, made), 0.0) if at <= seconds else s.TIMEOUT

    return script


def full_batch(world: World, at: float) -> None:
    """No metrics, answers of a quarter of an hour, canaries wait in the full batch; it was idle once, for a minute."""
    world.scrape, world.canary = NO_METRICS, lambda asked: 900.0
    world.work()
    world.clients = 40
    if at < 60:
        world.idle()
        world.clients = 0
    elif at % 70 == 0:
        world.load = 0.0  # this look fell between two steps


def whole_prompt_at_once(world: World, at: float) -> None:
    """A decode has shown that the gauge moves; then one step takes 400 s for a prompt."""
    world.canary = lambda asked: 420.0
    if at < 60:
        s.decode(world, at, 1)
    else:
        s.prefill(world, at - 60, 400, gauge=False)


def page_was_closed(seconds: float) -> Script:
    """llama.cpp's web page: the answer goes on for it to come back to, for so long; then the slot is wedged."""

    def script(world: World, at: float) -> None:
        world.work()
        world.clients, world.rank.running = int(at < 60), 1
        if at <= seconds:
            world.rank.extra["decodes"] = at * 20
        world.rank.steps = ("decodes",)

    return script


def rank_hangs_beside_another(world: World, at: float) -> None:
    """Rank 1 stands still with its work; the balancer gives every request to rank 0, which answers."""
    s.both_decode(world, at)
    if at >= s.FAULT:
        hung = world.ranks[1]
        hung.running, hung.kv, hung.generated = 1, 0.1, 99_000.0
    world.canary = lambda asked: 0.2
    world.aimed = lambda rank, asked: None if rank == "1" and asked >= s.FAULT else 0.2


def rank_prefills_beside_another(world: World, at: float) -> None:
    """Rank 1 has a prefill that shows no step; a canary that it is to answer waits for the rest of it."""
    rank_hangs_beside_another(world, at)
    world.aimed = lambda rank, asked: max(1.0, s.FAULT + 170.0 - asked) if rank == "1" else 0.2
    if at >= s.FAULT + 170:
        world.ranks[1].generated += at


def started_behind_a_key(status: int) -> Script:
    """A start of a minute, then every path asks for a key that the agent does not know; nobody comes."""

    def script(world: World, at: float) -> None:
        world.idle()
        world.cores, world.clients, world.scrape = (1.0 if at < 60 else 0.0), 0, NO_METRICS
        world.health = s.REFUSED if at < 60 else Health(status, 0.01)
        world.canary = lambda asked: f"/v1/chat/completions answered {status} without a token"
        if at == 50:
            world.log.append("INFO:     Application startup complete.")

    return script


def weights_are_updated(word: str = "continue_generation") -> Script:
    """SGLang is paused in place for ten minutes: four requests stand still, its loop answers, canaries wait."""

    def script(world: World, at: float) -> None:
        for when, path in ((100, "pause_generation"), (700, word)):
            if at == when and path:
                world.log.append(f'[2026-11-30 10:00:00] INFO:     127.0.0.1:1 - "POST /{path} HTTP/1.1" 200 OK')
        if 100 <= at < 700 or (not word and at >= 700):
            world.idle()
            world.clients, world.canary = 4, lambda asked: None
            world.rank.kv = 0.3 if at < 130 else 0.31  # the gauges are written once more
        elif at < 1300:
            s.decode(world, at, 4)
        else:
            s.hang(world, at)

    return script


def fewer_ranks_after_a_restart(world: World, at: float) -> None:
    """The engine was started anew inside its container, with one rank instead of two; the other's work is gone."""
    if at < 300:
        s.both_decode(world, at)
        return
    s.decode(world, at)
    world.process_start = 2.0
    rank = world.ranks[0].reading("0")
    world.scrape = EngineReading(ranks=(rank,), process_start=2.0)
    world.cores, world.load, world.power = 0.0, 0.0, 60.0
