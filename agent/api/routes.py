"""The routes: each a thin translation between HTTP and the desk."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from agent.api.desk import Desk, LogRequest, Terms, Wanted
from agent.api.errors import body_of
from agent.api.shapes import (
    DeployBody,
    PlanBody,
    VerbBody,
    deployment_json,
    event_json,
    operation_json,
)
from agent.clock import timestamp
from agent.errors import NotFound, UsageError

DESK = web.AppKey("desk", Desk)
HEARTBEAT_S = 15.0
VERBS = ("stop", "start", "restart", "pause", "observe", "resume")
routes = web.RouteTableDef()


def caller(request: web.Request) -> str:
    """Who asked, for the audit line: the address over TCP, the socket otherwise."""
    return f"{request.remote or 'unix socket'}"


def number(request: web.Request, name: str, default: int | None, least: int = 0) -> int | None:
    """An integer of the query, or UsageError."""
    text = request.query.get(name)
    if text is None:
        return default
    try:
        value = int(text)
    except ValueError:
        value = least - 1
    if value < least:
        raise UsageError(why=f"{name} must be a whole number of at least {least}, not {text!r}")
    return value


@routes.get("/healthz")
async def healthz(_: web.Request) -> web.Response:
    """The process answers."""
    return web.Response(text="ok\n")


@routes.get("/readyz")
async def readyz(request: web.Request) -> web.Response:
    """Every loop turns."""
    why = request.app[DESK].ready()
    return web.Response(text="ok\n") if why is None else web.Response(text=f"{why}\n", status=503)


@routes.get("/metrics")
async def metrics(request: web.Request) -> web.Response:
    """Prometheus text."""
    body = request.app[DESK].metrics()
    return web.Response(body=body, headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})


@routes.get("/v1/deployments")
async def deployments(request: web.Request) -> web.Response:
    """All deployments."""
    boards = request.app[DESK].boards
    return web.json_response([deployment_json(boards[slug]) for slug in sorted(boards)])


@routes.post("/v1/plans")
async def plan(request: web.Request) -> web.Response:
    """The plan of a recipe, as `agentctl plan -o json` prints it; nothing is kept."""
    return web.json_response(await request.app[DESK].plan(wanted(await body_of(request, PlanBody))))


@routes.post("/v1/plans/steps")
async def steps(request: web.Request) -> web.Response:
    """What a deploy would do now; nothing is done."""
    return web.json_response(list(await request.app[DESK].steps(wanted(await body_of(request, PlanBody)))))


@routes.post("/v1/deployments")
async def deploy(request: web.Request) -> web.Response:
    """Deploy a recipe."""
    body = await body_of(request, DeployBody)
    terms = Terms(body.plan_id, tuple(body.accept), body.replace)
    operation = await request.app[DESK].deploy(wanted(body), terms, caller(request))
    return accepted(operation_json(operation))


def wanted(body: PlanBody) -> Wanted:
    if (body.slug is None) == (body.document is None):
        raise UsageError(why="give either slug or document")
    document = None if body.document is None else body.document.encode()
    return Wanted(slug=body.slug, document=document, source=body.source, sets=body.sets)


def accepted(operation: Mapping[str, Any]) -> web.Response:
    """Long work: where its progress is."""
    return web.json_response(operation, status=202, headers={"Location": f"/v1/operations/{operation['id']}"})


@routes.get("/v1/deployments/{slug}")
async def deployment(request: web.Request) -> web.Response:
    """One deployment."""
    return web.json_response(deployment_json(board_of(request)))


def board_of(request: web.Request) -> Any:
    slug, boards = request.match_info["slug"], request.app[DESK].boards
    if slug not in boards:
        raise NotFound(what="deployment", name=slug, why=f"deployed here: {', '.join(sorted(boards)) or 'none'}")
    return boards[slug]


@routes.post("/v1/deployments/{slug}/upgrade")
async def upgrade(request: web.Request) -> web.Response:
    """To the newest revision of its recipe."""
    operation = await request.app[DESK].upgrade(request.match_info["slug"], caller(request))
    return accepted(operation_json(operation))


@routes.post("/v1/deployments/{slug}/rollback")
async def rollback(request: web.Request) -> web.Response:
    """Back to an earlier plan."""
    body = await body_of(request, VerbBody)
    operation = await request.app[DESK].rollback(request.match_info["slug"], body.plan_id, caller(request))
    return accepted(operation_json(operation))


@routes.post("/v1/deployments/{slug}/{verb}")
async def verb(request: web.Request) -> web.Response:
    """stop, start, restart, pause, observe, resume."""
    name = request.match_info["verb"]
    if name not in VERBS:
        raise NotFound(what="verb", name=name, why=f"there are {', '.join(VERBS)}")
    return await asked(request, name)


@routes.delete("/v1/deployments/{slug}")
async def remove(request: web.Request) -> web.Response:
    """Stop and forget a deployment."""
    return await asked(request, "remove")


async def asked(request: web.Request, name: str) -> web.Response:
    options = (await body_of(request, VerbBody)).model_dump()
    operation = await request.app[DESK].ask(request.match_info["slug"], name, options, caller(request))
    if operation is None:
        return web.json_response(deployment_json(board_of(request)))
    return accepted(operation_json(operation))


@routes.get("/v1/deployments/{slug}/logs")
async def logs(request: web.Request) -> web.StreamResponse:
    """The engine's log as text: `tail`, `since` (seconds of the epoch), `follow=1`."""
    since = request.query.get("since")
    try:
        wants = LogRequest(number(request, "tail", None), float(since) if since else None, "follow" in request.query)
    except ValueError:
        raise UsageError(why=f"since must be seconds of the epoch, not {since!r}") from None
    lines = request.app[DESK].logs(request.match_info["slug"], wants)
    response = web.StreamResponse(headers={"Content-Type": "text/plain; charset=utf-8"})
    try:
        async for line in lines:
            if not response.prepared:
                await response.prepare(request)
            await response.write(line.encode() + b"\n")
    finally:
        await lines.aclose()  # type: ignore[attr-defined]
    if not response.prepared:
        await response.prepare(request)
    return response


