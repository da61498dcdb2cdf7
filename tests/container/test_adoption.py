"""After a kill between any two steps the agent knows what to do first."""

from __future__ import annotations

import pytest

from agent.container.adoption import Found, Resume, resumption, sort_out
from agent.container.port import ContainerView, RunState


def box(generation: int, state: RunState, *, plan: str = "now", slug: str = "r", error: str = "") -> ContainerView:
    name = f"{slug}-{plan}-{generation}"
    return ContainerView(name, name, slug, plan, generation, state, error=error)


RUNS, ENDED, CREATED = RunState.RUNNING, RunState.EXITED, RunState.CREATED


@pytest.mark.parametrize(
    ("containers", "current", "leftovers", "following"),
    [
        ([], None, [], 1),
        ([box(3, RUNS)], "r-now-3", [], 4),
        ([box(3, RUNS), box(9, RUNS, slug="other")], "r-now-3", [], 4),
        ([box(3, ENDED), box(4, CREATED)], "r-now-4", ["r-now-3"], 5),
        ([box(3, ENDED), box(2, RUNS)], "r-now-3", ["r-now-2"], 4),
        ([box(5, RUNS, plan="old"), box(4, RUNS)], "r-now-4", ["r-old-5"], 6),
        ([box(1, ENDED, plan="old"), box(2, ENDED, plan="old"), box(3, RUNS, plan="old")], None, "321", 4),
    ],
)
def test_the_current_one_has_the_plan_and_the_highest_generation(
    containers: list[ContainerView], current: str | None, leftovers: list[str] | str, following: int
) -> None:
    found = sort_out(containers, "r", "now")
    assert (found.current.id if found.current else None) == current
    if leftovers == "321":  # what runs first, then the oldest
        leftovers = ["r-old-3", "r-old-1", "r-old-2"]
    assert [view.id for view in found.leftovers] == leftovers
    assert found.next_generation == following


def test_a_generation_is_never_used_twice_also_where_its_container_is_gone() -> None:
    assert sort_out([box(3, ENDED)], "r", "now", generation=7).next_generation == 8
    assert sort_out([], "r", "now", generation=7).next_generation == 8


@pytest.mark.parametrize(
    ("containers", "resume", "which"),
    [
        ([], Resume.CREATE, None),
        ([box(1, CREATED)], Resume.START, "r-now-1"),
        ([box(1, CREATED, error="no such file")], Resume.REPLACE, "r-now-1"),
        ([box(1, RUNS)], Resume.ADOPT, "r-now-1"),
        ([box(1, RunState.PAUSED)], Resume.ADOPT, "r-now-1"),
        ([box(1, RunState.RESTARTING)], Resume.ADOPT, "r-now-1"),
        ([box(1, ENDED)], Resume.JUDGE, "r-now-1"),
        ([box(1, RunState.DEAD)], Resume.JUDGE, "r-now-1"),
        ([box(1, RunState.REMOVING)], Resume.WAIT, "r-now-1"),
        ([box(1, ENDED), box(2, CREATED)], Resume.START, "r-now-2"),
        ([box(1, RUNS), box(2, CREATED)], Resume.CLEAR, "r-now-1"),
        ([box(1, RUNS, plan="old"), box(2, RUNS)], Resume.CLEAR, "r-old-1"),
        ([box(1, ENDED, plan="old")], Resume.CLEAR, "r-old-1"),
    ],
)
def test_a_start_resumes_where_the_kill_fell(
    containers: list[ContainerView], resume: Resume, which: str | None
) -> None:
    step = resumption(sort_out(containers, "r", "now"))
    assert step.resume is resume
    assert (step.container.id if step.container else None) == which
    assert step.why


def test_every_state_of_a_container_has_an_answer() -> None:
    for state in RunState:
        assert resumption(Found(box(1, state), (), 2)).why
