"""Which samples say that a process computed of late."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from agent.adapters.nvml_shares import shares_of

NOW = 1_800_000_000.0


def sample(pid: int = 7, sm: int = 60, ago: float = 2.0) -> Any:
    return SimpleNamespace(pid=pid, smUtil=sm, timeStamp=int((NOW - ago) * 1e6))


@pytest.mark.parametrize(
    ("samples", "expect"),
    [
        ((), {}),
        ((sample(), sample(8, 3)), {7: 0.6, 8: 0.03}),
        ((sample(sm=20), sample(sm=60), sample(sm=0)), {7: 0.6}),
        ((sample(ago=11.0),), {}),
        ((sample(ago=-3600.0),), {}),
        ((sample(pid=0, sm=0, ago=NOW), sample(), sample(pid=0)), {7: 0.6}),
        ((sample(sm=4_294_967), sample(8)), {8: 0.6}),
    ],
    ids=["nobody", "two", "several of one", "long ago", "not yet", "rows of nobody", "no percentage"],
)
def test_a_sample_counts_that_is_of_now_and_of_somebody(samples: tuple[Any, ...], expect: dict[int, float]) -> None:
    assert shares_of(samples, NOW) == expect
