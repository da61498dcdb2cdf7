"""Single rules at their edges: whose doing, how sure, and what is said of what cannot be seen."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent.container.port import RunState, StopRequest
from agent.engines.model import EngineKind, FailureClass, LogEvent
from agent.plan.windows import derive
from agent.samples.model import Health, Miss, Missed
from agent.verdict.case import Case
from agent.verdict.kinds import FAULT_KINDS, STALL_KINDS, SUSPECT_REASONS, Kind
from agent.verdict.model import Judged, Remedy
from tests.verdict import scenarios as s
from tests.verdict.series import (
    BUSY_W,
    IDLE_W,
    PP4,
    PP4_CLAIMS,
    Script,
    Series,
    Tick,
    World,
    faults,
    first_fault,
    pp4_watch,
    timeline,
)


def play(script: Script, seconds: float = 900, **how) -> list[Tick]:
    return Series(script, seconds, **how).play()


# ── the runtime and the exit ──────────────────────────────────────────────────────────────────────────────────────


def test_a_paused_container_is_asleep():
    def paused(world: World, at: float) -> None:
        world.state = RunState.PAUSED

    assert play(paused, 10)[-1].verdict.state is Judged.ASLEEP


def test_a_container_that_was_never_started_is_starting():
    def created(world: World, at: float) -> None:
        world.state = RunState.CREATED

    ticks = play(created, 10_000, ready_since=None)
    assert {tick.verdict.state for tick in ticks} == {Judged.STARTING}


@pytest.mark.parametrize(
    ("stop", "state"),
    [(None, Judged.DEAD), (StopRequest(1.0, "TERM"), Judged.STOPPED), (StopRequest(1.0, "KILL"), Judged.DEAD)],
)
def test_a_container_that_is_gone_is_whose_doing(stop, state):
    def gone(world: World, at: float) -> None:
        world.container, world.stop = Missed(Miss.GONE, "no such container"), stop

    assert play(gone, 10)[-1].verdict.state is state


def test_a_container_that_is_being_removed_is_judged_when_it_is_gone():
    def removing(world: World, at: float) -> None:
        world.state, world.stop = RunState.REMOVING, StopRequest(1.0, "KILL")

    assert play(removing, 10)[-1].verdict.state is Judged.UNOBSERVABLE


def test_a_program_that_is_not_in_the_image_is_given_up():
    def missing(world: World, at: float) -> None:
        world.exit(127)

    verdict = play(missing, 10, ready_since=None)[-1].verdict
    assert (verdict.remedy, "not in the image" in verdict.why) == (Remedy.GIVE_UP, True)


def test_a_program_with_instructions_that_the_processor_lacks_is_given_up():
    def illegal(world: World, at: float) -> None:
        world.exit(132)

    verdict = play(illegal, 10, ready_since=None)[-1].verdict
    assert (verdict.remedy, "another processor" in verdict.why) == (Remedy.GIVE_UP, True)


@pytest.mark.parametrize("code", [126, 127, 132])
def test_such_a_code_after_it_was_ready_is_an_exit_like_any_other(code: int):
    def script(world: World, at: float) -> None:
        world.exit(code)

    assert play(script, 10)[-1].verdict.remedy is Remedy.RESTART


@pytest.mark.parametrize("code", [0, 1, 2, 134, 137, 139, 143])
def test_an_exit_that_nobody_asked_for_is_a_fault_whatever_the_code(code: int):
    def script(world: World, at: float) -> None:
        world.exit(code)

    verdict = play(script, 10)[-1].verdict
    assert (verdict.state, verdict.remedy) == (Judged.DEAD, Remedy.RESTART)
    assert str(code) in verdict.why


@pytest.mark.parametrize(
    ("kills", "line", "kind"),
    [
        pytest.param(8, "", "host_oom", id="a kill on this host, and no other cause"),
        pytest.param(8, "AsyncLLM output_handler failed.", "host_oom", id="a kill, and a core that is gone"),
        pytest.param(
            8, "RuntimeError: NCCL error: remote process exited", "host_oom", id="a kill, and a peer that is gone"
        ),
        pytest.param(
            7, "RuntimeError: NCCL error: remote process exited", "exit", id="no kill, and a peer that is gone"
        ),
        pytest.param(8, "CUDA error: an illegal memory access", "exit", id="a kill elsewhere, and a cause of its own"),
        pytest.param(7, "AsyncLLM output_handler failed.", "exit", id="no kill"),
        pytest.param(None, "", "exit", id="nobody can say"),
    ],
)
def test_a_kill_for_memory_is_seen_after_the_exit_too(kills: int | None, line: str, kind: str):
    """The container's own counter has gone with it, and a core that was killed ends in exit code 0."""

    def script(world: World, at: float) -> None:
        s.decode(world, at)
        if at >= 100:
            world.exit(0)
            world.host_oom_kills = kills
            world.log += [line] if line and at == 100 else []

    assert play(script, 110)[-1].verdict.kind == kind


