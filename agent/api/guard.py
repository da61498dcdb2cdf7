"""Who may ask what over TCP: what is open everybody, the rest with a token or a certificate."""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from ipaddress import ip_address
from urllib.parse import urlsplit

import structlog
from aiohttp import web

from agent.api.caller import Caller
from agent.api.rate import Rate, neighbourhood
from agent.errors import AgentError, plain

log = structlog.get_logger()
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
WRONG_TOKEN_COST = 10.0
"""A wrong token costs as much of the rate as so many requests."""


class NotAllowed(AgentError):
    """Over TCP without a token."""

    code = "api.not_allowed"
    message = "cannot answer {method} {path}: {why}"
    hint = "use the unix socket, or send Authorization: Bearer with a token of listen.token_file"
    http_status = 401
    headers = {"WWW-Authenticate": 'Bearer realm="recipe-agent"'}  # noqa: RUF012 - read only


class ForeignName(AgentError):
    """A browser that was led here under a name which is not this host's (DNS rebinding)."""

    code = "api.foreign_name"
    message = "cannot answer for {name!r}: that is not a name of this host"
    hint = "ask by address, or add the name to listen.names in agent.yaml"
    http_status = 421


class CrossSite(AgentError):
    """A page of another site wants to change something with this browser's certificate."""

    code = "api.cross_site"
    message = "cannot answer {method} {path}: a page of {origin} asks"
    hint = "changes are asked by the command line, or by a client that sends no Origin of another site"
    http_status = 403


class TooOften(AgentError):
    """More requests than an address may send."""

    code = "api.too_often"
    message = "cannot answer {address} yet: it asks more often than {per_s:g} times a second"
    hint = "wait {wait} s; the limit is listen.rate_per_s"
    retryable = True
    http_status = 429

    def __init__(self, *, address: str, per_s: float, wait: int) -> None:
        super().__init__(address=address, per_s=per_s, wait=wait)
        self.headers = {"Retry-After": str(wait)}


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens of `listen.token_file`: any of them opens, so that one can be replaced without a gap."""

    values: tuple[str, ...] = ()

    def match(self, given: str) -> str | None:
        """A name for the token that was given (digits of its SHA-256); None where it is none of them.

        All are compared, each in constant time: the answer's time tells nothing.
        """
        same = [hmac.compare_digest(given.encode(), value.encode()) for value in self.values]
        return hashlib.sha256(given.encode()).hexdigest()[:8] if any(same) else None


@dataclass(slots=True)
class Guard:
    """The TCP side's rules; `tokens` and `names` are replaced when their files change."""

    rate: Rate
    open: frozenset[str]
    """Paths, as the routes are written, that GET answers to everybody."""
    peer: Callable[[web.Request], Caller]
    tokens: Tokens = field(default_factory=Tokens)
    names: frozenset[str] = frozenset({"localhost"})

    def admit(self, request: web.Request) -> Caller:
        """Who asks, where the request may be answered. Raises what stands against it."""
        caller = self.peer(request)
        self._paced(caller)
        token = self._token(request, caller)
        if token or caller.certificate:
            self._same_site(request)
            return Caller("tcp", caller.address, token=token, certificate=caller.certificate)
        self._own_name(request)
        if not self._is_open(request):
            raise NotAllowed(method=request.method, path=request.path, why="over TCP this needs a token")
        return caller

    def _is_open(self, request: web.Request) -> bool:
        """What is open may be read; asked to do more, it says itself that it cannot."""
        if isinstance(request.match_info.http_exception, web.HTTPMethodNotAllowed):
            return request.path in self.open
        resource = request.match_info.route.resource
        return resource is not None and resource.canonical in self.open and request.method in ("GET", "HEAD")

    def _paced(self, caller: Caller, cost: float = 1.0) -> None:
        wait = self.rate.wait(neighbourhood(caller.address), time.monotonic(), cost)
        if wait > 0:
            raise TooOften(address=caller.address, per_s=self.rate.per_s, wait=int(wait) + 1)

    def _token(self, request: web.Request, caller: Caller) -> str:
        """The name of the token that was sent, empty without any. A wrong one is refused whatever it was sent for.

        Other schemes are a proxy's own business.
        """
        scheme, _, given = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            return ""
        found = self.tokens.match(given.strip())
        if found is None:
            self._paced(caller, WRONG_TOKEN_COST)
            log.warning("refused", path=request.path, by=caller.text, reason="the token is not one of this agent's")
            raise NotAllowed(method=request.method, path=request.path, why="the token is not one of this agent's")
        return found

    def _own_name(self, request: web.Request) -> None:
        """A page of a stranger's name that was made to resolve to this host could read what is open here."""
        name = host_name(request.headers.get("Host", ""))
        if name and name not in self.names and not is_address(name):
            raise ForeignName(name=name)

    def _same_site(self, request: web.Request) -> None:
        """A browser sends its certificate along with whatever any page asks; it also says which page it was."""
        if request.method in SAFE:
            return
        origin, site = request.headers.get("Origin"), request.headers.get("Sec-Fetch-Site", "none")
        foreign = origin is not None and urlsplit(origin).netloc.lower() != request.headers.get("Host", "").lower()
        if foreign or site not in ("same-origin", "none"):
            raise CrossSite(method=request.method, path=request.path, origin=plain(origin or "another site"))


def host_name(header: str) -> str:
    """`Host` without its port, in small letters."""
    name = header.rpartition("]")[0].lstrip("[") if header.startswith("[") else header.partition(":")[0]
    return name.lower().rstrip(".")


def is_address(name: str) -> bool:
    """An address cannot be led elsewhere."""
    try:
        ip_address(name.partition("%")[0])
    except ValueError:
        return False
    return True
