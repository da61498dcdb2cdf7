"""What a step's effect that fails means: an answer, or a reason to try again."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from agent.action.execute import Work, execute
from agent.action.model import PrepareImage
from agent.action.record import Deployment
from agent.action.seen import Seen
from agent.container.trouble import RuntimeRejected, RuntimeUnreachable
from agent.errors import AgentError
from agent.image.trouble import PullFailed

STEP = PrepareImage("the plan's image is next")


async def prepared(error: AgentError) -> str | None:
    """What is said where the image cannot be had for `error`; nothing else is asked."""

    async def image(_: Deployment) -> None:
        raise error

    nothing: Any = None
    fields = dict.fromkeys(Work.__dataclass_fields__, nothing)
    work = Work(**{**fields, "image": image, "logs": Path()})
    return (await execute(STEP, cast(Deployment, nothing), cast(Seen, nothing), work)).refused


async def test_a_container_engine_that_is_gone_for_a_moment_refuses_no_image() -> None:
    """dockerd restarts while an engine is to be brought back: the next tick asks again."""
    with pytest.raises(RuntimeUnreachable):
        await prepared(RuntimeUnreachable(action="look for the image", why="nobody answers"))


@pytest.mark.parametrize(
    "error",
    [RuntimeRejected(action="pull", why="denied"), PullFailed(reference="r", why="asked three times")],
    ids=["rejected", "asked often"],
)
async def test_what_was_asked_for_often_enough_is_an_answer(error: AgentError) -> None:
    assert await prepared(error) == error.text
