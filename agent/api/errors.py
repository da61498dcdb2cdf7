"""Errors as the same object that the CLI prints; this is one of the three places that catch everything."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import structlog
from aiohttp import web

from agent.errors import AgentError, TimedOut

log = structlog.get_logger()
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

HINTS = {
    404: "GET /openapi.json lists what there is",
    405: "GET /openapi.json lists what there is",
    413: "a recipe of more than 5 MB is none: look at what was sent",
}


class HttpError(AgentError):
    """What the HTTP side itself says no to."""

    code = "http"
    message = "cannot answer {method} {path}: {why}"


def error_response(error: AgentError) -> web.Response:
    response = web.json_response({"error": error.as_dict()}, status=error.http_status)
    for name, value in getattr(error, "headers", {}).items():
        response.headers[name] = value
    return response


@web.middleware
async def errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Every failure of a handler becomes the error object."""
    try:
        return await handler(request)
    except AgentError as error:
        return error_response(error)
    except web.HTTPException as error:
        return http_error(request, error)
    except ConnectionResetError:
        raise
    except TimeoutError:
        return error_response(TimedOut(what=request.path, why="something that it needs did not answer"))
    except Exception as error:
        log.exception("request_failed", path=request.path, reason=str(error) or type(error).__name__)
        return error_response(AgentError(why="an unexpected fault; the agent's log has it"))


def http_error(request: web.Request, error: web.HTTPException) -> web.Response:
    """aiohttp's own refusals (404, 405, 413, …) in the same form, with their headers."""
    said = HttpError(method=request.method, path=request.path, why=error.reason, advice=HINTS.get(error.status, ""))
    response = web.json_response(error_body(error.status, said), status=error.status)
    if "Allow" in error.headers:
        response.headers["Allow"] = error.headers["Allow"]
    return response


def error_body(status: int, error: AgentError) -> dict[str, object]:
    """The error object of a plain HTTP status: its code is `http.404`, …"""
    return {"error": {**error.as_dict(), "code": f"http.{status}"}}
