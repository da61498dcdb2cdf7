"""What engines showed in public reports: the scripts of the rows in `test_reported.py`, each with its source there."""

from __future__ import annotations

from agent.engines.model import EngineReading, LogEvent, Pong
from agent.samples.model import Health, Miss, Missed
from tests.verdict import scenarios as s
from tests.verdict.series import IDLE_W, Script, World

NO_METRICS = Missed(Miss.UNSUPPORTED, "this engine exports no metrics")
SHARD = "Loading safetensors checkpoint shards: {percent:3d}% Completed | {done}/161 [41:09<06:11, 12.82s/it]"
WAITS = "(EngineCore) INFO [shm_broadcast.py:681] No available shared memory broadcast block found in 60 seconds."


def at_rest(world: World) -> None:
    world.cores, world.load, world.power = 0.0, 0.0, IDLE_W


def frozen(world: World, at: float) -> None:
    """Gauges stay as they were, health 200, no card and no core does anything, no canary gets a token."""
    world.canary = lambda asked: None
    world.clients = 2
    at_rest(world)


# ── healthy, and taken for dead by somebody ───────────────────────────────────────────────────────────────────────


def long_prompts_fail_health(world: World, at: float) -> None:
    """Chunk after chunk; the health path runs a request of its own and gives up after 20 s."""
    rank = world.rank
    rank.running, rank.waiting, world.clients = 1, 40, 41
    rank.extra["realtime.prefill_compute"] = 8192 * at
    rank.steps = ("realtime.prefill_compute",)
    world.health = Health(503, 20.0)
    world.ping = Pong(True, age=3.0)
    world.log.append("Health check failed. Server couldn't get a response from detokenizer for last 20 seconds.")
    world.work()


def two_of_three_scrapes_fail(world: World, at: float) -> None:
    s.decode(world, at, 256)
    late = at % 30 != 0
    world.scrape, world.health = (s.TIMEOUT, s.TIMEOUT) if late else (None, Health(200, 0.1))


def first_prompt_of_a_shape(world: World, at: float) -> None:
    """A kernel of the prefill is compiled for 70 s; the HTTP side is held up with it."""
    compiling = 100 <= at < 170
    world.compilers = ("ptxas",) if compiling else ()
    if not compiling:
        s.decode(world, at)
    world.scrape, world.health = (s.TIMEOUT, s.TIMEOUT) if compiling else (None, Health(200, 0.01))


def shards_for_an_hour(world: World, at: float) -> None:
    """161 shards from a network file system, one every 16 s."""
    world.scrape, world.health = s.REFUSED, s.REFUSED
    world.io = at * 1e7
    done = int(at / 16)
    world.log.append(SHARD.format(percent=int(done / 1.61), done=done))


def load_with_waiting_lines(world: World, at: float) -> None:
    """The engine core waits for workers that quantize: it says so each minute, and they work."""
    world.scrape, world.health = s.REFUSED, s.REFUSED
    world.cores = 1.0
    if at and at % 60 == 0:
        world.log.append(WAITS)


def prompt_on_the_processor(world: World, at: float) -> None:
    """An hour of prompt processing on 46 threads: metrics, slots and health answer nothing meanwhile."""
    if at < 100:
        s.decode(world, at)
        return
    world.scrape, world.health, world.ping = s.TIMEOUT, s.TIMEOUT, s.TIMEOUT
    world.canary = lambda asked: None
    world.clients, world.cores, world.gpus = 1, 46.0, Missed(Miss.UNSUPPORTED, "no cards of its own")


def five_tokens_a_second(world: World, at: float) -> None:
    s.decode(world, at, 1, pace=5.4)
    world.rank.waiting, world.clients = 14, 15
    world.canary = lambda asked: None


def prompt_given_up_by_the_server(world: World, at: float) -> None:
    """60 s of prompt, then the server cancels it itself; every sub-batch moves the counter of decodes."""
    rank = world.rank
    rank.running = world.clients = 1 if at < 60 else 0
    rank.extra["decodes"] = min(at, 60)
    rank.steps = ("decodes",)
    world.work() if at < 60 else world.idle()


