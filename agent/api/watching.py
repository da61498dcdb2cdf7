"""What happens: operations, events, an engine's log."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from agent.api import answers
from agent.api.desk import LogRequest
from agent.api.endpoint import Endpoints, Listing, Media, Promise, query_of, reply
from agent.api.routes import DESK, HEARTBEAT_S
from agent.api.shapes import LARGEST_SEQ, LONGEST_WAIT_S, EventsQuery, LogsQuery, OfOne, WaitQuery

watching = Endpoints()
MOST_EVENTS = 5000
STREAM = Media("text/event-stream", "Events as they come, each `data:` one of the listed objects, without end")
LOG = Media("text/plain", "The lines, as the engine wrote them")


@watching.add("GET", "/v1/operations", Promise({200: Listing(answers.OperationAnswer)}, query=OfOne))
async def operations(request: web.Request) -> web.Response:
    """Operations, the oldest first."""
    found = await request.app[DESK].operations(query_of(request, OfOne).slug)
    return reply([answers.operation(one) for one in found])


@watching.add("GET", "/v1/operations/{id}", Promise({200: answers.OperationAnswer}, query=WaitQuery, fails=(404,)))
async def operation(request: web.Request) -> web.Response:
    """One operation; `wait=SECONDS` answers when it has moved, or then."""
    desk, key = request.app[DESK], request.match_info["id"]
    patience = min(query_of(request, WaitQuery).wait, LONGEST_WAIT_S)
    async with desk.changes() as wait:
        first = found = await desk.operation(key)
        deadline = asyncio.get_running_loop().time() + patience
        while not found.over and found == first and (left := deadline - asyncio.get_running_loop().time()) > 0:
            await wait(left)
            found = await desk.operation(key)
    return reply(answers.operation(found))


@watching.add("GET", "/v1/events", Promise({200: (Listing(answers.EventAnswer), STREAM)}, query=EventsQuery))
async def events(request: web.Request) -> web.StreamResponse:
    """Server-sent events; with `follow=0` a JSON list of past ones. A stream that broke goes on with Last-Event-ID."""
    desk, wants = request.app[DESK], query_of(request, EventsQuery)
    after = wants.after if wants.after is not None else last_seen(request)
    limit = min(wants.limit, MOST_EVENTS)
    if not wants.follow:
        return reply([answers.event(one) for one in await desk.past_events(wants.slug, after or 0, limit)])
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    async with desk.events() as following:
        await response.prepare(request)
        last = after or 0
        past = await desk.past_events(wants.slug, last, limit) if after is not None else ()
        for event in past:
            last = event.seq
            await response.write(sse(event.seq, answers.event(event).model_dump(mode="json")))
        while True:
            try:
                async with asyncio.timeout(HEARTBEAT_S):
                    event = await following()
            except TimeoutError:
                await response.write(b": still here\n\n")
                continue
            if event.seq > last and wants.slug in (None, event.slug):
                await response.write(sse(event.seq, answers.event(event).model_dump(mode="json")))


def last_seen(request: web.Request) -> int | None:
    """Browsers send the id of the last event that they got when they come back."""
    text = request.headers.get("Last-Event-ID", "")
    return int(text) if text.isascii() and text.isdigit() and int(text) <= LARGEST_SEQ else None


def sse(seq: int, data: Mapping[str, Any]) -> bytes:
    return f"id: {seq}\ndata: {json.dumps(data)}\n\n".encode()


@watching.add("GET", "/v1/deployments/{slug}/logs", Promise({200: LOG}, query=LogsQuery, fails=(404, 502, 503, 504)))
async def logs(request: web.Request) -> web.StreamResponse:
    """The engine's log as text: `tail`, `since` (seconds of the epoch), `follow=1`, `times=1`."""
    wants = query_of(request, LogsQuery)
    lines = request.app[DESK].logs(request.match_info["slug"], LogRequest(**dict(wants)))
    response = web.StreamResponse(headers={"Content-Type": "text/plain; charset=utf-8"})
    try:
        async for line in lines:
            if not response.prepared:
                await response.prepare(request)
            await response.write(line.encode("utf-8", "replace") + b"\n")
    finally:
        await lines.aclose()  # type: ignore[attr-defined]
    if not response.prepared:
        await response.prepare(request)
    return response
