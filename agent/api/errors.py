"""Errors as the same object that the CLI prints; this is one of the three places that catch everything."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable
from typing import TypeVar

import structlog
from aiohttp import web
from pydantic import BaseModel, ValidationError

from agent.errors import AgentError, InvalidInput, plain

log = structlog.get_logger()
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

LOCAL = web.AppKey("local", bool)
"""True for the unix socket, where the group of the file is the permission."""
TOKEN = web.AppKey("token", str)

Shape = TypeVar("Shape", bound=BaseModel)

OPEN_PATHS = frozenset({"/", "/metrics", "/healthz", "/readyz", "/summary", "/openapi.json"})


class NotAllowed(AgentError):
    """Over TCP without a token."""

    code = "api.not_allowed"
    message = "cannot answer {path}: over TCP this needs a token"
    hint = "use the unix socket, or send Authorization: Bearer with the token of listen.token_file"
    http_status = 401


class NoSuchPath(AgentError):
    """The API has no such path or method."""

    code = "api.no_such_path"
    message = "cannot find {path}: {why}"
    hint = "GET /openapi.json lists what there is"
    http_status = 404


def error_response(error: AgentError) -> web.Response:
    return web.json_response({"error": error.as_dict()}, status=error.http_status)


@web.middleware
async def errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Every failure of a handler becomes the error object."""
    try:
        return await handler(request)
    except AgentError as error:
        return error_response(error)
    except web.HTTPException as error:
        return http_error(request, error)
    except (ConnectionResetError, TimeoutError):
        raise
    except Exception as error:
        log.exception("request_failed", path=request.path, reason=str(error) or type(error).__name__)
        return error_response(AgentError(why="an unexpected fault; the agent's log has it"))


def http_error(request: web.Request, error: web.HTTPException) -> web.Response:
    """aiohttp's own refusals (404, 405, 413, …) in the same form, with their headers."""
    found = NoSuchPath(path=request.path, why=error.reason)
    response = web.json_response({"error": {**found.as_dict(), "code": f"http.{error.status}"}}, status=error.status)
    if "Allow" in error.headers:
        response.headers["Allow"] = error.headers["Allow"]
    return response


@web.middleware
async def guarded(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Over TCP only what is read-only and harmless is open; the rest wants the token."""
    if request.app[LOCAL] or (request.path in OPEN_PATHS and request.method in ("GET", "HEAD")):
        return await handler(request)
    token = request.app.get(TOKEN, "")
    given = request.headers.get("Authorization", "").removeprefix("Bearer ")
    if not token or not hmac.compare_digest(given.encode(), token.encode()):
        raise NotAllowed(path=request.path)
    return await handler(request)


async def body_of(request: web.Request, shape: type[Shape]) -> Shape:
    """The request's JSON body in its shape; none at all is an empty one."""
    try:
        raw = await request.read()
        return shape.model_validate_json(raw or b"{}")
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the body"
        raise InvalidInput(
            what="the request", why=f"{where}: {first['msg']}", errors=plain(error.error_count())
        ) from error