def scarred_health(world: World, at: float) -> None:
    """One generation failed; the health path says so for ever, and every later request is served."""
    world.scrape, world.clients = NO_METRICS, 1
    world.work()
    world.health = Health(503, 0.01) if at >= 100 else Health(200, 0.01)
    world.log.append("Metrics (ID: 3fa3): 210 tokens generated in 9.8 seconds (Queue: 0.0 s, Process: 0 cached tokens)")


def unready_answers_503(world: World, at: float) -> None:
    """It listens at once, and says 503 until the model is there."""
    ready = at >= 600
    world.scrape = None if ready else Missed(Miss.HTTP, "HTTP 503")
    world.health = Health(200, 0.01) if ready else Health(503, 0.01)
    world.io, world.cores = min(at, 600) * 1e7, 0.0 if ready else 0.6


def restored_from_a_snapshot(world: World, at: float) -> None:
    """The port stays closed until the processes are restored; not a line is written."""
    world.scrape, world.health = (s.REFUSED, s.REFUSED) if at < 420 else (None, Health(200, 0.01))
    world.io = min(at, 420) * 1e8


def larger_than_the_cache(world: World, at: float) -> None:
    """A prompt that fits the context and not the cache blocks the queue until its client gives up."""
    blocked = 300 <= at < 420
    if not blocked:
        s.decode(world, at)
        return
    world.rank.running, world.rank.waiting, world.rank.kv, world.clients = 0, 1, 0.0, 1
    world.canary = lambda asked: max(0.5, 421.0 - asked)
    at_rest(world)


def forgotten_states(world: World, at: float) -> None:
    """A benign race after an abort: a few lines about a request that the HTTP side has forgotten."""
    s.decode(world, at, 3)
    if at == 300:
        world.log += ["Received output for rid='8a1' but the state was deleted in TokenizerManager."] * 5


def degraded_but_alive(world: World, at: float) -> None:
    """No metrics, answers take 50 minutes, cards at full load; a canary waits in the same queue."""
    world.scrape, world.clients = NO_METRICS, 8
    world.canary = lambda asked: None
    world.work()


def cards_lost_for_a_shell(world: World, at: float) -> None:
    """Somebody's nvidia-smi in the container complains after a reload of systemd; the open devices still work."""
    s.decode(world, at)
    if at == 300:
        world.log.append("Failed to initialize NVML: Unknown Error")


# ── dead or hung, and taken for healthy by somebody ───────────────────────────────────────────────────────────────


def nothing_is_admitted(world: World, at: float) -> None:
    """Running 0, waiting 6, cache 0 %, 0 tokens/s, health 200, for nine minutes at a time."""
    frozen(world, at)
    world.rank.running, world.rank.waiting, world.rank.kv, world.clients = 0, 6, 0.0, 6


def first_request_hangs(world: World, at: float) -> None:
    frozen(world, at)
    world.rank.running, world.rank.kv = 1, 0.0


def cache_is_full(world: World, at: float) -> None:
    """35 running, 115 pending, cache 99 %: it answers health and metrics, and makes no token."""
    frozen(world, at)
    world.rank.running, world.rank.waiting, world.rank.kv, world.clients = 35, 115, 0.99, 150


def nothing_answers_and_peers_spin(world: World, at: float) -> None:
    """The HTTP side hangs with the scheduler, proxies of the network spin, the cards do nothing."""
    frozen(world, at)
    world.scrape, world.health, world.ping = s.TIMEOUT, s.TIMEOUT, s.TIMEOUT
    world.cores = 3.0


def info_hangs(world: World, at: float) -> None:
    """Health and model info answer, whatever asks the scheduler does not."""
    s.hang(world, at)
    world.ping = s.TIMEOUT


def full_load_at_low_power(world: World, at: float) -> None:
    s.f2(world, at)
    world.rank.running, world.rank.waiting, world.clients = 100, 20, 120


def aborted_by_nccl(world: World, at: float) -> None:
    """A scheduler is aborted below Python; its parent goes on answering 200."""
    frozen(world, at)
    world.ping = s.TIMEOUT
    if at == 0:
        world.log.append(
            "[rank1]:[E ProcessGroupNCCL.cpp:629] [Rank 1] Watchdog caught collective operation timeout: "
            "WorkNCCL(SeqNum=9, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600004 milliseconds before timing out."
        )


