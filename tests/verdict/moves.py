"""Random traffic: what clients do, one move after the other."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st


@dataclass(frozen=True)
class Move:
    """What clients do at once, and how long nothing else happens then."""

    what: str
    count: int
    prompt: int
    answer: int
    seconds: int


def schedules(most: int) -> st.SearchStrategy[list[Move]]:
    """Up to five moves of up to so many clients at once."""
    moves = st.builds(
        Move,
        st.sampled_from(["arrive", "arrive", "leave", "wait"]),
        st.integers(1, most),
        st.sampled_from([16, 2_000, 60_000, 520_000]),
        st.sampled_from([1, 20, 200]),
        st.integers(1, 30).map(lambda looks: looks * 10),
    )
    return st.lists(moves, min_size=1, max_size=5)