@pytest.mark.parametrize(
    ("kills", "line", "kind"),
    [
        (8, "RuntimeError: Engine core initialization failed. Failed core proc(s): {'EngineCore_0': -9}", "host_oom"),
        (8, "ValueError: No available memory for the cache blocks.", "exit"),
        (7, "RuntimeError: Engine core initialization failed. Failed core proc(s): {'EngineCore_0': -9}", "exit"),
    ],
)
def test_a_kill_for_memory_in_a_load_is_what_its_parent_has_no_word_for(kills: int, line: str, kind: str):
    def script(world: World, at: float) -> None:
        world.scrape = world.health = s.REFUSED
        world.io = at
        if at >= 100:
            world.exit(1)
            world.host_oom_kills = kills
            world.log += [line] if at == 100 else []

    assert play(script, 110, ready_since=None)[-1].verdict.kind == kind


@pytest.mark.parametrize(
    ("stopped", "found"), [((77,), True), ((), False)], ids=["its server is stopped", "all of it runs"]
)
def test_a_stopped_server_is_dead_however_busy_the_rest_of_the_engine_is(stopped: tuple[int, ...], found: bool):
    """The core works off its requests for a server that hands nothing out."""

    def script(world: World, at: float) -> None:
        s.decode(world, at)
        world.scrape = world.health = s.TIMEOUT
        world.stopped = stopped

    fault = first_fault(play(s.then(script), s.FAULT + 300))
    assert (fault is not None) is found
    if fault is not None:
        assert (fault.verdict.kind, fault.at - s.FAULT) == ("unresponsive", 120.0)
        assert "stopped" in fault.verdict.why


def test_a_kill_on_this_host_while_the_engine_runs_on_is_none_of_its_business():
    def script(world: World, at: float) -> None:
        s.decode(world, at)
        world.host_oom_kills = 7 if at < 50 else 8
        if at >= 100:
            world.exit(1)

    assert play(script, 110)[-1].verdict.kind == "exit"


def test_old_failure_lines_are_not_blamed_for_a_later_exit():
    def script(world: World, at: float) -> None:
        s.decode(world, at)
        if at == 100:
            world.log.append("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB")
        if at >= 600:
            world.exit(1)

    assert play(script)[-1].verdict.failure is FailureClass.UNKNOWN


def test_xids_that_need_a_person_outrank_the_exit_that_they_caused():
    def script(world: World, at: float) -> None:
        s.decode(world, at)
        if at == 300:
            world.xids.append(79)
            world.exit(137)

    verdict = play(script, 300)[-1].verdict
    assert (verdict.remedy, verdict.kind) == (Remedy.QUARANTINE, "xid")


# ── cards ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("action", "remedy"), [(0, Remedy.NONE), (None, Remedy.QUARANTINE), (2, Remedy.QUARANTINE)])
def test_xid_154_only_tells_that_the_action_changed(action, remedy):
    def script(world: World, at: float) -> None:
        s.decode(world, at)
        world.recovery = action
        if at == 100:
            world.xids.append(154)

    assert play(script, 100)[-1].verdict.remedy is remedy


