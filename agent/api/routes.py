"""Plans and deployments: each route a thin translation between HTTP and the desk."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from agent.action.operation import Operation
from agent.api import answers
from agent.api.desk import Desk
from agent.api.endpoint import Endpoints, Listing, Promise, body_of, query_of, reply
from agent.api.planned import Plan
from agent.api.shapes import LONGEST_WAIT_S, DeployBody, PlanBody, StateQuery, StepsBody, VerbBody
from agent.api.wanted import Terms, Wanted
from agent.errors import NotFound
from agent.metrics.board import Board

DESK = web.AppKey("desk", Desk)
CALLER = "caller"
"""Who asks, as a `Caller`: noted by the entrance. Typed keys of requests came with aiohttp 3.14 only."""
HEARTBEAT_S = 15.0
routes = Endpoints()
PLANNING = (404, 409, 422, 502, 503, 504)
"""No such recipe; refused; a document that cannot be read; a source or the runtime that does not answer."""
NO_DEPLOYMENT = (404,)
LONG = Promise({202: answers.OperationAnswer}, body=VerbBody, fails=(404, 409, 422), located=True)


@routes.add("GET", "/v1/deployments", Promise({200: Listing(answers.Deployment)}))
async def deployments(request: web.Request) -> web.Response:
    """All deployments."""
    boards = request.app[DESK].boards
    return reply([answers.deployment(boards[slug]) for slug in sorted(boards)])


@routes.add("POST", "/v1/plans", Promise({200: Plan}, body=PlanBody, fails=PLANNING))
async def plan(request: web.Request) -> web.Response:
    """The plan of a recipe, as `agentctl plan -o json` prints it; nothing is kept."""
    found = await request.app[DESK].plan(wanted(await body_of(request, PlanBody)))
    return reply(Plan.model_validate(found))


@routes.add("POST", "/v1/plans/steps", Promise({200: Listing(str)}, body=StepsBody, fails=PLANNING))
async def steps(request: web.Request) -> web.Response:
    """What a deploy would do now; nothing is done."""
    body = await body_of(request, StepsBody)
    return web.json_response(list(await request.app[DESK].steps(wanted(body), body.replace)))


@routes.add(
    "POST",
    "/v1/deployments",
    Promise({202: answers.OperationAnswer}, body=DeployBody, fails=(400, *PLANNING), located=True),
)
async def deploy(request: web.Request) -> web.Response:
    """Deploy a recipe."""
    body = await body_of(request, DeployBody)
    terms = Terms(body.plan_id, tuple(body.accept), body.replace)
    return accepted(await request.app[DESK].deploy(wanted(body), terms, request[CALLER]))


def wanted(body: PlanBody) -> Wanted:
    document = None if body.document is None else body.document.encode()
    return Wanted(slug=body.slug, document=document, source=body.source, sets=body.sets)


def accepted(operation: Operation) -> web.Response:
    """Long work: where its progress is."""
    response = reply(answers.operation(operation), status=202)
    response.headers["Location"] = f"/v1/operations/{operation.id}"
    return response


@routes.add("GET", "/v1/deployments/{slug}", Promise({200: answers.Deployment}, query=StateQuery, fails=NO_DEPLOYMENT))
async def deployment(request: web.Request) -> web.Response:
    """One deployment; `wait=SECONDS` with `state=STATE` answers when it is in another state, or then."""
    asked, loop = query_of(request, StateQuery), asyncio.get_running_loop()
    deadline = loop.time() + min(asked.wait, LONGEST_WAIT_S)
    async with request.app[DESK].changes() as wait:
        found = board_of(request)
        while found.record.state == asked.state and (left := deadline - loop.time()) > 0:
            await wait(left)
            found = board_of(request)
    return reply(answers.deployment(found))


def board_of(request: web.Request) -> Board:
    slug, boards = request.match_info["slug"], request.app[DESK].boards
    if slug not in boards:
        raise NotFound(what="deployment", name=slug, why=f"deployed here: {', '.join(sorted(boards)) or 'none'}")
    return boards[slug]


@routes.add("GET", "/v1/deployments/{slug}/plan", Promise({200: Plan}, fails=NO_DEPLOYMENT))
async def deployed_plan(request: web.Request) -> web.Response:
    """The plan that runs."""
    return reply(Plan.model_validate(await request.app[DESK].deployed_plan(request.match_info["slug"])))


@routes.add("GET", "/v1/deployments/{slug}/history", Promise({200: Listing(answers.KeptPlan)}, fails=NO_DEPLOYMENT))
async def history(request: web.Request) -> web.Response:
    """The plans that it has had, the oldest first."""
    return reply([answers.kept_plan(one) for one in await request.app[DESK].history(request.match_info["slug"])])


@routes.add(
    "POST",
    "/v1/deployments/{slug}/upgrade",
    Promise({202: answers.OperationAnswer}, body=VerbBody, fails=PLANNING, located=True),
)
async def upgrade(request: web.Request) -> web.Response:
    """To the newest revision of its recipe, in the site's next maintenance window unless `now`."""
    body = await body_of(request, VerbBody)
    return accepted(await request.app[DESK].upgrade(request.match_info["slug"], body.now, request[CALLER]))


@routes.add("POST", "/v1/deployments/{slug}/rollback", LONG)
async def rollback(request: web.Request) -> web.Response:
    """Back to an earlier plan: `plan_id`, else the one before."""
    body = await body_of(request, VerbBody)
    return accepted(await request.app[DESK].rollback(request.match_info["slug"], body.plan_id, request[CALLER]))


@routes.add("POST", "/v1/deployments/{slug}/stop", LONG)
async def stop(request: web.Request) -> web.Response:
    """Stop it, after waiting for clients for at most `drain_s` seconds."""
    return await asked(request, "stop")


@routes.add("POST", "/v1/deployments/{slug}/start", LONG)
async def start(request: web.Request) -> web.Response:
    """Start it; a failed or quarantined one wants `force`."""
    return await asked(request, "start")


@routes.add("POST", "/v1/deployments/{slug}/restart", LONG)
async def restart(request: web.Request) -> web.Response:
    """A new container of the same plan; spends nothing of the restart budget."""
    return await asked(request, "restart")


@routes.add("DELETE", "/v1/deployments/{slug}", LONG)
async def remove(request: web.Request) -> web.Response:
    """Stop and forget a deployment."""
    return await asked(request, "remove")


async def asked(request: web.Request, verb: str) -> web.Response:
    options: Mapping[str, Any] = (await body_of(request, VerbBody)).model_dump()
    return accepted(await request.app[DESK].ask(request.match_info["slug"], verb, options, request[CALLER]))


SUPERVISED = Promise({200: answers.Deployment}, body=VerbBody, fails=(404, 422))


@routes.add("POST", "/v1/deployments/{slug}/pause", SUPERVISED)
async def pause(request: web.Request) -> web.Response:
    """Judge, do nothing, say so; done at once."""
    return await supervised(request, "pause")


@routes.add("POST", "/v1/deployments/{slug}/observe", SUPERVISED)
async def observe(request: web.Request) -> web.Response:
    """Judge, and count what would have been done; done at once."""
    return await supervised(request, "observe")


@routes.add("POST", "/v1/deployments/{slug}/resume", SUPERVISED)
async def resume(request: web.Request) -> web.Response:
    """Judge and act; done at once."""
    return await supervised(request, "resume")


async def supervised(request: web.Request, verb: str) -> web.Response:
    await body_of(request, VerbBody)
    return reply(
        answers.deployment(await request.app[DESK].supervise(request.match_info["slug"], verb, request[CALLER]))
    )
