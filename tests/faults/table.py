"""Row by row: what proves the fault matrix, on paper and in real time. `python -m tests.faults.table` prints the page.

Rows are named as the matrix names them; cases of `tests/verdict/test_fault_matrix.py` and plays find theirs by name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tests.faults.plays import PLAYS
from tests.faults.stage import Found, Play
from tests.verdict.test_fault_matrix import LOUD, QUIET

MATRIX = "tests/verdict/test_fault_matrix.py"
DECIDE = "tests/action/test_decide.py"
SUPERVISION = "tests/e2e/test_supervision_docker.py"
HEALTHY = f"{SUPERVISION}::test_long_prefill_idle_and_eight_answers_on_one_connection_never_fire"
BLIND = f"{SUPERVISION}::test_metrics_that_cannot_be_read_are_never_idle"
STOP = f"{SUPERVISION}::test_docker_stop_by_a_person_is_respected"
LADDER = "tests/daemon/test_ladder.py::test_an_engine_that_would_never_end_is_killed_after_its_bound"
ORPHANS = "tests/daemon/test_orphans_docker.py::test_workers_in_the_hosts_pid_namespace_are_ended_before_the_next_start"
ENDS = f"{DECIDE}::test_what_ignores_term_is_killed_and_what_ignores_kill_needs_a_person"


@dataclass(frozen=True)
class Row:
    """`pure` and `live` are tests beside the cases and plays of the row's name. `why`: what cannot be played, and what
    stands in for it."""

    says: str
    pure: tuple[str, ...] = ()
    live: tuple[str, ...] = ()
    why: str = ""


ROWS: dict[str, Row] = {
    "N1": Row("a cold prefill of the whole context", live=(HEALTHY,)),
    "N2": Row("the same, and no step of it shows"),
    "N3": Row("two such prefills in a row"),
    "N4": Row("idle for a day", live=(HEALTHY,)),
    "N5": Row("a start-up of 450 s"),
    "N6": Row("a start-up in which compilers work for 20 minutes"),
    "N7": Row("compilers at run time while requests wait"),
    "N8": Row("short compilations"),
    "N9": Row("a prefill that is neither running nor queued (SGLang)"),
    "N10": Row("token counters that stand still until a request ends (SGLang, llama.cpp)"),
    "N12": Row("the health path times out in a burst"),
    "N14": Row("asleep or paused with requests queued"),
    "N15": Row("counters that begin anew"),
    "N16": Row("gauges that stay after the last request was aborted"),
    "N19": Row("scrapes that fail under load", live=(BLIND,)),
    "N20": Row("no metrics at all", live=(BLIND,)),
    "N22": Row("a silence that heals"),
    "N23": Row(
        "a card that has no memory figure of its own (GB10)",
        pure=(
            "tests/adapters/test_nvml.py::test_a_card_without_memory_of_its_own_says_so_and_goes_on",
            "tests/verdict/test_rules.py::test_memory_that_the_driver_does_not_tell_is_no_fault",
        ),
    ),
    "N25": Row("Xids that only tell, tokens flow"),
    "N26": Row("a person stops it, exit 143", live=(STOP,)),
    "N27": Row("one of three clients leaves"),
    "N28": Row("a very long answer"),
    "N29": Row("somebody's keep-alive stands on the port"),
    "N30": Row("eight answers on one connection", live=(HEALTHY,)),
    "N31": Row(
        "the host was rebooted",
        pure=(f"{DECIDE}::test_a_reboot_starts_what_should_run_and_costs_nothing",),
        live=("tests/e2e/test_agent_restarts.py::test_after_a_reboot_what_should_run_is_started_with_no_incident",),
    ),
    "N32": Row("a person stops it, exit 0", live=(STOP,)),
    "N33": Row("a prompt far beyond every claim"),
    "F1": Row(
        "the core hangs under load",
        live=(f"{SUPERVISION}::test_a_busy_stall_is_suspected_found_kept_as_evidence_and_restarted",),
    ),
    "F2": Row("a kernel spins: 100 % busy at idle power"),
    "F3": Row("a worker or a collective hangs"),
    "F4": Row(
        "the core is killed, the container exits with 0",
        live=(
            f"{SUPERVISION}::test_a_killed_engine_core_ends_in_a_restart",
            f"{SUPERVISION}::test_an_exit_with_0_is_dead_and_is_restarted",
        ),
    ),
    "F5": Row("the core is killed, the server was told to stay: 503"),
    "F7": Row(
        "requests run on whose client has gone",
        live=(f"{SUPERVISION}::test_zombies_of_an_engine_that_can_abort_are_aborted_without_a_restart",),
    ),
    "F8": Row(
        "requests are held whose client has gone",
        live=(f"{SUPERVISION}::test_requests_whose_client_was_lost_are_a_zombie_and_the_engine_is_restarted",),
    ),
    "F10": Row("SGLang's scheduler hangs, its heartbeat grows old"),
    "F13": Row("llama.cpp's loop hangs, its health path answers"),
    "F14": Row("an engine without metrics hangs, under load and idle (TabbyAPI; played by SGLang without metrics)"),
    "F15": Row(
        "TensorRT-LLM's iterations stop",
        why="the simulator does not speak TensorRT-LLM; its documents are read by `tests/engines`",
    ),
    "F16": Row(
        "a start-up in which nothing moves: tried once more, then a person is needed",
        pure=(f"{DECIDE}::test_a_start_that_stands_still_twice_is_not_tried_a_third_time",),
    ),
    "F17": Row("a slow start-up that moves"),
    "F18": Row("Xid 79: the card is off the bus"),
    "F19": Row("Xid 94, and the engine dies of it"),
    "F20": Row("Xids and recovery actions that ask for a reset"),
    "F21": Row(
        "memory is still held at a restart by what outlived the engine",
        pure=(f"{DECIDE}::test_nothing_starts_onto_what_is_still_held",),
        live=(ORPHANS, "tests/gpu/test_supervision.py::test_what_outlives_its_server_is_ended_before_the_next_start"),
    ),
    "F23": Row("a stop that drains without end", pure=(ENDS,), live=(LADDER,)),
    "F24": Row(
        "a process that not even KILL ends (state D)",
        pure=(ENDS,),
        why="only a driver that hangs makes such a process; the decision is played with one that ignores KILL",
    ),
    "F25": Row("a start that no restart can mend: flag, architecture, weights"),
    "F26": Row("its port is taken: three tries", pure=(f"{DECIDE}::test_a_taken_port_is_tried_three_times",)),
    "F27": Row("the kernel kills it for want of memory"),
    "F29": Row(
        "memory that each restart loses (GB10)",
        pure=("tests/action/test_leak.py::test_the_third_restart_is_not_made_and_the_sentence_has_the_numbers",),
        why="needs a driver that keeps memory of processes that are gone; the decision is played on readings",
    ),
    "F30": Row("the container has lost its cards"),
    "F32": Row(
        "the Docker Engine does not answer",
        live=("tests/faults/test_docker_hangs.py::test_a_docker_engine_that_hangs_costs_no_engine_its_life",),
    ),
    "F33": Row(
        "hung while idle, then clients come and wait",
        live=(f"{SUPERVISION}::test_a_core_that_hung_while_idle_is_found_by_the_canary",),
    ),
    "F34": Row("the API server is killed, the rest lives on", live=(ORPHANS,)),
    "F35": Row("a TERM that never ends it while a client holds on", pure=(ENDS,), live=(LADDER,)),
    "F36": Row("one of several cores is killed or hangs"),
}


def row_of(name: str) -> str:
    """`F14` of `F14b an engine …`."""
    found = re.match(r"[NF]\d+", name)
    assert found is not None, name
    return found[0]


def cases(row: str) -> list[str]:
    """Cases of the pure matrix."""
    return [case.row for case in (*QUIET, *LOUD) if row_of(case.row) == row]


def plays(row: str) -> list[Play]:
    return [play for play in PLAYS if row_of(play.row) == row]


def bound(play: Play) -> str:
    """What is asked of a play, in short."""
    when = ", long" if play.long else ""
    if isinstance(play.ends, Found):
        return f"{play.says}: {play.ends.state} within {play.ends.within:g} s, then {play.ends.then}{when}"
    return f"{play.says}: left alone for {play.ends.seconds:g} s{when}"


HEAD = f"""# The fault matrix, row by row

What must never lead to an act (N) and what must be found in time (F), and the tests that hold each: on paper, with the
clock as an argument (`{MATRIX}` where nothing else is named), and in real time, with a
simulated engine in a container of a real Docker Engine under the real agent (`tests/faults/plays.py` where nothing else
is named). Windows are seconds there where a recipe's are minutes, and prefills are scaled with them; a bound is for a
machine with nothing else to do. `long` is left to `make test-long`.

Made by `python -m tests.faults.table`; a test holds it.
"""


def page() -> Iterator[str]:
    """The page's lines."""
    yield from HEAD.splitlines()
    yield ""
    yield "| row | what happens | on paper | in real time |"
    yield "| --- | --- | --- | --- |"
    for name, row in ROWS.items():
        pure = [*cases(name), *(f"`{test}`" for test in row.pure)]
        live = [
            *map(bound, plays(name)),
            *(f"`{test}`" for test in row.live),
            *([f"not: {row.why}"] if row.why else []),
        ]
        yield f"| {name} | {row.says} | {'; '.join(pure)} | {'; '.join(live)} |"


if __name__ == "__main__":
    print("\n".join(page()))
