"""What one path promises, beside the function that keeps the promise: the document is made from nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from aiohttp import hdrs, web
from pydantic import BaseModel, ValidationError

from agent.errors import AgentError, InvalidInput, UsageError, plain

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Shape = TypeVar("Shape", bound=BaseModel)
BODY_S = 30.0
"""How long a client may take to send its body."""


@dataclass(frozen=True, slots=True)
class Listing:
    """A JSON array of `item`."""

    item: type


@dataclass(frozen=True, slots=True)
class Media:
    """A body that is no JSON, by its media type."""

    kind: str
    about: str


One = type[BaseModel] | Listing | Media
Gives = One | tuple[One, ...]


@dataclass(frozen=True, slots=True)
class Promise:
    """What a path takes and gives. `fails`: its own error statuses, beside those that every path may answer."""

    gives: Mapping[int, Gives]
    query: type[BaseModel] | None = None
    body: type[BaseModel] | None = None
    fails: tuple[int, ...] = ()
    located: bool = False
    """The answer says in `Location` where the work can be followed."""
    open: bool = False
    """Answered over TCP without a token."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A method of a path, its promise and who keeps it."""

    method: str
    path: str
    handler: Handler
    promise: Promise

    @property
    def name(self) -> str:
        """Of the operation in the document: the handler's."""
        return self.handler.__name__


@dataclass(slots=True)
class Endpoints:
    """A table of endpoints, filled by decorating their handlers."""

    rows: list[Endpoint] = field(default_factory=list)

    def add(self, method: str, path: str, promise: Promise) -> Callable[[Handler], Handler]:
        def note(handler: Handler) -> Handler:
            self.rows.append(Endpoint(method, path, handler, promise))
            return handler

        return note

    def __iter__(self) -> Iterator[Endpoint]:
        return iter(self.rows)


class SlowBody(AgentError):
    """The body does not come."""

    code = "api.slow_body"
    message = "cannot wait longer for the body of the request: it was not whole after {seconds:.0f} s"
    http_status = 408


def reply(shape: BaseModel | Sequence[BaseModel], status: int = 200) -> web.Response:
    """A shape, or a list of them, as JSON."""
    if isinstance(shape, BaseModel):
        return web.Response(body=shape.model_dump_json().encode(), status=status, content_type="application/json")
    text = ",".join(one.model_dump_json() for one in shape)
    return web.Response(body=f"[{text}]".encode(), status=status, content_type="application/json")


async def body_of(request: web.Request, shape: type[Shape]) -> Shape:
    """The request's JSON body in its shape; none at all is an empty one."""
    try:
        async with asyncio.timeout(BODY_S):
            raw = await request.read()
    except TimeoutError:
        raise SlowBody(seconds=BODY_S) from None
    try:
        return shape.model_validate_json(raw or b"{}")
    except ValidationError as error:
        raise InvalidInput(what="the request", why=first_of(error), errors=plain(error.error_count())) from error


def query_of(request: web.Request, shape: type[Shape]) -> Shape:
    """The request's query in its shape. A name that stands twice is an error: nobody can tell which was meant."""
    names = list(request.query)
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise UsageError(why=f"{twice[0]} stands twice in the query")
    try:
        return shape.model_validate(dict(request.query))
    except ValidationError as error:
        raise UsageError(why=f"the query's {first_of(error)}") from error


def first_of(error: ValidationError) -> str:
    """The first thing that is wrong, and where."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    where = ".".join(str(part) for part in first["loc"]) or "body"
    return f"{where}: {first['msg']}"


def registered(endpoints: Iterable[Endpoint]) -> list[web.RouteDef]:
    """Routes for aiohttp; a GET answers HEAD too."""
    options = {hdrs.METH_GET: {"allow_head": True}}
    return [web.RouteDef(one.method, one.path, one.handler, options.get(one.method, {})) for one in endpoints]
