"""An operation that was noted and not begun is told from one that is under way."""

from __future__ import annotations

import pytest

from agent.action.operation import Operation, begun, interrupted
from agent.action.record import Deployment, Desired, Reason, Takedown

DOWN = Takedown(Reason.RESTART, "asked")
STANDING = Deployment("a", "plan1", generation=3)


@pytest.mark.parametrize(
    ("kind", "record", "is_begun"),
    [
        ("deploy", Deployment("a", "plan2", generation=3), True),
        ("deploy", Deployment("a", "plan1", generation=3, next_plan="plan2"), True),
        ("deploy", Deployment("a", "plan1", generation=3, returning="plan2"), True),
        ("deploy", STANDING, False),
        ("stop", Deployment("a", "plan1", desired=Desired.STOPPED), True),
        ("stop", Deployment("a", "plan1", desired=Desired.REMOVED), True),
        ("stop", STANDING, False),
        ("remove", Deployment("a", "plan1", desired=Desired.REMOVED), True),
        ("remove", Deployment("a", "plan1", desired=Desired.STOPPED), False),
        ("restart", Deployment("a", "plan1", generation=3, takedown=DOWN), True),
        ("restart", Deployment("a", "plan1", generation=4), True),
        ("restart", STANDING, False),
        ("start", STANDING, True),
    ],
)
def test_whether_the_wish_reached_the_record(kind: str, record: Deployment, is_begun: bool) -> None:
    asked = Operation("1", "a", kind, created=0.0, plan_id="plan2" if kind == "deploy" else None, generation=3)
    assert begun(asked, record) is is_begun


def test_one_that_never_began_says_what_to_do() -> None:
    ended = interrupted(Operation("1", "a", "stop", created=0.0), now=5.0)
    assert (ended.state, ended.ended) == ("failed", 5.0)
    assert ended.error is not None
    assert ended.error["code"] == "operation.interrupted"
    assert ended.error["message"] == "cannot stop a: the agent ended before it had begun"
    assert ended.error["hint"] == "nothing was done: ask again"
