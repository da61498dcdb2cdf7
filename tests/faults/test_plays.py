"""The fault matrix in real time: real containers, the real agent, scaled engines; several rows at once."""

from __future__ import annotations

import pytest

from tests.faults.plays import PLAYS
from tests.faults.stage import Play, Season


def marked(play: Play) -> object:
    return pytest.param(play, id=play.id, marks=[pytest.mark.long] if play.long else [])


@pytest.mark.docker
@pytest.mark.slow
@pytest.mark.timeout(420)
@pytest.mark.parametrize("play", [marked(play) for play in PLAYS])
def test_a_row_played_in_real_time(play: Play, season: Season) -> None:
    """Found in time as what it is, or left alone."""
    took = season.results[play.id].result(timeout=400)
    print(f"{play.id}: {took:.1f} s")
