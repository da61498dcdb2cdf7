"""What the API takes. Unknown keys are errors, so that a misspelt option is never silently passed over."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from agent.api import answers
from agent.metrics.board import Board

Name = Annotated[str, Field(min_length=1, max_length=300, pattern=r"^[^\x00-\x1f\x7f]+$")]
"""A slug: text of one line."""
LONGEST_WAIT_S = 60
LARGEST_SEQ = 2**53
"""Numbers that JSON readers keep whole."""


class Body(BaseModel):
    """A request's body: JSON has types, and a number is no switch."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Query(BaseModel):
    """A request's query, all of it text."""

    model_config = ConfigDict(extra="forbid")


def _one_of(*names: str) -> Any:
    """The schema's word for what a validator holds: exactly one of these keys has a value."""
    return {"oneOf": [{"required": [one], "properties": {one: {"type": "string"}}} for one in names]}


class PlanBody(Body):
    """Either `slug`, or `document` (the recipe's text) with `source` (where it was read)."""

    model_config = ConfigDict(json_schema_extra=_one_of("slug", "document"))

    slug: Name | None = None
    document: str | None = Field(None, max_length=5_000_000)
    source: str = Field("", max_length=4096)
    sets: dict[str, str] = Field(default_factory=dict, max_length=200)

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.slug is None) == (self.document is None):
            raise ValueError("give either slug or document")
        return self


class StepsBody(PlanBody):
    """`replace`: the deployment whose place it would take."""

    replace: Name | None = None


class DeployBody(StepsBody):
    """`plan_id`: refuse when the plan has become another one than the person saw. `accept`: checks to overrule.
    `replace`: the deployment whose place it takes."""

    plan_id: str | None = Field(None, max_length=64)
    accept: list[str] = Field(default_factory=list, max_length=100)


class VerbBody(Body):
    """Options of stop, start, restart, remove (`drain_s`, `force`), rollback (`plan_id`), upgrade (`now`: not only in a
    maintenance window) and restart (`in_window`: in the next one)."""

    drain_s: float | None = Field(None, ge=0, le=86_400)
    force: bool = False
    now: bool = False
    in_window: bool = False
    plan_id: str | None = Field(None, max_length=64)


class OfOne(Query):
    """`slug`: of that deployment alone."""

    slug: Name | None = None


class EventsQuery(OfOne):
    """`follow=0`: a list of past events instead of a stream. `after`: those with a greater `seq`. `limit`: the newest
    ones of those, at most 5000."""

    follow: bool = True
    after: int | None = Field(None, ge=0, le=LARGEST_SEQ)
    limit: int = Field(200, ge=1, le=LARGEST_SEQ)


class LogsQuery(Query):
    """`tail`: the last lines, at most 100,000, since they are gathered in memory. `since`: seconds of the epoch.

    `follow=1`: go on as they come.

    `times=1`: before each line when it was written, in seconds of the epoch (`-` where that is not known), and a space.
    """

    tail: int | None = Field(None, ge=0, le=100_000)
    since: float | None = Field(None, ge=0, le=LARGEST_SEQ, allow_inf_nan=False)
    follow: bool = False
    times: bool = False


class WaitQuery(Query):
    """`wait`: answer when the operation has moved, or after so many seconds, at most 60."""

    wait: int = Field(0, ge=0, le=LARGEST_SEQ)


class StateQuery(Query):
    """`wait` with `state`: answer when the deployment is in another state, or after so many seconds, at most 60."""

    wait: int = Field(0, ge=0, le=LARGEST_SEQ)
    state: str | None = Field(None, max_length=32)


def deployment_json(board: Board) -> dict[str, Any]:
    """One deployment as JSON carries it."""
    return answers.deployment(board).model_dump(mode="json")
