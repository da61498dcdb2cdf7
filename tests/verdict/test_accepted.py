"""A start is over when the engine has shown what its profile wants."""

from __future__ import annotations

import pytest

from agent.plan.model import Acceptance
from agent.verdict.accepted import hold_back, wants
from agent.verdict.model import Judged, Remedy, Verdict


@pytest.mark.parametrize(
    ("state", "shown", "expect", "remedy"),
    [
        (Judged.READY, None, Judged.STARTING, Remedy.NONE),
        (Judged.BUSY, None, Judged.STARTING, Remedy.NONE),
        (Judged.READY, (True, "all"), Judged.READY, Remedy.NONE),
        (Judged.READY, (False, "no token"), Judged.DEAD, Remedy.GIVE_UP),
        (Judged.STARTING, (False, "old"), Judged.STARTING, Remedy.NONE),
        (Judged.DEAD, None, Judged.DEAD, Remedy.NONE),
    ],
)
def test_only_a_serving_engine_is_held_back(
    state: Judged, shown: tuple[bool, str] | None, expect: Judged, remedy: Remedy
) -> None:
    """Faults pass through; what serves is starting until it has shown what is wanted, and is given up if it cannot."""
    found = hold_back(Verdict(state, "why"), shown)
    assert found.state is expect
    assert found.remedy is remedy


def test_what_cannot_be_looked_for_is_neither_seen_nor_missing() -> None:
    """Lines of a log that cannot be read: not ready, and nothing is given up."""
    found = hold_back(Verdict(Judged.READY, "ready"), None, "no such file")
    assert (found.state, found.remedy, found.phase) == (Judged.STARTING, Remedy.NONE, "acceptance")
    assert "its log cannot be read: no such file" in found.why


def test_a_profile_that_wants_nothing_holds_nothing_back() -> None:
    """No acceptance, no trial."""
    assert not wants(Acceptance())
    assert wants(Acceptance(stream_tokens=8))
