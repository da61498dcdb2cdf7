"""The status page: whole and readable without scripts, and kept live by server-sent events where there are some."""

from __future__ import annotations

import asyncio
import hashlib
import json
from pathlib import Path
from typing import Literal

from aiohttp import web

from agent.api.desk import Desk
from agent.api.endpoint import query_of
from agent.api.routes import DESK, HEARTBEAT_S
from agent.api.shapes import Query, deployment_json
from agent.api.view.whole import Chronicle, Shown, document, shown

page_routes = web.RouteTableDef()

SETTLE_S = 0.5
"""From a change to its picture: what belongs together comes together, and nobody is sent more than two a second."""
ASSETS = {
    path.name: path.read_bytes() for path in sorted((Path(__file__).parent / "assets").iterdir()) if path.is_file()
}
KINDS = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
VERSION = hashlib.sha256(b"".join(ASSETS.values())).hexdigest()[:12]
"""A page that was opened before an upgrade loads itself again when this changes."""
POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    ]
)


class SummaryQuery(Query):
    """`view=page`: what changed of the page, as its script wants it, instead of the deployments."""

    view: Literal["page"] | None = None


@page_routes.get("/")
async def page(request: web.Request) -> web.Response:
    """The page as of now."""
    now = await shown(request.app[DESK], Chronicle(request.app[DESK]))
    return web.Response(
        text=document(now, VERSION), content_type="text/html", headers={"Content-Security-Policy": POLICY}
    )


@page_routes.get("/assets/{name}")
async def asset(request: web.Request) -> web.Response:
    """Script, style or icon of the page; asked for again each time, and answered in full only after an upgrade."""
    name = request.match_info["name"]
    if name not in ASSETS:
        raise web.HTTPNotFound
    headers = {"Cache-Control": "no-cache", "ETag": f'"{VERSION}"'}
    if request.headers.get("If-None-Match") == headers["ETag"]:
        return web.Response(status=304, headers=headers)
    return web.Response(body=ASSETS[name], content_type=KINDS[Path(name).suffix], charset="utf-8", headers=headers)


@page_routes.get("/summary")
async def summary(request: web.Request) -> web.StreamResponse:
    """Server-sent events: all deployments on every change, or the parts of the page that changed."""
    wants = query_of(request, SummaryQuery)
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    desk = request.app[DESK]
    follow = page_parts if wants.view == "page" else facts
    await follow(response, desk)
    return response


async def facts(response: web.StreamResponse, desk: Desk) -> None:
    async with desk.changes() as wait:
        while True:
            everything = [deployment_json(desk.boards[slug]) for slug in sorted(desk.boards)]
            await response.write(f"data: {json.dumps(everything)}\n\n".encode())
            while not await wait(HEARTBEAT_S):
                await response.write(b": still here\n\n")
            await asyncio.sleep(SETTLE_S)


async def page_parts(response: web.StreamResponse, desk: Desk) -> None:
    """What is new since the last message; a beat at least every few seconds, so that silence means something."""
    chronicle, sent = Chronicle(desk), Shown("", "", {})
    async with desk.changes() as wait:
        while True:
            now = await shown(desk, chronicle)
            await response.write(message(sent, now))
            sent = now
            await wait(HEARTBEAT_S)
            await asyncio.sleep(SETTLE_S)


def message(sent: Shown, now: Shown) -> bytes:
    changed = {key: part for key, part in now.parts.items() if sent.parts.get(key) != part}
    data = {
        "version": VERSION,
        "title": now.title,
        "said": now.said,
        "order": list(now.parts),
        "parts": changed,
    }
    return f"event: page\ndata: {json.dumps(data)}\n\n".encode()
