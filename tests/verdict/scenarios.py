"""The scripts of the fault matrix: what an engine shows in each row."""

from __future__ import annotations

from dataclasses import replace

from agent.container.port import RunState, StopRequest
from agent.engines.model import EngineKind, EngineReading, Pong
from agent.samples.model import Health, Miss, Missed
from tests.verdict.series import IDLE_W, PP4, Rank, Script, World

LLAMA = replace(PP4, kind=EngineKind.LLAMACPP)
SGLANG = replace(PP4, kind=EngineKind.SGLANG, port=30000)
TRTLLM = replace(PP4, kind=EngineKind.TRTLLM)
TABBY = replace(PP4, kind=EngineKind.TABBYAPI, metrics=None)
DEV = replace(PP4, dev_mode=True)

FAULT = 600.0
"""When the fault begins in the rows that must fire; before it the engine decodes as it should."""
TIMEOUT = Missed(Miss.TIMEOUT, "no answer in 5 s")
REFUSED = Missed(Miss.REFUSED, "connection refused")
NO_METRICS = Missed(Miss.HTTP, "HTTP 404")


def decode(world: World, at: float, running: int = 2, pace: float = 50.0) -> None:
    """Requests that decode: tokens and gauge move, cards and processor work."""
    rank = world.rank
    rank.running, rank.waiting = running, 0
    rank.generated += pace * running * 10
    rank.kv = 0.2 + 0.0001 * (at % 1000)
    world.clients = running
    world.work()


def then(fault: Script, at: float = FAULT, before: Script = decode) -> Script:
    """Healthy decoding until the fault; the fault's script sees seconds since it began."""

    def script(world: World, now: float) -> None:
        if now < at:
            before(world, now)
        else:
            fault(world, now - at)

    return script


def nothing(world: World, at: float) -> None:
    world.idle()


def prefill(world: World, at: float, seconds: float, *, gauge: bool = True, flops: bool = False) -> None:
    """A lone cold prefill from 0 to `seconds`, then the request decodes."""
    rank = world.rank
    world.clients = 1
    world.work()
    rank.running = 1
    if at < seconds:
        if gauge:
            rank.kv = 0.4 * at / seconds
        if flops:
            rank.flops = (rank.flops or 1.0) + 1e15
    elif rank.prompt < 500_000:
        rank.prompt += 524288
    else:
        rank.generated += 500


# ── must not fire ─────────────────────────────────────────────────────────────────────────────────────────────────


def n1(world: World, at: float) -> None:
    prefill(world, at, 129)


def n2(world: World, at: float) -> None:
    """A state-space model: not even the gauge moves; the loop answers between chunks, the cards work hard."""
    world.ping = Pong(True)
    world.canary = lambda asked: 130.0
    prefill(world, at, 446, gauge=False)


def n3(world: World, at: float) -> None:
    world.canary = lambda asked: max(1.0, 262.0 - asked)
    if at < 130:
        prefill(world, at, 129)
        world.rank.waiting, world.clients = 1, 2
    else:
        world.rank.waiting = 0
        world.rank.prompt = max(world.rank.prompt, 525_288)
        world.rank.kv = 0.4 + 0.4 * (at - 130) / 129
        if at >= 260:
            world.rank.generated += 500


def n5(world: World, at: float) -> None:
    """A start of 450 s: the port refuses, shards advance."""
    if at < 450:
        world.scrape, world.health = REFUSED, REFUSED
        percent = int(at / 4.5)
        world.log.append(f"Loading safetensors checkpoint shards:  {percent}% Completed | {percent}/100 [00:01<00:01]")
        world.memory = int(at * (1 << 27))
    else:
        world.scrape, world.health = None, Health(200, 0.01)


def n6(world: World, at: float) -> None:
    """Twenty minutes of DeepGEMM: compilers at work, hardly a line of log."""
    world.scrape, world.health = (REFUSED, REFUSED) if at < 1300 else (None, Health(200, 0.01))
    if at == 60:
        world.log.append("Entering DeepGEMM JIT Pre-Compile session. It may take a long time")
    world.compilers = ("cicc", "nvcc") if 60 <= at < 1260 else ()
    world.cores = 0.0