def test_a_card_away_for_one_look_is_a_hiccup_and_for_two_is_lost():
    def once(world: World, at: float) -> None:
        s.decode(world, at)
        world.lost = at == 100

    def stays(world: World, at: float) -> None:
        s.decode(world, at)
        world.lost = at >= 100

    assert not faults(play(once))
    found = first_fault(play(stays))
    assert found is not None
    assert (found.at, found.verdict.kind) == (110, "gpu_lost")


def test_cards_that_cannot_be_read_are_blind_and_no_fault():
    def script(world: World, at: float) -> None:
        s.decode(world, at)
        world.gpus = Missed(Miss.BROKEN, "NVML hangs")

    ticks = play(script)
    assert not faults(ticks)
    assert "gpu" in ticks[-1].verdict.blind


def test_a_deployment_without_cards_is_not_blind_for_it():
    def script(world: World, at: float) -> None:
        s.decode(world, at)
        world.gpus = Missed(Miss.UNSUPPORTED, "no cards of its own")

    assert "gpu" not in play(script)[-1].verdict.blind


def test_memory_that_the_driver_does_not_tell_is_no_fault():
    """Unified-memory boards answer NOT_SUPPORTED for memory and nothing else."""

    def script(world: World, at: float) -> None:
        s.decode(world, at)
        world.memory = world.recovery = None

    assert not faults(play(script))


# ── start-up ──────────────────────────────────────────────────────────────────────────────────────────────────────


def loading(world: World, at: float) -> None:
    world.scrape, world.health = s.REFUSED, s.REFUSED
    world.io = at
    if at % 60 == 0:
        world.log.append(f"Loading safetensors checkpoint shards:  {int(at / 10) % 100}% Completed | 1/10")


def test_a_start_shows_phase_and_percent():
    verdict = play(loading, 120, ready_since=None)[-1].verdict
    assert (verdict.state, verdict.phase, verdict.progress) == (Judged.STARTING, "load", 0.12)
    assert "loads the model (12%), 2 min of about 7 min 30 s" in verdict.why


def test_a_start_beyond_the_launchs_own_limit_is_ended_though_it_moves():
    engine = replace(PP4, ready_timeout_s=1200.0)
    watch = derive(engine, PP4_CLAIMS, {})
    found = first_fault(play(loading, 2000, ready_since=None, engine=engine, watch=watch))
    assert found is not None
    assert (found.at, found.verdict.kind) == (1200, "start")


def test_a_start_without_a_stated_limit_goes_on_for_as_long_as_it_moves():
    assert not faults(play(loading, 20_000, ready_since=None))


def test_an_adopted_engine_that_misses_the_first_look_is_given_time():
    """The agent was restarted: this engine has run for hours and is too busy to answer at once."""

    def script(world: World, at: float) -> None:
        s.decode(world, at)
        world.scrape = world.health = s.TIMEOUT if at < 60 else None
        if at >= 60:
            world.health = Health(200, 0.01)

    engine = replace(PP4, ready_timeout_s=1200.0)
    series = Series(script, 300, watch=derive(engine, PP4_CLAIMS, {}), engine=engine, ready_since=None)
    assert not faults(series.play())


# ── the end ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_drain_by_somebody_else_is_waited_for():
    ticks = play(s.then(s.drains, 300), 460)
    assert not faults(ticks), timeline(ticks)
    assert ticks[-1].verdict.state is Judged.UNOBSERVABLE


def test_a_drain_that_never_ends_is_ended():
    """vLLM never exits while a client holds its socket."""
    found = first_fault(play(s.then(s.drains, 300), 900))
    assert found is not None
    assert (found.verdict.state, found.verdict.kind) == (Judged.DEAD, "drain")
    assert found.at <= 300 + 180 + 10


