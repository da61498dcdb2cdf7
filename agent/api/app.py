"""The application, once for the unix socket and once for TCP."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from aiohttp import web

from agent.api.caller import Caller
from agent.api.desk import Desk
from agent.api.door import patient
from agent.api.drill import drills
from agent.api.endpoint import Endpoint, Handler, registered
from agent.api.errors import errors
from agent.api.guard import Guard
from agent.api.notifying import notifying
from agent.api.openapi import Written
from agent.api.page import page_routes
from agent.api.records import DOCUMENT, records
from agent.api.routes import CALLER, DESK, routes
from agent.api.verification import verification
from agent.api.watching import watching

LARGEST_BODY = 6 << 20


@dataclass(frozen=True, slots=True)
class Entrance:
    """Who comes in here: everybody who can open the unix socket, or whom the guard admits."""

    peer: Callable[[web.Request], Caller]
    guard: Guard | None = None

    def admit(self, request: web.Request) -> Caller:
        return self.peer(request) if self.guard is None else self.guard.admit(request)


ENTRANCE = web.AppKey("entrance", Entrance)
HEADERS = {
    "Server": "recipe-agent",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
}
"""On every answer that does not say otherwise. No cookies and no CORS headers anywhere: a page of another site can
neither read an answer nor send a token."""


def every_endpoint() -> list[Endpoint]:
    """All that the document describes; the page and its parts are beside it."""
    return [*records, *routes, *verification, *drills, *watching, *notifying]


def open_paths() -> frozenset[str]:
    """What TCP answers to everybody: endpoints that say so, and all of the page."""
    page = {one.path for one in page_routes if isinstance(one, web.RouteDef)}
    folders = {one.prefix for one in page_routes if isinstance(one, web.StaticDef)}
    return frozenset({one.path for one in every_endpoint() if one.promise.open} | page | folders)


def make_app(desk: Desk, entrance: Entrance) -> web.Application:
    """All routes over `desk`."""
    app = web.Application(middlewares=[errors, patient, admitted], client_max_size=LARGEST_BODY)
    app[DESK] = desk
    app[ENTRANCE] = entrance
    app[DOCUMENT] = Written(every_endpoint())
    app.add_routes(registered(every_endpoint()))
    app.add_routes(page_routes)
    app.on_response_prepare.append(dressed)
    return app


@web.middleware
async def admitted(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Lets in, or not, and notes who asked."""
    request[CALLER] = request.app[ENTRANCE].admit(request)
    return await handler(request)


async def dressed(_: web.Request, response: web.StreamResponse) -> None:
    for name, value in HEADERS.items():
        if name == "Server" or name not in response.headers:
            response.headers[name] = value