def n7(world: World, at: float) -> None:
    """A new shape at run time: two minutes of ptxas while four requests wait for their next token."""
    world.compilers = ("ptxas",) if 0 <= at < 120 else ()
    world.idle()
    world.rank.running = world.clients = 4
    if at >= 120:
        decode(world, at, 4)


def n7_left(world: World, at: float) -> None:
    """The same, and the clients give up meanwhile: the next step frees their requests."""
    n7(world, at)
    world.canary = lambda asked: max(1.0, 121.0 - asked)
    if at < 120:
        world.clients = 0


def n8(world: World, at: float) -> None:
    decode(world, at)
    if (at // 10) % 3 == 0:  # one sample in three falls into a blip and sees no new token
        world.rank.generated -= 1000
        world.log.append("DeepGEMM warmup: m=128")


def n9(world: World, at: float) -> None:
    """SGLang counts the request in prefill neither as running nor as queued; the tokens it holds grow."""
    rank = world.rank
    rank.running, rank.waiting = 0, 0
    world.clients = 1
    world.work()
    rank.held = 8192.0 * (1 + at / 10) if at < 240 else 0.0
    rank.extra["held"] = rank.held


def n10(world: World, at: float) -> None:
    """Forty minutes of one generation: the counter of finished work is flat, the one of steps rises."""
    rank = world.rank
    rank.running, rank.kv = 1, 0.1
    world.clients = 1
    world.work()
    rank.extra["realtime.decode"] = 10 * at
    rank.steps = ("realtime.decode",)


def n12(world: World, at: float) -> None:
    decode(world, at, 1280)
    world.health = TIMEOUT


def n14(world: World, at: float) -> None:
    decode(world, at)
    if at >= 100:
        world.rank.generated, world.rank.kv = 9e5, 0.3
        world.rank.asleep = True
        world.rank.waiting = 7
        world.idle()


def n14_pause(world: World, at: float) -> None:
    """A pause that keeps requests, in developer mode: only the ping tells it."""
    decode(world, at)
    world.ping = Pong(True, asleep=at >= 100)
    if at >= 100:
        world.rank.generated, world.rank.kv, world.rank.waiting = 9e5, 0.3, 7
        world.idle()


def n15(world: World, at: float) -> None:
    decode(world, at)
    if at == 200:
        world.rank.generated, world.rank.prompt, world.rank.finished = 10.0, 0.0, 0.0
        world.process_start = 2.0


def n16(world: World, at: float) -> None:
    """All requests were aborted and the core has made no step since: gauges of long ago."""
    world.idle()
    world.clients = 0
    rank = world.rank
    if at == 0:
        rank.running, rank.kv = 106, 0.904

    def drop() -> None:
        rank.running, rank.kv = 0, 0.0
        rank.generated += 1

    world.on_token = drop


def n19(world: World, at: float) -> None:
    decode(world, at)
    world.scrape = TIMEOUT if 300 <= at < 360 else None
    world.health = TIMEOUT if 300 <= at < 360 else Health(200, 0.01)


def n19_long(world: World, at: float) -> None:
    """The same for ten minutes: clients connected, processor and cards as under load."""
    decode(world, at)
    if at >= 300:
        world.scrape, world.health = TIMEOUT, TIMEOUT


def n20(world: World, at: float) -> None:
    world.scrape = NO_METRICS
    world.clients = 3 if at < 1500 else 0
    world.work()


def n22(world: World, at: float) -> None:
    """A silence of 100 s that heals."""
    world.canary = lambda asked: max(0.5, 400.0 - asked)
    if 300 <= at < 400:
        world.clients = 2
        world.idle()
    else:
        decode(world, at)


def n25(world: World, at: float) -> None:
    decode(world, at)
    if at == 300:
        world.xids += [43, 45, 63]


def n26(world: World, at: float) -> None:
    decode(world, at)
    if at >= 300:
        world.exit(143)
        world.stop = StopRequest(at=1.0, signal="SIGTERM")


def n27(world: World, at: float) -> None:
    """One of three clients leaves, its request ends a few seconds later: one look may fall between."""
    decode(world, at, 3)
    if at == 300:
        world.clients = 2
    elif at > 300:
        world.rank.running = world.clients = 2


def n28(world: World, at: float) -> None:
    decode(world, at, 1)


def n29(world: World, at: float) -> None:
    """A scraper's keep-alive stands on the port of an idle engine."""
    world.idle()
    world.clients = 1


def n30(world: World, at: float) -> None:
    decode(world, at, 8)
    world.clients = 1


def n32(world: World, at: float) -> None:
    world.idle()
    if at >= 300:
        world.exit(0)
        world.stop = StopRequest(at=1.0, signal="SIGTERM")


def n33(world: World, at: float) -> None:
    """A million tokens, four minutes, and no claim beyond 65,536: the gauge flat too, a canary queues behind it."""
    world.canary = lambda asked: max(1.0, 240.0 - asked)
    prefill(world, at, 240, gauge=False)
    world.rank.kv = 0.1


# ── must fire ─────────────────────────────────────────────────────────────────────────────────────────────────────


def hang(world: World, at: float) -> None:
    """The core stops dead: gauges frozen, health 200, cards and processor as a spinning wait leaves them."""
    world.canary = lambda asked: None
    world.cores, world.load, world.power = 1.0, None, None
    world.clients = 2


def f1_ping(world: World, at: float) -> None:
    hang(world, at)
    world.ping = TIMEOUT


def f2(world: World, at: float) -> None:
    """A kernel spins: 100 % busy at idle power."""
    hang(world, at)
    world.load, world.power = 1.0, IDLE_W * 1.05


def f3(world: World, at: float) -> None:
    """Tensor parallel, a collective hangs: the executor says each minute that nobody takes its block."""
    hang(world, at)
    world.load, world.power = 0.0, IDLE_W
    if at and at % 60 == 0:
        world.log.append("(EngineCore) INFO [shm] No available shared memory broadcast block found in 60 seconds.")


def f4(world: World, at: float) -> None:
    world.exit(0)
    if at == 0:
        world.log += [
            "(APIServer) WARNING [core_client.py:817] [shutdown] MPClient: engine core exited unexpectedly; starting",
            "(APIServer) ERROR [async_llm.py:906] AsyncLLM output_handler failed.",
        ]


def f5(world: World, at: float) -> None:
    hang(world, at)
    world.health = Health(503, 0.01)


def f7(world: World, at: float) -> None:
    """The client has gone, tokens go on, for nobody."""
    decode(world, at)
    world.rank.generated += at
    world.clients = 0


def f8(world: World, at: float) -> None:
    """Held: no tokens, 40 % of the cache, three wait behind it, nobody connected."""
    world.clients = 0
    world.close_wait = 1
    world.rank.running, world.rank.waiting, world.rank.kv = 1, 3, 0.4
    world.canary = lambda asked: None
    world.idle()


def f10(world: World, at: float) -> None:
    """SGLang's scheduler hangs; its snapshot grows old."""
    hang(world, at)
    world.ping = Pong(True, age=at)


def f13(world: World, at: float) -> None:
    """llama.cpp: health 200, everything that asks its loop times out."""
    hang(world, at)
    world.scrape = TIMEOUT


def f14_load(world: World, at: float) -> None:
    """TabbyAPI in a deadlock with clients connected; cards at rest."""
    hang(world, at)
    world.scrape = Missed(Miss.UNSUPPORTED, "this engine exports no metrics")
    world.load, world.power, world.cores = 0.0, IDLE_W, 0.0


def tabby_works(world: World, at: float) -> None:
    decode(world, at)
    world.scrape = Missed(Miss.UNSUPPORTED, "this engine exports no metrics")
    world.log.append("Metrics (ID: ab12): 120 tokens generated in 4.1 seconds (Queue: 0.0 s)")


def f14_idle(world: World, at: float) -> None:
    f14_load(world, at)
    world.clients = 0


def f15(world: World, at: float) -> None:
    """TensorRT-LLM: no iteration since, so the list is empty."""
    hang(world, at)
    world.scrape = EngineReading(ranks=())


def trt_works(world: World, at: float) -> None:
    decode(world, at)
    world.rank.extra["iter"] = at
    world.rank.steps = ("iter",)


def f16(world: World, at: float) -> None:
    """The file system hangs in the middle of a load."""
    world.scrape, world.health = REFUSED, REFUSED
    world.cores, world.io = (1.0, at) if at < 120 else (0.0, 120.0)
    if at < 120:
        world.log.append("Loading safetensors checkpoint shards:  10% Completed | 1/10 [00:01<00:01]")


def f17(world: World, at: float) -> None:
    """Slow, and it moves."""
    world.scrape, world.health = REFUSED, REFUSED
    world.io = at * 1e6
    if at % 200 == 0:
        world.log.append(f"Loading safetensors checkpoint shards:  {int(at / 20)}% Completed | 1/10 [00:01<00:01]")


def f18(world: World, at: float) -> None:
    decode(world, at)
    if at == 0:
        world.xids.append(79)


def f19(world: World, at: float) -> None:
    if at == 0:
        world.xids.append(94)
        decode(world, at)
    else:
        world.exit(134)


def f20_xid(world: World, at: float) -> None:
    decode(world, at)
    if at == 0:
        world.xids.append(119)


def f20_action(world: World, at: float) -> None:
    decode(world, at)
    world.recovery = 1


def starts_and_fails(code: int, *lines: str) -> Script:
    """A start that ends after a minute with these lines."""

    def script(world: World, at: float) -> None:
        world.scrape, world.health = REFUSED, REFUSED
        world.cores = 1.0
        if at >= 60 and world.state is RunState.RUNNING:
            world.exit(code)
            world.log += lines

    return script


def f27(world: World, at: float) -> None:
    world.exit(137)
    world.oom_killed = True


def f27_core(world: World, at: float) -> None:
    """The kernel kills the core: the API server sees it go and ends with 0, and the cgroup's counter goes with it."""
    world.host_oom_kills = 8
    world.exit(0)


def f30(world: World, at: float) -> None:
    world.idle()
    if at == 0:
        world.log.append("Failed to initialize NVML: Unknown Error")


def f32(world: World, at: float) -> None:
    world.container = Missed(Miss.TIMEOUT, "docker did not answer in 30 s")


def f33(world: World, at: float) -> None:
    """Stopped while idle; two clients connect and wait, and the gauges show nothing of it."""
    world.canary = lambda asked: None
    world.idle()
    world.clients = 2 if at >= 60 else 0


def f33_llama(world: World, at: float) -> None:
    """llama.cpp's loop hangs while nothing runs: whoever comes then is shown nowhere, and its metrics are silent."""
    f33(world, at)
    world.scrape, world.ping = TIMEOUT, TIMEOUT


def f34(world: World, at: float) -> None:
    world.exit(137)


def f36(world: World, at: float) -> None:
    """Data parallel, one core is killed: the launcher ends all and exits with 1."""
    world.exit(1)
    if at == 0:
        world.log.append("(MainProcess) ERROR [utils.py:599] Engine core process EngineCore_DP1 died unexpectedly.")


def two_ranks() -> World:
    return World(ranks=[Rank(), Rank()])


def both_decode(world: World, at: float) -> None:
    decode(world, at)
    other = world.ranks[1]
    other.running, other.kv = 1, 0.1 + 0.0001 * (at % 1000)
    other.generated += 300


def one_rank_hangs(world: World, at: float) -> None:
    """Rank 0 goes on, rank 1 has work and stands still; canaries go to rank 1."""
    decode(world, at)
    world.canary = lambda asked: None


def drains(world: World, at: float) -> None:
    """Somebody sent TERM: the port closes, the last request is finished, the process ends."""
    if at == 0:
        world.log.append("(APIServer) INFO [launcher.py:254] [shutdown] API server: shutdown triggered")
        world.log.append("(APIServer) ERROR [async_llm.py:906] AsyncLLM output_handler failed.")
    world.scrape, world.health = REFUSED, REFUSED
