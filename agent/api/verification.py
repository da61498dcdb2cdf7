"""Verifications over HTTP: begin, cancel, read the last report."""

from __future__ import annotations

from aiohttp import web
from pydantic import Field

from agent.api import answers
from agent.api.endpoint import Endpoints, Promise, body_of, query_of, reply
from agent.api.routes import CALLER, DESK, accepted
from agent.api.shapes import Body, Query

verification = Endpoints()


class VerifyBody(Body):
    """`quick`: one repeat, short contexts, few requests. `points`: only those whose name has one of these words."""

    quick: bool = False
    points: list[str] = Field(default_factory=list, max_length=50)


class ReportQuery(Query):
    """`full=1`: the last that was made of all points with all repeats."""

    full: bool = False


class CancelBody(Body):
    """Nothing."""


@verification.add(
    "POST",
    "/v1/deployments/{slug}/verify",
    Promise({202: answers.OperationAnswer}, body=VerifyBody, fails=(404, 409, 422), located=True),
)
async def verify(request: web.Request) -> web.Response:
    """Measure the running engine and hold it against its recipe's claims."""
    body = await body_of(request, VerifyBody)
    slug = request.match_info["slug"]
    operation = await request.app[DESK].verify(slug, body.quick, tuple(body.points), request[CALLER])
    return accepted(operation)


@verification.add(
    "GET",
    "/v1/deployments/{slug}/verification",
    Promise({200: answers.Stored}, query=ReportQuery, fails=(404, 422)),
)
async def last(request: web.Request) -> web.Response:
    """The last report of a deployment; `earlier` has what is known of points that it did not measure."""
    found = await request.app[DESK].verification(request.match_info["slug"], query_of(request, ReportQuery).full)
    return reply(answers.Stored.model_validate(dict(found)))


@verification.add(
    "POST",
    "/v1/operations/{id}/cancel",
    Promise({200: answers.OperationAnswer}, body=CancelBody, fails=(404, 422)),
)
async def cancel(request: web.Request) -> web.Response:
    """Cancel a verification; every request of it is hung up."""
    await body_of(request, CancelBody)
    return reply(answers.operation(await request.app[DESK].cancel(request.match_info["id"], request[CALLER])))