def test_a_drain_that_a_person_asked_for_is_left_to_end():
    def script(world: World, at: float) -> None:
        s.drains(world, at)
        world.stop = StopRequest(1.0, "SIGTERM")

    assert not faults(play(s.then(script, 300), 1800))


def test_a_port_that_refuses_though_the_container_runs_is_dead():
    def script(world: World, at: float) -> None:
        world.scrape, world.health = s.REFUSED, s.REFUSED

    found = first_fault(play(s.then(script, 300)))
    assert found is not None
    assert (found.at, found.verdict.kind) == (330, "refused")


@pytest.mark.parametrize("quiet", [True, False])
def test_an_engine_that_answers_nothing_is_dead_only_when_nothing_of_it_moves(quiet: bool):
    def script(world: World, at: float) -> None:
        s.decode(world, at)
        world.scrape, world.health = s.TIMEOUT, s.TIMEOUT
        world.canary = lambda asked: None
        if quiet:
            world.idle()
            world.cores = 0.0

    found = first_fault(play(s.then(script, 300), 1800))
    assert (found is not None) is quiet
    if found is not None:
        assert (found.verdict.kind, found.at) == ("unresponsive", 420)


def test_an_engine_that_answers_nothing_and_whose_processes_cannot_be_read_is_left_alone():
    def script(world: World, at: float) -> None:
        world.scrape, world.health = s.TIMEOUT, s.TIMEOUT
        world.processes = False

    assert not faults(play(s.then(script, 300), 1800))


def test_one_503_without_a_fatal_line_is_looked_at_twice():
    def script(world: World, at: float) -> None:
        s.decode(world, at)
        world.health = Health(503, 0.1) if at == 300 else Health(200, 0.1)

    assert not faults(play(script))


@pytest.mark.parametrize("kind", [EngineKind.SGLANG, EngineKind.TABBYAPI, EngineKind.LLAMACPP])
def test_503_of_other_engines_says_nothing_about_death(kind: EngineKind):
    """SGLang's health waits for a batch, TabbyAPI's stays bad after one error, llama.cpp's means loading."""

    def script(world: World, at: float) -> None:
        s.decode(world, at)
        world.health = Health(503, 20.0)

    assert not faults(play(script, engine=replace(PP4, kind=kind)))


def test_a_fatal_line_that_tokens_followed_was_not_the_end():
    def script(world: World, at: float) -> None:
        s.decode(world, at)
        if at == 300:
            world.log.append("RuntimeError: CUDA error: device-side assert triggered")

    assert not faults(play(script))


def test_lost_cards_with_tokens_still_flowing_are_no_reason_to_kill():
    def script(world: World, at: float) -> None:
        s.decode(world, at)
        if at == 300:
            world.log.append("Failed to initialize NVML: Unknown Error")

    assert not faults(play(script))


# ── zombies ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_zombie_figures_say_how_many_and_what_they_hold():
    found = first_fault(play(s.then(s.f8)))
    assert found is not None
    assert found.verdict.figures["zombie_requests"] == 3.0
    assert found.verdict.figures["zombie_kv_tokens"] == pytest.approx(240_000)
    assert any("CLOSE_WAIT" in line for line in found.verdict.evidence)


def test_background_responses_have_no_client_by_design():
    def script(world: World, at: float) -> None:
        s.decode(world, at)
        world.clients = 0

    engine = replace(PP4, clientless_work=True)
    ticks = play(script, 1800, engine=engine)
    assert not faults(ticks)
    assert "connections" in ticks[-1].verdict.blind


def test_requests_without_clients_are_only_suspect_where_no_canary_can_settle_it():
    def script(world: World, at: float) -> None:
        s.f8(world, at)
        world.canary = lambda asked: "HTTP 401: no key"

    ticks = play(s.then(script), 700)
    assert not faults(ticks), timeline(ticks)
    assert ticks[-1].verdict.state is Judged.SUSPECT
    assert "canary" in ticks[-1].verdict.blind


