"""Drills over HTTP: a rehearsal of a fault on a deployment that is marked as expendable."""

from __future__ import annotations

from typing import Literal

from aiohttp import web

from agent.action.drills import Drill
from agent.api import answers
from agent.api.endpoint import Endpoints, Promise, body_of
from agent.api.routes import CALLER, DESK, accepted
from agent.api.shapes import Body

drills = Endpoints()


class DrillBody(Body):
    """`kind`: what is rehearsed."""

    kind: Literal["stall", "zombie", "crash", "slow-start"]


@drills.add(
    "POST",
    "/v1/deployments/{slug}/drill",
    Promise({202: answers.OperationAnswer}, body=DrillBody, fails=(404, 409, 422), located=True),
)
async def drill(request: web.Request) -> web.Response:
    """Make a fault for real and time what is done about it; POST /v1/operations/{id}/cancel ends it and heals."""
    body = await body_of(request, DrillBody)
    slug = request.match_info["slug"]
    return accepted(await request.app[DESK].drill(slug, Drill(body.kind), request[CALLER]))
