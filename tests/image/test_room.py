"""A pull that cannot fit is not begun, and what is not known stands in no way."""

from __future__ import annotations

import pytest

from agent.container.trouble import RuntimeUnreachable
from agent.image.ensure import Supply, ensure
from agent.image.pull import Means
from agent.image.room import Layer, NoRoom, Room, Store
from agent.plan.model import ImagePlan
from tests.image.plans import Heard, Pulls, plan_of, progress

LAYERS = (Layer(1000, "sha256:a"), Layer(500, "sha256:b"), Layer(250))


class Known:
    """A registry and an engine that say this."""

    def __init__(self, layers: tuple[Layer, ...] | None, free: int | None, *here: str) -> None:
        self._layers = layers
        self._store = Store("/var/lib/docker", free, here, "arm64")
        self.asked: list[tuple[str, str]] = []

    async def layers(self, reference: str, architecture: str) -> tuple[Layer, ...] | None:
        self.asked.append((reference, architecture))
        return self._layers

    async def store(self) -> Store:
        return self._store


@pytest.mark.parametrize(
    ("layers", "free", "here", "refused"),
    [
        (LAYERS, 1749, (), True),
        (LAYERS, 1750, (), False),
        (LAYERS, 750, ("sha256:a",), False),
        (LAYERS, 249, ("sha256:a", "sha256:b"), True),
        (None, 1, (), False),
        (LAYERS, None, (), False),
    ],
    ids=["too small", "fits", "layers are here", "the nameless is not", "no sizes", "no disk"],
)
async def test_what_cannot_fit(
    layers: tuple[Layer, ...] | None, free: int | None, here: tuple[str, ...], refused: bool
) -> None:
    """Layers that are here need no room."""
    known = Known(layers, free, *here)
    room = Room(known, known)
    if refused:
        with pytest.raises(NoRoom, match=r"have to be fetched, .* free in /var/lib/docker"):
            await room("reg/x:1", Heard())
    else:
        await room("reg/x:1", Heard())
    assert known.asked == [("reg/x:1", "arm64")]


async def test_what_may_be_tight_is_said() -> None:
    """Unpacked, layers are two or three times as large."""
    heard = Heard()
    known = Known(LAYERS, 5000)
    await Room(known, known)("reg/x:1", heard)
    assert heard.texts == ["reg/x:1: 1750 B to fetch, 5000 B free in /var/lib/docker: unpacked it may not fit"]
    roomy = Known(LAYERS, 5250)
    heard = Heard()
    await Room(roomy, roomy)("reg/x:1", heard)
    assert heard.all == []


async def test_an_engine_that_does_not_say_stands_in_no_way() -> None:
    """If it is gone, the pull says so."""

    class Gone(Known):
        async def store(self) -> Store:
            raise RuntimeUnreachable(action="look", why="gone")

    await Room(Gone(LAYERS, 1), Gone(LAYERS, 1))("reg/x:1", Heard())


async def test_nothing_is_fetched_where_it_cannot_fit() -> None:
    """The check comes before the pull."""
    runtime, known = Pulls([progress(1)]), Known(LAYERS, 1)
    with pytest.raises(NoRoom):
        await ensure(
            plan_of(ImagePlan("reg/x:1", "pull")), runtime, Heard(), Supply(means=Means(check=Room(known, known)))
        )
    assert runtime.pulled == []
