"""A pull in words."""

from __future__ import annotations

import asyncio

import pytest

from agent.clock import Instant
from agent.container.port import PullProgress
from agent.image.buildplan import BuildPlan
from agent.image.dockerfile import Dockerfile
from agent.image.follow import Following
from agent.image.port import BuildEvent
from agent.image.progress import Pace, describe
from agent.image.steady import Steady
from tests.image.plans import Heard, progress

GIB = 1 << 30


@pytest.mark.parametrize(
    ("fetched", "rate", "text", "ratio"),
    [
        (progress(0, None, 0, 0, "Pulling from tiny"), None, "pulling X: pulling from tiny", None),
        (progress(0, None, 0, 0), None, "pulling X: asking the registry", None),
        (progress(0, None, 1, 12), None, "pulling X: 1 of 12 layers", None),
        (
            progress(12 * GIB, 48 * GIB, 3, 12),
            0.5 * GIB,
            "pulling X: 3 of 12 layers, 12 GiB of 48 GiB, 512 MiB/s, 1 min 12 s left",
            0.25,
        ),
        (progress(GIB, 2 * GIB, 0, 1), 0.0, "pulling X: 0 of 1 layers, 1 GiB of 2 GiB, nothing comes", 0.5),
        (progress(GIB, GIB, 0, 1), 5.0, "pulling X: 0 of 1 layers, 1 GiB fetched, unpacking", 0.99),
        (progress(GIB, GIB, 1, 1), 5.0, "pulling X: 1 of 1 layers, 1 GiB fetched", 1.0),
    ],
)
def test_what_a_person_is_told(fetched: PullProgress, rate: float | None, text: str, ratio: float | None) -> None:
    """Layers, bytes, rate and time left, each as soon as it is known and no longer than it means something."""
    assert describe("X", fetched, rate) == {"text": text, "ratio": ratio, "stage": "pulling X"}


def test_the_rate_is_that_of_the_last_while() -> None:
    """A burst at the start is forgotten, and a single look has no rate."""
    pace = Pace()
    assert pace.note(0.0, 0) is None
    assert pace.note(0.5, 500) is None
    assert pace.note(2.0, 2000) == 1000
    for second in range(3, 40):
        rate = pace.note(float(second), 2000 + 10 * (second - 2))
    assert rate == 10


class Still:
    """A clock that a test sets."""

    mono = 0.0

    def now(self) -> Instant:
        return Instant(self.mono, 0.0)


async def test_the_last_word_before_a_silence_is_said_in_time() -> None:
    """Nothing more comes for hours, and a person still reads what the step said last."""
    clock, heard = Still(), Heard()
    steady = Steady(heard, clock, 0.02)
    for text in ("a 1", "a 2", "a 3"):
        steady({"text": text, "stage": "a"})
    assert heard.texts == ["a 1"]
    await asyncio.sleep(0.1)
    assert heard.texts == ["a 1", "a 3"]


async def test_what_goes_on_is_said_at_a_steady_pace() -> None:
    """What is new passes at once, and the last word arrives."""
    clock, heard = Still(), Heard()
    steady = Steady(heard, clock, 1.0)
    for text in ("a 1", "a 2", "b 1", "note", "note", "a 3", "a 4"):
        steady({"text": text, "stage": text.split()[0] if " " in text else None})
    clock.mono = 1.0
    for text in ("a 5", "a 6"):
        steady({"text": text, "stage": "a"})
    steady.flush()
    steady.flush()
    assert heard.texts == ["a 1", "b 1", "note", "note", "a 3", "a 5", "a 6"]


@pytest.mark.parametrize(
    ("said", "last"),
    [
        (("looking\n", "\x1b[91mno match\n\x1b[0m"), "no match"),
        (("\x1b[91mno match\n\x1b[0m", "looking\n"), "no match"),
        (("looking\n", "still looking\n"), "still looking"),
        ((), None),
    ],
    ids=["in order", "in the other order", "nothing on standard error", "nothing at all"],
)
def test_the_reason_is_looked_for_on_standard_error(said: tuple[str, ...], last: str | None) -> None:
    """Two pipes have no order between them, and what a step prints along the way is no reason."""
    following = Following(BuildPlan("s", "x:1", "base:1", {}, ()), Dockerfile("", (), {}, ()), Heard())
    for output in said:
        following.note(BuildEvent(1, 1, output))
    text = following.failure("it failed").text
    assert text.endswith(f"its last line: {last}" if last else "it failed")
