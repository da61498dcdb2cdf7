"""The application, once for the unix socket and once for TCP."""

from __future__ import annotations

from aiohttp import web

from agent.api.desk import Desk
from agent.api.errors import LOCAL, TOKEN, errors, guarded
from agent.api.page import page_routes
from agent.api.routes import DESK, routes

LARGEST_BODY = 6 << 20


def make_app(desk: Desk, *, local: bool, token: str = "") -> web.Application:
    """All routes over `desk`. `local`: the unix socket, where everything is allowed."""
    app = web.Application(middlewares=[errors, guarded], client_max_size=LARGEST_BODY)
    app[DESK] = desk
    app[LOCAL] = local
    app[TOKEN] = token
    app.add_routes(routes)
    app.add_routes(page_routes)
    return app