def test_short_requests_that_come_and_go_are_no_zombies():
    """Each look falls between two clients now and then, and finds a request of one and the connection of none."""

    def script(world: World, at: float) -> None:
        s.decode(world, at)
        world.clients = 0 if at % 30 else 1

    assert not faults(play(script, 1800))


def test_unknown_connections_never_make_a_zombie():
    def script(world: World, at: float) -> None:
        s.decode(world, at)
        world.clients = Missed(Miss.NO_RIGHTS, "cannot read /proc")

    ticks = play(script, 1800)
    assert not faults(ticks)
    assert "connections" in ticks[-1].verdict.blind


def test_more_requests_than_clients_are_a_suspicion_with_its_number():
    verdict = play(s.n30, 300)[-1].verdict
    assert (verdict.state, verdict.fault, verdict.figures["zombie_requests"]) == (Judged.SUSPECT, False, 7.0)


# ── silence ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_one_wedged_request_is_no_stalled_engine_while_canaries_are_answered():
    """A request that never fits waits for ever; everything else is served."""

    def script(world: World, at: float) -> None:
        world.idle()
        world.clients = 1
        world.rank.waiting = 1

        def step() -> None:
            world.rank.generated += 1

        world.on_token = step

    ticks = play(script, 3600)
    assert not faults(ticks), timeline(ticks)


def test_a_lone_request_that_hangs_stays_suspected_while_a_canary_is_out():
    """A core that hangs does not count the canary, so the one request that runs is the client's."""

    def hangs(world: World, at: float) -> None:
        if at < 300:
            s.decode(world, at, running=1)
        world.canary = lambda asked: None

    states = [tick.verdict.state for tick in play(hangs, 480)]
    assert Judged.SUSPECT in states
    assert set(states[states.index(Judged.SUSPECT) :]) <= {Judged.SUSPECT, Judged.STALLED}


def test_a_model_whose_gauge_never_moves_gets_the_long_window():
    def script(world: World, at: float) -> None:
        rank = world.rank
        world.clients = rank.running = 1
        world.work()
        rank.kv = 0.02
        if at < 600:
            rank.generated += 5000
        world.canary = lambda asked: None

    found = first_fault(play(script, 1800))
    assert found is not None
    assert found.at == pytest.approx(600 + 447, abs=11)


def test_the_windows_are_longer_while_kernels_are_new():
    def fresh(world: World, at: float) -> None:
        s.decode(world, at) if at < 300 else s.f3(world, at - 300)

    found = first_fault(play(fresh, 900, ready_since=100.0))
    assert found is not None
    assert found.at == 290 + 180 + 120


UNREAD = Missed(Miss.BROKEN, "no such file")


@pytest.mark.parametrize("unread", [None, UNREAD])
def test_a_log_that_cannot_be_read_is_not_a_silent_one(unread):
    """Nothing of it answers and nothing moves that can be seen: soon dead where the log is known to be silent too, else
    only after the longest prefill, with a canary that failed."""

    def script(world: World, at: float) -> None:
        world.log_unread = unread
        world.scrape = world.health = Missed(Miss.TIMEOUT, "no answer within 2 s")
        world.load, world.power, world.cores = 0.0, IDLE_W, 0.0
        world.canary = lambda asked: None

    ticks = play(s.then(script), 1200)
    found = first_fault(ticks)
    assert found is not None
    assert (found.verdict.kind, found.at - s.FAULT) == ("unresponsive", 450.0 if unread else 120.0)
    before = next(tick.verdict for tick in reversed(ticks) if tick.at < found.at)
    assert before.state is Judged.UNOBSERVABLE
    assert ("log" in before.blind) is (unread is not None)


