"""What the agent did not make is never listed, and what a kept plan needs neither."""

from __future__ import annotations

from agent.image.lock import Lock
from agent.image.port import ImageReady, Made
from agent.image.retention import YOUNG_S, removable

NOW = 1_000_000.0
OLD = NOW - YOUNG_S


def made(number: int, *names: str, parent: int | None = None, created: float = OLD) -> Made:
    return Made(f"sha256:{number}", "tiny", names, 10, created, None if parent is None else f"sha256:{parent}")


def lock(number: int, name: str, how: str, base: int | None = None, base_how: str = "") -> Lock:
    under = None if base is None else ImageReady(f"base:{base}", None, f"sha256:{base}")
    return Lock(ImageReady(name, None, f"sha256:{number}"), how, under, base_how)


def names(*args: object, **more: object) -> list[str]:
    return [one.image for one in removable(*args, **more)]  # type: ignore[arg-type]


def test_an_image_that_a_kept_plan_uses_stays_with_its_base() -> None:
    """The running plan's and the last good one's."""
    images = (made(1, "recipe-agent/tiny:1"), made(2, "recipe-agent/tiny:2"))
    locks = {
        "old": lock(1, "recipe-agent/tiny:1", "built", 8, "pulled"),
        "new": lock(2, "recipe-agent/tiny:2", "built", 9, "pulled"),
    }
    assert names(images, locks, {"new"}, NOW) == ["recipe-agent/tiny:1", "base:8"]
    assert names(images, locks, {"old", "new"}, NOW) == []
    assert names(images, locks, (), NOW) == ["recipe-agent/tiny:1", "recipe-agent/tiny:2", "base:8", "base:9"]


def test_what_was_here_before_is_in_no_list() -> None:
    """Found images and found bases are other people's."""
    locks = {"a": lock(1, "mine:1", "found"), "b": lock(2, "recipe-agent/x:1", "built", 9, "found")}
    assert names((), locks, (), NOW) == []


def test_a_pulled_image_goes_when_no_kept_plan_uses_it() -> None:
    """Once, however many plans did; and stays while one of them is kept."""
    locks = {"a": lock(1, "reg/a:1", "pulled"), "b": lock(1, "reg/a:1", "pulled"), "c": lock(3, "reg/c:1", "pulled")}
    assert names((), locks, (), NOW) == ["reg/a:1", "reg/c:1"]
    assert names((), locks, {"b"}, NOW) == ["reg/c:1"]


def test_steps_of_an_unfinished_build_go_from_the_last_to_the_first() -> None:
    """Those below an image with a name go with it, and young ones may be of a build that runs."""
    images = (
        made(1),
        made(2, parent=1),
        made(3, "recipe-agent/tiny:1", parent=2),
        made(4, parent=1),
        made(5, parent=4),
        made(6, parent=1, created=NOW - 1),
    )
    locks = {"p": lock(3, "recipe-agent/tiny:1", "built")}
    assert names(images, locks, {"p"}, NOW) == ["sha256:5", "sha256:4"]


def test_every_entry_says_why() -> None:
    """A person reads the list before anything is removed."""
    (one,) = removable((made(1, "recipe-agent/tiny:1"),), {}, (), NOW)
    assert (one.why, one.size) == ("built for tiny, and no kept plan uses it", 10)
