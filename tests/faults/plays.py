"""The rows of the fault matrix that a simulated engine can play in real time.

Windows (`tests/e2e/recipes.py`) are seconds where a recipe's are minutes: 5 s of silence instead of 180 s, 8 s where no
step can be seen instead of 447 s. A prefill of 129 s lasts 13 s, so that what must be told apart stands in the same
proportion.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

from tests.e2e.rig import wait_for
from tests.faults.stage import Found, Left, On, Play

STALL = 5 + 2 + 4
"""The window, the canary's time-out, and looks on a machine that others use."""
BLIND = 8 + 2 + 5
DEV = {"VLLM_SERVER_DEV_MODE": "1"}
METRICS = ("--enable-metrics",)
LLAMA_METRICS = ("--metrics",)
PROMPT = 520_000
NOTHING: Callable[[On], None] = lambda on: None  # noqa: E731 — a row whose fault is in its launch
BUSY = frozenset({"busy"})
SUSPECT = frozenset({"busy", "suspect"})


def long_prefill(on: On) -> None:
    on.client(sim_prompt_tokens=PROMPT)
    on.now()


def two_prefills(on: On) -> None:
    on.client(2, sim_prompt_tokens=PROMPT // 2, max_tokens=1)
    on.now()


def flat_prefill(on: On) -> None:
    """A model that keeps a state instead of a cache."""
    on.fault("kv_flat")
    on.client(sim_prompt_tokens=PROMPT * 2 // 3)
    on.now()


def a_million_tokens(on: On) -> None:
    """Nothing of it shows, and no window can be known to be long enough."""
    on.fault("kv_flat")
    on.client(sim_prompt_tokens=1_040_000)
    on.now()


def decodes(on: On) -> None:
    on.client()
    on.now()


def compiles(on: On) -> None:
    on.client()
    on.fault("compile")
    on.fault("stall")
    on.now()
    on.later(9)
    on.fault("clear")


def short_compilations(on: On) -> None:
    on.client()
    on.now()
    for _ in range(8):
        on.fault("stall", for_s=6)
        time.sleep(1.2)


def health_hangs(on: On) -> None:
    on.client(24)
    on.fault("health_hang")
    on.now()


def sleeps(on: On) -> None:
    assert on.post("/sleep?level=1") == 200
    on.until("asleep", within=10)
    on.wait_clients()
    on.now()
    on.later(8)
    assert on.post("/wake_up") == 200


def is_paused(on: On) -> None:
    on.client()
    assert on.post("/pause?mode=keep&clear_cache=false") == 200
    on.now()
    on.later(8)
    assert on.post("/resume") == 200


def counters_begin_anew(on: On) -> None:
    on.client()
    on.fault("counters_reset")
    on.now()


def gauges_go_stale(on: On) -> None:
    on.fault("stale_gauge")
    (client,) = on.client()
    client.close()
    on.now()


def stall_heals(on: On) -> None:
    on.client()
    on.fault("stall", for_s=40)
    on.now()


def memory_is_not_told(on: On) -> None:
    """As a GB10 shows itself."""
    on.cards.lose(on.card, "memory")
    on.client()
    on.now()


def xids_that_only_tell(on: On) -> None:
    on.client()
    on.cards.xid(on.card, 43, 45, 63)
    on.now()


def one_client_leaves(on: On) -> None:
    first, *_ = on.client(3)
    first.close()
    on.now()


def keep_alive(on: On) -> None:
    on.stay()
    on.now()


def stalls(on: On) -> None:
    on.client()
    on.fault("stall")
    on.now()


def spins(on: On) -> None:
    """100 % busy at idle power."""
    on.client()
    on.cards.change(on.card, utilization=100, power_mw=39_000)
    on.fault("stall")
    on.now()


def worker_hangs(on: On) -> None:
    on.client()
    on.fault("worker_hang")
    on.now()


def core_dies_and_the_server_stays(on: On) -> None:
    on.client()
    on.fault("health_503_keepalive")
    on.now()


def stalls_while_idle(on: On) -> None:
    on.fault("stall_idle")
    on.now()


def stalls_while_idle_then_clients_come(on: On) -> None:
    on.fault("stall_idle")
    on.wait_clients(2)
    on.now()


def host_memory_ends(on: On) -> None:
    on.client()
    on.fault("eat_memory", "512")
    on.now()


def cards_are_lost_in_the_container(on: On) -> None:
    on.fault("say", "Failed to initialize NVML: Unknown Error")
    on.now()


def server_is_killed(on: On) -> None:
    on.client()
    on.signal("vllm serve", signal.SIGKILL)
    on.now()


def one_core_is_killed(on: On) -> None:
    on.client(2)
    on.signal("EngineCore", signal.SIGKILL, at=1)
    on.now()


def one_core_is_stopped(on: On) -> None:
    on.client(4)
    on.signal("EngineCore", signal.SIGSTOP, at=1)
    on.now()


def idle_core_is_stopped_beside_a_busy_one(on: On) -> None:
    """After it was seen that the rank that is named answers; then a rank is asked by name, as the agent's log says."""
    asks = f"recipe={on.slug} "
    wait_for(
        lambda: any(asks in line and "asks rank" in line for line in on.rig.log.read_text().splitlines()),
        "a rank was asked by its number because it is known that it counts",
        within=60,
    )
    on.client(2, rank="0")
    on.signal("EngineCore", signal.SIGSTOP, at=1)
    on.now()


def card_falls_off_the_bus(on: On) -> None:
    on.client()
    on.cards.xid(on.card, 79)
    on.now()


def xid_then_death(on: On) -> None:
    on.client()
    on.cards.xid(on.card, 94)
    on.fault("exit", "134")
    on.now()


def gsp_times_out(on: On) -> None:
    on.client()
    on.cards.xid(on.card, 119)
    on.now()


def card_wants_a_reset(on: On) -> None:
    on.client()
    on.cards.change(on.card, recovery_action=1)
    on.now()


def stopped_while_it_drains(on: On) -> None:
    on.client()
    on.now()
    on.rig.ok("stop", on.slug, "-q")


def fails(name: str) -> dict[str, str]:
    return {"SIM_FAULT": f"start_fail:{name}"}


def named(on: On) -> bool:
    return any("stale" in text for text in on.told())


def suspected(on: On) -> bool:
    return "suspect" in on.rig.path(on.slug)


def said_slow(on: On) -> bool:
    """Whatever it is that moves."""
    return any(", slow" in why for why in on.whys)


def connections_are_blind(on: On) -> bool:
    return on.value("detector_blind", signal="connections") == 1


def xids_are_counted(on: On) -> bool:
    return all(on.rig.value("recipe_agent_gpu_xid_total", gpu=str(on.card), xid=str(n)) == 1 for n in (43, 45, 63))


PLAYS: list[Play] = [
    # ── must not fire ─────────────────────────────────────────────────────────────────────────────────────────────
    Play("N2", "a prefill that shows no step", flat_prefill, Left(11, SUSPECT, "busy"),
         windows={"stall_blind": 25, "canary_timeout": 15}, env=DEV, long=True),
    Play("N3", "two prefills in a row", two_prefills, Left(15, BUSY, "ready"), long=True),
    Play("N5", "a start of 450 s, scaled", NOTHING, Left(15, frozenset(), "ready"), starting=True,
         env={"SIM_SCALE": "0.03", "SIM_START_S": "450"}, windows={"start_silence": 10}, long=True),
    Play("N6", "a silent start with a compiler at work", NOTHING, Left(12, frozenset(), "ready"), starting=True,
         env={"SIM_START_S": "100", "SIM_SHARDS": "1", "SIM_FAULT": "compile"},
         windows={"start_silence": 2.5, "start_jit": 60}, long=True),
    Play("N7", "compilers at run time", compiles, Left(11, BUSY, "busy"), windows={"jit_limit": 60}),
    Play("N8", "short compilations", short_compilations, Left(11, BUSY, "busy"), long=True),
    Play("N9", "SGLang's lone prefill", long_prefill, Left(11, BUSY, "busy"), "sglang", METRICS),
    Play("N9b", "llama.cpp's long prefill", long_prefill, Left(11, BUSY, "busy"), "llamacpp", LLAMA_METRICS,
         windows={"period": 2}, long=True),
    Play("N10", "SGLang's long generation", decodes, Left(12, BUSY, "busy"), "sglang", METRICS, long=True),
    Play("N10b", "llama.cpp's long generation", decodes, Left(12, BUSY, "busy"), "llamacpp", LLAMA_METRICS,
         windows={"period": 2}),
    Play("N12", "the health path hangs in a burst", health_hangs, Left(12, BUSY, "busy"), long=True),
    Play("N14", "asleep, with a request queued", sleeps, Left(9, frozenset({"asleep", "busy"}), "busy"),
         env=DEV, long=True),
    Play("N14b", "paused, its requests kept", is_paused, Left(9, frozenset({"asleep", "busy", "suspect"}), "busy"),
         env=DEV, long=True),
    Play("N15", "counters begin anew", counters_begin_anew, Left(8, BUSY, "busy"), long=True),
    Play("N16", "gauges that stay after an abort", gauges_go_stale, Left(12, SUSPECT, "ready", named)),
    Play("N22", "a silence that heals", stall_heals, Left(12, SUSPECT, "busy", suspected),
         windows={"suspect": 1.5, "stall": 9, "canary_timeout": 8}),
    Play("N23", "a card that tells nothing of its memory", memory_is_not_told, Left(8, BUSY, "busy"), card=True,
         long=True),
    Play("N25", "Xids that only tell", xids_that_only_tell, Left(8, BUSY, "busy", xids_are_counted), card=True),
    Play("N27", "one of three clients leaves", one_client_leaves, Left(10, BUSY, "busy"), long=True),
    Play("N28", "a long generation", decodes, Left(15, BUSY, "busy"), long=True),
    Play("N29", "a keep-alive stands on the port of an idle engine", keep_alive,
         Left(8, frozenset(), "ready", connections_are_blind), windows={"standing": 3}),
    Play("N33", "a million tokens in four minutes, and no claim beyond 32,768", a_million_tokens,
         Left(235, SUSPECT, "busy"), flags=("--max-model-len", "1048576"), env={"SIM_PREFILL_TOK_S": "430"},
         windows={"period": 2}, derived=True, long=True),
    Play("F17", "a slow start that moves", NOTHING, Left(12, frozenset(), "ready", said_slow), starting=True,
         env={"SIM_FAULT": "slow_start:5"}, windows={"start_alert": 4, "start_silence": 5}, long=True),
    # ── must fire ─────────────────────────────────────────────────────────────────────────────────────────────────
    Play("F1", "a hang, and the loop's ping times out", stalls, Found("stalled", "busy", STALL), env=DEV, long=True),
    Play("F2", "a kernel spins at idle power", spins, Found("stalled", "busy", 45), card=True,
         windows={"canary_timeout": 60, "stall": 12}, long=True),
    Play("F3", "a worker hangs, the executor says so", worker_hangs, Found("stalled", "busy", STALL),
         flags=("-tp", "2")),
    Play("F5", "the core is dead and the server was told to stay", core_dies_and_the_server_stays,
         Found("dead", "engine_dead", 6)),
    Play("F10", "SGLang's scheduler hangs", stalls, Found("stalled", "busy", STALL), "sglang", METRICS),
    Play("F13", "llama.cpp: health answers, its loop does not", stalls, Found("stalled", "busy", 20), "llamacpp",
         LLAMA_METRICS, windows={"period": 2}),
    Play("F14", "an engine without metrics hangs under load", stalls, Found("stalled", "busy", BLIND), "sglang",
         windows={"term_clients": 1}),
    Play("F14b", "an engine without metrics hangs while idle", stalls_while_idle, Found("stalled", "idle", 12),
         "sglang", windows={"canary_idle": 3}, long=True),
    Play("F16", "a start that nothing moves", NOTHING, Found("stalled", "start", 12, "quarantined"), starting=True,
         env={"SIM_FAULT": "start_stuck:0.4"}, windows={"start_silence": 3}, long=True),
    Play("F19", "Xid 94, and the engine dies of it", xid_then_death, Found("dead", "exit", 6), card=True, long=True),
    Play("F23", "SGLang drains without end when it is stopped", stopped_while_it_drains,
         Left(4, frozenset({"busy", "stopping", "releasing"}), "stopped"), "sglang", METRICS, long=True),
    Play("F25", "an unknown flag", NOTHING, Found("failed", "exit", 10, "failed", restarts=0), starting=True,
         env=fails("bad_flag"), long=True),
    Play("F25b", "no kernel for this architecture", NOTHING, Found("failed", "exit", 10, "failed", restarts=0),
         starting=True, env=fails("arch"), long=True),
    Play("F25c", "missing weights", NOTHING, Found("failed", "exit", 15, "failed", restarts=0), starting=True,
         env=fails("missing_weights"), long=True),
    Play("F26", "its port is taken, three times", NOTHING, Found("failed", "exit", 25, "failed", restarts=2),
         starting=True, env=fails("port"), long=True),
    Play("F27", "the kernel kills it for memory", host_memory_ends, Found("dead", "host_oom", 15),
         options=("--memory", "160m")),
    Play("F30", "NVML is lost in the container", cards_are_lost_in_the_container, Found("dead", "nvml_lost", 6),
         long=True),
    Play("F33", "hung while idle, then clients come and wait", stalls_while_idle_then_clients_come,
         Found("stalled", "idle", 15), windows={"canary_idle": 4}),
    Play("F33b", "llama.cpp hung while idle, then clients come and wait", stalls_while_idle_then_clients_come,
         Found("stalled", "idle", 25), "llamacpp", LLAMA_METRICS, windows={"period": 2}, long=True),
    Play("F34", "the API server is killed", server_is_killed, Found("dead", "exit", 6), long=True),
    Play("F36", "one of two cores is killed", one_core_is_killed, Found("dead", "exit", 8), flags=("-dp", "2")),
    Play("F36b", "one of two cores is stopped", one_core_is_stopped, Found("stalled", "busy", STALL + 6),
         flags=("-dp", "2"), long=True),
    Play("F36c", "one of two cores hangs while idle, beside a busy one", idle_core_is_stopped_beside_a_busy_one,
         Found("stalled", "idle", 25, says="rank 1 shows no request"), flags=("-dp", "2"),
         windows={"canary_idle": 4, "canary_idle_timeout": 4}),
    Play("F18", "Xid 79: the card is off the bus", card_falls_off_the_bus,
         Found("quarantined", "xid", 6, "quarantined", restarts=0), card=True),
    Play("F20", "Xid 119: the GSP does not answer", gsp_times_out,
         Found("quarantined", "xid", 6, "quarantined", restarts=0), card=True, long=True),
    Play("F20b", "the driver asks for a reset", card_wants_a_reset,
         Found("quarantined", "recovery_action", 8, "quarantined", restarts=0), card=True, long=True),
]  # fmt: skip