@routes.get("/v1/deployments/{slug}/plan")
async def deployed_plan(request: web.Request) -> web.Response:
    """The plan that runs."""
    return web.json_response(dict(await request.app[DESK].deployed_plan(request.match_info["slug"])))


@routes.get("/v1/deployments/{slug}/history")
async def history(request: web.Request) -> web.Response:
    """The plans that it has had, the oldest first."""
    found = await request.app[DESK].history(request.match_info["slug"])
    return web.json_response([{**one, "at": timestamp(one["at"])} for one in found])


@routes.get("/v1/operations")
async def operations(request: web.Request) -> web.Response:
    """Operations, the oldest first."""
    found = await request.app[DESK].operations(request.query.get("slug"))
    return web.json_response([operation_json(one) for one in found])


@routes.get("/v1/operations/{id}")
async def operation(request: web.Request) -> web.Response:
    """One operation; `wait=SECONDS` answers when it has moved, or then."""
    desk, key = request.app[DESK], request.match_info["id"]
    patience = number(request, "wait", 0) or 0
    async with desk.changes() as wait:
        found = await desk.operation(key)
        before = operation_json(found)
        deadline = asyncio.get_running_loop().time() + min(patience, 60)
        while not found.over and (left := deadline - asyncio.get_running_loop().time()) > 0:
            await wait(left)
            found = await desk.operation(key)
            if operation_json(found) != before:
                break
    return web.json_response(operation_json(found))


@routes.get("/v1/events")
async def events(request: web.Request) -> web.StreamResponse:
    """Server-sent events; with `follow=0` a JSON list of past ones (`slug`, `after`, `limit`)."""
    desk, slug = request.app[DESK], request.query.get("slug")
    after, limit = number(request, "after", 0) or 0, number(request, "limit", 200, 1) or 200
    if request.query.get("follow") == "0":
        return web.json_response([event_json(one) for one in await desk.past_events(slug, after, min(limit, 5000))])
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"})
    async with desk.events() as following:
        await response.prepare(request)
        last = after
        for event in await desk.past_events(slug, after, min(limit, 5000)) if "after" in request.query else ():
            last = event.seq
            await response.write(sse(event.seq, event_json(event)))
        while True:
            try:
                async with asyncio.timeout(HEARTBEAT_S):
                    event = await following()
            except TimeoutError:
                await response.write(b": still here\n\n")
                continue
            if event.seq > last and slug in (None, event.slug):
                await response.write(sse(event.seq, event_json(event)))


def sse(seq: int, data: Mapping[str, Any]) -> bytes:
    return f"id: {seq}\ndata: {json.dumps(data)}\n\n".encode()


@routes.get("/v1/incidents")
async def incidents(request: web.Request) -> web.Response:
    """Kept incidents, the oldest first."""
    return web.json_response(list(await request.app[DESK].incidents(request.query.get("slug"))))


@routes.get("/v1/incidents/{id}")
async def incident(request: web.Request) -> web.Response:
    """One incident."""
    return web.json_response(dict(await request.app[DESK].incident(request.match_info["id"])))


@routes.get("/v1/incidents/{id}/export")
async def export(request: web.Request) -> web.Response:
    """One incident as a .tar.gz."""
    body = await request.app[DESK].incident_archive(request.match_info["id"])
    return web.Response(body=body, content_type="application/gzip")


@routes.get("/v1/host")
async def host(request: web.Request) -> web.Response:
    """What this host is."""
    return web.json_response(dict(await request.app[DESK].host()))