@pytest.mark.parametrize("unread", [None, UNREAD])
def test_a_start_without_a_readable_log_is_not_said_to_stand_still(unread):
    """It may write all the time; that it cannot be told is told."""

    def script(world: World, at: float) -> None:
        world.scrape = world.health = Missed(Miss.REFUSED, "connection refused")
        world.load, world.power, world.cores, world.log_unread = 0.0, IDLE_W, 0.0, unread

    ticks = Series(script, 1500, ready_since=None).play()
    assert (first_fault(ticks) is not None) is (unread is None)
    if unread is not None:
        assert "its log cannot be read" in ticks[-1].verdict.why
        assert ticks[-1].verdict.blind == ("log",)


def test_cards_and_processor_at_rest_are_a_second_sign():
    def script(world: World, at: float) -> None:
        s.hang(world, at)
        world.canary = lambda asked: "HTTP 401"
        world.load, world.power, world.cores = 0.0, IDLE_W, 0.0

    found = first_fault(play(s.then(script)))
    assert found is not None
    assert any("at rest" in line for line in found.verdict.evidence)


def test_full_cards_at_full_power_are_no_sign_of_a_hang():
    def script(world: World, at: float) -> None:
        s.hang(world, at)
        world.canary = lambda asked: "HTTP 401"
        world.load, world.power = 1.0, BUSY_W

    ticks = play(s.then(script), 3600)
    assert not faults(ticks)
    assert ticks[-1].verdict.state is Judged.SUSPECT


def test_without_a_known_idle_power_power_says_nothing():
    def script(world: World, at: float) -> None:
        s.f2(world, at)
        world.canary = lambda asked: "HTTP 401"

    assert not faults(play(s.then(script), 3600, learned={}))


def test_compilers_excuse_silence_only_for_a_while():
    def script(world: World, at: float) -> None:
        s.f3(world, at)
        world.compilers = ("ptxas",)

    found = first_fault(play(s.then(script), 3600))
    assert found is not None
    assert s.FAULT + 1200 <= found.at <= s.FAULT + 1200 + 320


JIT = LogEvent("DeepGEMM warmup: m=128", jit=True)


@pytest.mark.parametrize(
    ("line_at", "compilers", "excused"),
    [
        pytest.param(580, (), False, id="a line, then tokens, then silence"),
        pytest.param(590, (), True, id="a line in the look that saw the last token"),
        pytest.param(610, (), True, id="a line in the silence"),
        pytest.param(None, ("ptxas",), True, id="a compiler that is there now"),
        pytest.param(580, ("ptxas",), True, id="an old line, and a compiler that is there now"),
        pytest.param(None, (), False, id="neither"),
    ],
)
def test_a_sign_of_compilers_excuses_until_the_engine_has_moved_after_it(line_at, compilers, excused):
    """The last token is seen at 590 s, the silence is looked at from 600 s to 630 s."""

    def script(world: World, at: float) -> None:
        if at < s.FAULT:
            s.decode(world, at)
        else:
            world.compilers = compilers
        if at == line_at:
            world.log.append(JIT)

    ticks = play(script, 630)
    assert Case(ticks[-1].window, pp4_watch(), PP4).compiling is excused


@pytest.mark.parametrize(("answered", "excused"), [(True, False), (False, True)])
def test_an_engine_without_metrics_has_moved_when_a_canary_got_its_token(answered: bool, excused: bool):
    def script(world: World, at: float) -> None:
        s.f14_idle(world, at)
        if at == 300:
            world.log.append(JIT)
        if answered and at == 320:
            world.log.append(LogEvent("Metrics (ID: ab12): 120 tokens generated", progress=True))

    ticks = play(script, 340, engine=s.TABBY, ready_since=3600.0)
    assert Case(ticks[-1].window, pp4_watch(), s.TABBY).compiling is excused


def test_a_stall_right_after_a_start_with_compilers_is_found_as_soon_as_any_other():
    """The lines of the start-up's compilers are a minute old, tokens have come since: they excuse nothing."""

    def script(world: World, at: float) -> None:
        s.then(s.f3, at=60.0)(world, at)
        if at <= 40:
            world.log.append(JIT)

    def plain(world: World, at: float) -> None:
        s.then(s.f3, at=60.0)(world, at)

    found, as_any = first_fault(play(script, 900)), first_fault(play(plain, 900))
    assert found is not None
    assert as_any is not None
    assert found.at == as_any.at


