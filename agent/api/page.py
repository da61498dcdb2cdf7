"""The status page: every deployment's state and its sentence, readable without scripts."""

from __future__ import annotations

import asyncio
import json
from html import escape

from aiohttp import web

from agent.api.routes import DESK, HEARTBEAT_S
from agent.api.shapes import deployment_json
from agent.clock import timestamp
from agent.metrics.board import Board

page_routes = web.RouteTableDef()

POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

STYLE = """
:root{color-scheme:light dark;font:16px/1.5 system-ui,sans-serif}
body{max-width:60rem;margin:2rem auto;padding:0 1rem}
article{border:1px solid color-mix(in srgb,currentColor 25%,transparent);border-radius:.5rem;padding:1rem;margin:1rem 0}
h2{margin:0;font-size:1.1rem;overflow-wrap:anywhere} .state{font-weight:700}
.ready,.busy{color:light-dark(#17692d,#6fdc8c)} .suspect,.starting,.unobservable{color:light-dark(#7a5200,#f5c451)}
.stalled,.zombie,.dead,.failed,.quarantined{color:light-dark(#a4161a,#ff8b8b)}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.1rem 1rem;margin:.5rem 0 0} dt{opacity:.7} dd{margin:0}
"""


@page_routes.get("/")
async def page(request: web.Request) -> web.Response:
    """The page; it loads itself again every ten seconds."""
    boards = request.app[DESK].boards
    articles = "".join(article(boards[slug]) for slug in sorted(boards))
    body = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f'<meta http-equiv="refresh" content="10"><title>recipe-agent</title><style>{STYLE}</style></head>'
        f"<body><h1>recipe-agent</h1>{articles or '<p>Nothing is deployed: agentctl deploy SLUG</p>'}</body></html>"
    )
    headers = {"Content-Security-Policy": POLICY, "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
    return web.Response(text=body, content_type="text/html", headers=headers)


def article(board: Board) -> str:
    record, verdict = board.record, board.verdict
    rows = {
        "since": timestamp(record.since),
        "supervision": record.supervision.value,
        "endpoint": board.endpoint or "none",
        "generation": str(record.generation),
        "restarts": f"{len(record.restarts)} of {board.plan.watch.budget}",
        "last step": record.step,
    }
    if verdict is not None and verdict.progress is not None and record.state.value == "starting":
        rows["start-up"] = f"{verdict.phase or ''} {verdict.progress:.0%}"
    rows |= {name.replace("_", " "): shown(value) for name, value in (verdict.figures if verdict else {}).items()}
    items = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in rows.items())
    state = record.state.value
    return (
        f"<article><h2>{escape(record.slug)}</h2>"
        f'<p><span class="state {state}">{state}</span>: {escape(record.why)}</p>'
        f"<dl>{items}</dl></article>"
    )


def shown(value: object) -> str:
    """A figure as people read it; what is not known says so."""
    if value is None:
        return "unknown"
    return f"{value:,.4g}" if isinstance(value, float) else str(value)


@page_routes.get("/summary")
async def summary(request: web.Request) -> web.StreamResponse:
    """Server-sent events of the summary: all deployments, on every change, at most once a second."""
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"})
    await response.prepare(request)
    desk = request.app[DESK]
    async with desk.changes() as wait:
        while True:
            everything = [deployment_json(desk.boards[slug]) for slug in sorted(desk.boards)]
            await response.write(f"data: {json.dumps(everything)}\n\n".encode())
            while not await wait(HEARTBEAT_S):
                await response.write(b": still here\n\n")
            await asyncio.sleep(1.0)