def crashed_with_health_200(world: World, at: float) -> None:
    """An older version without a ping: the health path says 200 for an hour after the scheduler's crash."""
    frozen(world, at)
    world.ping = Pong(None)


def exits(code: int, *lines: str) -> Script:
    """It writes these lines and ends."""

    def script(world: World, at: float) -> None:
        world.exit(code)
        if at == 0:
            world.log += lines

    return script


def logs_requests_and_no_more(world: World, at: float) -> None:
    """Incoming requests are logged, nothing is generated, processor and cards at 0 %; metrics wait for the loop."""
    frozen(world, at)
    world.scrape, world.ping = s.TIMEOUT, s.TIMEOUT
    world.log.append("srv  log_server_r: request: POST /v1/chat/completions 127.0.0.1 200")


def out_of_memory_and_unresponsive(world: World, at: float) -> None:
    frozen(world, at)
    world.scrape = s.TIMEOUT
    if at == 0:
        world.log.append("ggml_cuda.cu:75: CUDA error: out of memory")


def port_closed_with_clients(world: World, at: float) -> None:
    """The listener is gone, the process and one connection are not."""
    world.scrape, world.health, world.ping = s.REFUSED, s.REFUSED, s.REFUSED
    world.clients, world.cores = 1, 0.0


def load_hangs(world: World, at: float) -> None:
    """Health says 503 for ever; the only lines are those of the questions."""
    world.scrape, world.health = Missed(Miss.HTTP, "HTTP 503"), Health(503, 0.01)
    world.cores, world.io = (1.0, at) if at < 60 else (0.0, 60.0)
    world.log.append("srv  log_server_r: request: GET /health 127.0.0.1 503")


def serves_503_for_ever(world: World, at: float) -> None:
    """A rank's executor died, the server stays and says 503: nobody restarts what does not exit."""
    world.scrape, world.health = EngineReading(ranks=()), Health(503, 0.01)
    at_rest(world)
    if at == 0:
        world.log.append(
            "[TRT-LLM] [E] [_torch][RANK 7] Executor loop crashed on this rank; hard-killing all 8 ranks in 9.99947s"
        )


def hangs_without_metrics(world: World, at: float) -> None:
    """The prompt is longer than the server's limit: it and all after it hang, health 200."""
    frozen(world, at)
    world.scrape = s.NO_METRICS


def trt_without_metrics(world: World, at: float) -> None:
    s.decode(world, at)
    world.scrape = s.NO_METRICS
    world.log.append(LogEvent("a request has ended", progress=True))


def grammar_panics(world: World, at: float) -> None:
    """One thread panics in a structured output: the request stays Running, and so do all after it."""
    frozen(world, at)
    world.rank.running, world.rank.kv = 1, 0.002
    if at == 0:
        world.log.append("thread '<unnamed>' panicked at toktrie/src/toktree.rs:1101:13:")


def tokens_for_nobody(world: World, at: float) -> None:
    """The client has closed its connection, tokens are made on; the gauge of the cache climbs."""
    s.decode(world, at, 1)
    world.clients, world.close_wait = 0, 1


def generation_never_starts(world: World, at: float) -> None:
    """The list of models is answered at once; a request waits for seven hours, at 0 % processor."""
    frozen(world, at)
    world.scrape, world.clients = NO_METRICS, 1


def speaks_without_metrics(world: World, at: float) -> None:
    s.decode(world, at)
    world.scrape = NO_METRICS
    world.log.append(LogEvent("a request has ended", progress=True))


def tokenizer_hangs(world: World, at: float) -> None:
    """Requests never get to the scheduler, which idles: gauges 0, health 503 which says nothing here."""
    world.idle()
    world.rank.running = world.rank.waiting = 0
    world.rank.kv, world.clients = 0.0, 4
    world.health, world.canary = Health(503, 20.0), lambda asked: None


def both_ranks_wait(world: World, at: float) -> None:
    """Two ranks in lockstep near the longest length: both wait for a collective, one line each a minute."""
    frozen(world, at)
    if at and at % 60 == 0:
        world.log += [WAITS, WAITS]