def test_an_idle_canary_that_fails_once_is_asked_again():
    answers = iter([None, 0.2])

    def script(world: World, at: float) -> None:
        world.idle()
        world.canary = lambda asked: next(answers, 0.2)

    ticks = play(script, 1800)
    assert not faults(ticks)
    assert Judged.SUSPECT in {tick.verdict.state for tick in ticks}


def test_an_idle_engine_is_asked_rarely():
    asked: list[float] = []

    def script(world: World, at: float) -> None:
        world.idle()
        world.canary = lambda at: asked.append(at) or 0.2

    play(script, 3600)
    assert 10 <= len(asked) <= 12


def test_a_busy_engine_is_never_asked():
    asked: list[float] = []

    def script(world: World, at: float) -> None:
        s.decode(world, at)
        world.canary = lambda at: asked.append(at) or 0.2

    play(script, 3600)
    play(s.n1, 129)
    assert not asked


def test_a_canary_that_the_engine_refuses_is_blind_and_not_repeated_at_once():
    asked: list[float] = []

    def script(world: World, at: float) -> None:
        world.idle()
        world.canary = lambda at: (asked.append(at) and None) or "HTTP 404: no such model"

    ticks = play(script, 1200)
    assert not faults(ticks)
    assert "canary" in ticks[-1].verdict.blind
    assert len(asked) <= 4


def test_silence_in_which_nobody_looked_does_not_count():
    """The agent was suspended for an hour in the middle of a hang: it is measured from the first look after."""
    ticks = play(s.then(s.f1_ping), 5000, engine=s.DEV, blackout=(620, 4220))
    found = first_fault(ticks)
    assert found is not None
    assert 4220 + 180 <= found.at <= 4220 + 240


def test_waking_up_with_requests_queued_starts_the_clock_anew():
    """An hour of sleep with work waiting is no silence; the first minutes after it are measured from the waking."""

    def script(world: World, at: float) -> None:
        s.hang(world, at)
        world.rank.asleep = at < 3600
        world.ping = s.TIMEOUT

    found = first_fault(play(s.then(script, 300), 5000, engine=s.DEV))
    assert found is not None
    assert 300 + 3600 + 170 <= found.at <= 300 + 3600 + 240


# ── what is exported ──────────────────────────────────────────────────────────────────────────────────────────────


def test_figures_of_a_busy_engine():
    figures = play(s.n28, 120)[-1].verdict.figures
    assert figures["requests_running"] == 1
    assert figures["client_connections"] == 1
    assert figures["decode_tokens_per_second"] == pytest.approx(50.0)
    assert figures["seconds_since_progress"] == {"0": 0.0}
    assert figures["zombie_requests"] == 0


def test_what_is_not_known_has_no_figure():
    figures = play(s.n20, 100)[-1].verdict.figures
    assert "requests_running" not in figures
    assert "zombie_requests" not in figures
    assert figures["client_connections"] == 3


def test_a_counter_that_began_anew_gives_no_negative_rate():
    rates = [tick.verdict.figures.get("decode_tokens_per_second") for tick in play(s.n15, 400)]
    assert all(rate is None or rate >= 0 for rate in rates)


def test_the_kinds_that_scenarios_produce_are_declared():
    scripts = (s.f2, s.f4, s.f5, s.f7, s.f8, s.f18, s.f20_action, s.f27, s.f30)
    kinds = {tick.verdict.kind for script in scripts for tick in faults(play(s.then(script), 1000))}
    assert kinds <= FAULT_KINDS
    assert STALL_KINDS <= FAULT_KINDS
    assert SUSPECT_REASONS - {Kind.UNADMITTED} <= FAULT_KINDS  # named and left alone
