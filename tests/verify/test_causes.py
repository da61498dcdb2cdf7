"""Why an engine is slow: every sign alone, their order, and what is not known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agent.clock import Instant
from agent.host.gpu import Gpu, GpuProcess, Shares
from agent.host.reading import Known, Reading, Unknown
from agent.plan.model import Claim
from agent.quantity import Bytes
from agent.verify.causes import Neighbour, Signs, causes, guests, restart_mends, sentence, unlike
from agent.verify.live import Compared
from tests.preflight.build import card, need, plan

CLAIM = Claim("decode_tok_s", 60.0, 1, 32_768, False, "perf_points[0]", "measured on prose")
SLOW = Compared(CLAIM, 24.0, 1, 30_000.0)
AT = Instant(1.0, 2.0)
LOADED: dict[str, Any] = {"utilization": 0.9, "sm_clock_mhz": 1400, "sm_clock_max_mhz": 1410, "pcie_width": 4,
                          "memory_clock_mhz": 1590, "memory_clock_max_mhz": 1590, "throttle": ()}  # fmt: skip


def gpu(**readings: Any) -> Gpu:
    return card(0, **{**LOADED, **readings})


def user(pid: int, kind: str = "compute", gib: float | None = None) -> tuple[GpuProcess, ...]:
    return (GpuProcess(pid, Unknown("not asked") if gib is None else Known(Bytes.gib(gib), AT), kind),)


def shares(**of: float) -> dict[str, Reading[Shares]]:
    """On card 0: `p7=0.6` for 60 % of pid 7."""
    return {"GPU-0": Known({int(pid[1:]): share for pid, share in of.items()}, AT)}


HEALTHY = Signs(
    SLOW, (gpu(processes=user(7)),), frozenset({7}), zombies=0.0, acceptance=0.7, best_acceptance=0.75, busiest=0.5
)
OTHER = Neighbour("other", frozenset({"GPU-0"}), frozenset({4121}), 3.0)
TABLE: list[tuple[str, Signs, str]] = [
    ("zombies", replace(HEALTHY, zombies=2.0), "2 requests run that nobody waits for"),
    ("zombies", replace(HEALTHY, zombies=2.0, settled=False), "2 requests run beyond the clients that are connected"),
    ("throttling", replace(HEALTHY, cards=(gpu(throttle=("hw_thermal", "sw_power_cap")),)), "throttled (hw_thermal)"),
    ("clocks", replace(HEALTHY, cards=(gpu(sm_clock_mhz=210),)), "SM clock is 210 of 1410 MHz"),
    ("clocks", replace(HEALTHY, cards=(gpu(memory_clock_mhz=405),)), "memory clock is 405 of 1590 MHz"),
    ("pcie", replace(HEALTHY, cards=(gpu(pcie_width=1),)), "1 of 4 PCIe lanes"),
    (
        "foreign_load",
        replace(HEALTHY, cards=(gpu(processes=user(4121)),), shares=shares(p7=0.4, p4121=0.55)),
        "pid 4121 computes on card 0 too, 55% of the time",
    ),
    (
        "foreign_load",
        replace(HEALTHY, cards=(gpu(processes=user(4121)),), neighbours=(OTHER,)),
        "other computes on card 0",
    ),
    ("foreign_load", replace(HEALTHY, neighbours=(replace(OTHER, pids=None),)), "other computes on card 0 too"),
    ("foreign_load", replace(HEALTHY, cards=(gpu(processes=Unknown("no")),), neighbours=(OTHER,)), "other computes"),
    ("foreign_load", replace(HEALTHY, own=None, neighbours=(OTHER,)), "other computes on card 0 too"),
    (
        "foreign_load",
        replace(
            HEALTHY,
            cards=(gpu(processes=user(4121)),),
            neighbours=(replace(OTHER, running=None),),
            shares=shares(p4121=0.3),
        ),
        "other computes on card 0 too, 30% of the time",
    ),
    ("foreign_load", replace(HEALTHY, neighbours=(OTHER, replace(OTHER, slug="third"))), "other and third compute on"),
    ("acceptance", replace(HEALTHY, acceptance=0.3), "accepted at 0.30, and were at 0.75"),
    ("contexts", replace(HEALTHY, compared=replace(SLOW, context=90_000.0)), "hold 90,000 tokens"),
    ("waiting", replace(HEALTHY, cards=(gpu(utilization=0.12),), busiest=0.02), "gloo or NCCL"),
]


@pytest.mark.parametrize(("name", "signs", "words"), TABLE, ids=[f"{row[0]}-{at}" for at, row in enumerate(TABLE)])
def test_each_sign_is_named_alone(name: str, signs: Signs, words: str) -> None:
    """One thing is wrong: that one is said, with its figures."""
    (cause,) = causes(signs)
    assert cause.name == name
    assert words in cause.text
    assert cause.fault is (name != "contexts")


def test_a_stranger_beside_a_neighbour_is_told_apart() -> None:
    """The deployment by its name, the other by its pid."""
    users = (*user(7), *user(4121), *user(9000))
    found = causes(
        replace(HEALTHY, cards=(gpu(processes=users),), neighbours=(OTHER,), shares=shares(p7=0.3, p9000=0.2))
    )
    assert [cause.text for cause in found] == [
        "other computes on card 0 too",
        "pid 9000 computes on card 0 too, 20% of the time",
    ]


def test_the_likeliest_comes_first() -> None:
    """Everything at once, in the order in which a person would look."""
    there = (*user(7), *user(4121), *user(9000))
    bad = gpu(throttle=("hw_thermal",), sm_clock_mhz=210, pcie_width=1, processes=there)
    longer, busy = replace(SLOW, context=90_000.0), shares(p7=0.5, p4121=0.5)
    found = causes(replace(HEALTHY, compared=longer, cards=(bad,), zombies=1.0, acceptance=0.1, shares=busy))
    names = ["zombies", "throttling", "clocks", "pcie", "foreign_load", "acceptance", "contexts", "foreign_memory"]
    assert [cause.name for cause in found] == names


@pytest.mark.parametrize(
    "signs",
    [
        HEALTHY,
        Signs(SLOW),
        Signs(SLOW, (card(0),)),
        replace(HEALTHY, cards=(gpu(utilization=0.0, sm_clock_mhz=210, pcie_width=1, processes=user(7)),)),
        replace(HEALTHY, cards=(gpu(processes=user(4121)),), own=None),
        replace(HEALTHY, cards=(gpu(processes=user(4121, "graphics")),)),
        replace(HEALTHY, cards=(gpu(throttle=("sw_power_cap",), processes=user(7)),)),
        replace(HEALTHY, cards=(gpu(utilization=0.12, processes=user(7)),), busiest=None),
        replace(HEALTHY, cards=(gpu(utilization=0.12, processes=user(7)),), busiest=0.4),
        replace(HEALTHY, cards=(gpu(processes=user(4121)),), neighbours=(replace(OTHER, running=0.0),)),
        replace(HEALTHY, neighbours=(replace(OTHER, running=None),)),
        replace(HEALTHY, neighbours=(replace(OTHER, cards=frozenset({"GPU-7"})),)),
    ],
    ids=["healthy", "nothing known", "an unreadable card", "resting", "own pids unknown", "a desktop", "a chosen limit",
         "processes unknown", "one process at work", "a neighbour that rests", "a neighbour of whom nothing is known",
         "a neighbour on another card"],
)  # fmt: skip
def test_what_is_healthy_or_unknown_is_no_cause(signs: Signs) -> None:
    """Unknown settles nothing, and a card without work rests."""
    assert causes(signs) == ()


def beside(*guests: tuple[GpuProcess, ...], **more: Any) -> Signs:
    """A healthy engine with these processes on its card."""
    there = tuple(one for guest in guests for one in guest)
    return replace(HEALTHY, cards=(gpu(processes=user(7) + there),), **more)


NO_SHARES: dict[str, Reading[Shares]] = {"GPU-0": Unknown("no permission to ask NVML for it")}


@pytest.mark.parametrize(
    ("signs", "name", "text"),
    [
        (beside(user(4121, gib=12), shares=shares(p7=0.9)), "foreign_memory",
         "pid 4121 holds 12 GiB of memory on card 0, no computation seen"),
        (beside(user(4121), shares=shares(p7=0.9)), "foreign_memory",
         "pid 4121 holds memory on card 0, no computation seen"),
        (beside(user(4121, gib=12), shares=shares(p7=0.9, p4121=0.02)), "foreign_memory",
         "pid 4121 holds 12 GiB of memory on card 0, computing 2% of the time"),
        (beside(user(4121, gib=12), user(4122, gib=8), shares=shares(p7=0.9)), "foreign_memory",
         "pid 4121, pid 4122 hold 20 GiB of memory on card 0, no computation seen"),
        (beside(user(4121, gib=12), shares=NO_SHARES), "foreign_unknown",
         "pid 4121 holds 12 GiB of memory on card 0, unknown whether computing (no permission to ask NVML for it)"),
        (beside(user(4121, gib=12)), "foreign_unknown",
         "pid 4121 holds 12 GiB of memory on card 0, unknown whether computing (NVML was not asked)"),
        (beside(user(4121, gib=12), shares=shares()), "foreign_unknown",
         "pid 4121 holds 12 GiB of memory on card 0, unknown whether computing "
         "(NVML shows no computation of the engine either)"),
        (beside(user(4121, gib=12), neighbours=(replace(OTHER, running=None),), shares=shares(p7=0.9)),
         "foreign_memory", "other holds 12 GiB of memory on card 0, no computation seen"),
        (beside(user(4121, gib=12), neighbours=(replace(OTHER, running=None),), shares=NO_SHARES), "foreign_unknown",
         "other holds 12 GiB of memory on card 0, unknown whether computing (no permission to ask NVML for it)"),
    ],
    ids=["held", "how much is not told", "next to nothing", "two", "not to be had", "not asked", "shows nobody",
         "a neighbour of whom nothing is known", "the same, not to be had"],
)  # fmt: skip
def test_who_is_not_seen_to_compute_is_named_and_is_no_cause(signs: Signs, name: str, text: str) -> None:
    """Memory that is held slows nobody; what is not known is said as not known."""
    (found,) = causes(signs)
    assert (found.name, found.text, found.fault) == (name, text, False)


def test_thirty_that_hold_memory_are_one_note() -> None:
    many = tuple(one for pid in range(4100, 4130) for one in user(pid, gib=1))
    (found,) = causes(beside(many, shares=shares(p7=0.9)))
    assert found.text == (
        "pid 4100, pid 4101, pid 4102, pid 4103, pid 4104 and 25 more hold 30 GiB of memory on card 0, "
        "no computation seen"
    )


def test_memory_that_is_held_is_told_after_every_cause_and_never_as_the_likely_one() -> None:
    found = causes(beside(user(4121, gib=12), acceptance=0.3, shares=shares(p7=0.9)))
    said = sentence(SLOW, found)
    assert "likely because draft tokens are accepted at 0.30" in said
    assert said.endswith("; also: pid 4121 holds 12 GiB of memory on card 0, no computation seen")


@pytest.mark.parametrize(
    ("known", "mends"), [(shares(p7=0.9), True), (NO_SHARES, False), (shares(p7=0.9, p4121=0.5), False)]
)
def test_a_restart_mends_nothing_where_a_guest_may_compute(known: dict[str, Reading[Shares]], mends: bool) -> None:
    """It would come back beside the same guest."""
    assert restart_mends(causes(beside(user(4121), acceptance=0.3, shares=known))) is mends


@pytest.mark.parametrize(
    ("signs", "names"),
    [
        (beside(), []),
        (beside(user(4121)), ["pid 4121"]),
        (beside(user(4121), neighbours=(OTHER,)), []),
        (beside(user(4121), neighbours=(replace(OTHER, running=0.0),)), []),
        (beside(user(4121), neighbours=(replace(OTHER, running=None),)), ["other"]),
        (beside(user(4121, "graphics")), []),
        (beside(user(4121), own=None), []),
    ],
    ids=["alone", "a stranger", "at work", "at rest", "not known", "a desktop", "own pids unknown"],
)
def test_it_is_asked_who_computes_only_where_nothing_else_tells(signs: Signs, names: list[str]) -> None:
    assert [guest.name for guest in guests(signs)] == names


@pytest.mark.parametrize(
    ("needs", "cards", "words"),
    [
        ((need("gpu.model", "cmp-170hx"), need("gpu.count", 2)), 2, ""),
        ((need("gpu.model", "cmp-170hx"),), 2, ""),
        ((need("gpu.model", "cmp-170hx"), need("gpu.count", 4)), 2, "on 4 cards, and here are 2"),
        ((need("gpu.model", "rtx-4090"),), 1, "on rtx-4090, and here is NVIDIA CMP 170HX"),
        ((need("gpu.model", "cmp-17"),), 1, "on cmp-17, and here is NVIDIA CMP 170HX"),
        ((need("gpu.model", "cmp-170hx"),), 0, "cannot be read"),
        ((need("gpu.count", 2),), 2, "does not say"),
    ],
)
def test_other_hardware_is_known_as_other(needs: tuple[Any, ...], cards: int, words: str) -> None:
    """Card and count as the recipe states them; what it does not state is not taken as the same."""
    found = unlike(plan(*needs), tuple(card(number) for number in range(cards)))
    assert (words in found) if words else found == ""


def test_a_person_reads_how_slow_by_which_claim_and_why() -> None:
    """Rate, ratio, claim with its note, the likely cause, and what else is seen."""
    found = causes(replace(HEALTHY, zombies=2.0, acceptance=0.3))
    assert sentence(SLOW, found) == (
        "decodes 24.0 tok/s with 1 running, 0.40 of what is claimed (60 tok/s, perf_points[0], measured on prose); "
        "likely because 2 requests run that nobody waits for; "
        "also: draft tokens are accepted at 0.30, and were at 0.75"
    )
