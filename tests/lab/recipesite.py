"""A recipe site on loopback: the listing with pages and filters, the documents with ETags, and faults at will.

with recipesite.running([document, …]) as site:
    site.url                       # http://127.0.0.1:PORT
    site.fault = Fault.SLOW        # the next answers come late
    site.asked                     # what was asked, with its headers
"""

from __future__ import annotations

import enum
import hashlib
import json
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

API = "/api/v1/recipes"
PER_PAGE = 12
HUGE_BYTES = 6 * 2**20

Document = Mapping[str, Any]

# What the site filters by; of any other parameter `meta.applied` says null, whatever was asked.
FILTERS: Mapping[str, Callable[[Document, str], bool]] = {
    "search": lambda document, text: text.lower() in f"{document['slug']} {document.get('title', '')}".lower(),
    "model": lambda document, slug: any(model["slug"] == slug for model in document.get("models", ())),
    "hardware": lambda document, slug: any(card["slug"] == slug for card in document.get("hardware", ())),
    "task": lambda document, task: task in document.get("tasks", ()),
    "tier": lambda document, tier: document.get("tier") == tier,
    "generation": lambda document, generation: document.get("generation") == generation,
}
KNOWN_NOT_APPLIED = ("engine", "quant", "storage", "vram")


class Fault(enum.Enum):
    """What goes wrong with every answer until it is set back to NONE."""

    NONE = "none"
    SLOW = "slow"  # no answer until the fault is taken back or the site ends
    BROKEN = "broken"  # status 500
    HUGE = "huge"  # more than 5 MB of valid JSON
    WRONG_TYPE = "wrong type"  # a web page with status 200
    WRONG_SHAPE = "wrong shape"  # JSON that is no object
    CUT = "cut"  # fewer bytes than its Content-Length says
    REDIRECT = "redirect"  # to `redirect_to`


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that the site had; names of headers in lower case."""

    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]


@dataclass
class RecipeSite:
    """What is published, what goes wrong, and what was asked. Documents are served byte for byte."""

    documents: dict[str, bytes]
    port: int = 0
    per_page: int = PER_PAGE
    redirect_to: str = "http://127.0.0.1:9/elsewhere"
    asked: list[Asked] = field(default_factory=list)
    _fault: Fault = Fault.NONE
    _changed: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        """The site's address, with no slash at the end."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def fault(self) -> Fault:
        """What goes wrong now."""
        return self._fault

    @fault.setter
    def fault(self, fault: Fault) -> None:
        self._fault = fault
        self._changed.set()
        self._changed = threading.Event()

    def publish(self, document: bytes) -> None:
        """Adds a document, or a new revision of one, under the slug that it states."""
        self.documents[json.loads(document)["slug"]] = document

    def wait_while_slow(self) -> None:
        """Returns when the fault was changed."""
        self._changed.wait()

    def listing(self, query: Mapping[str, str]) -> dict[str, Any]:
        """A page of the listing, with `meta.applied` saying which filters it went by."""
        asked = {name: query.get(name) for name in FILTERS}
        applied = asked | dict.fromkeys(KNOWN_NOT_APPLIED)
        entries = [_entry(document) for document in map(json.loads, self.documents.values()) if _fits(document, asked)]
        page, per_page = int(query.get("page", "1")), int(query.get("per_page", self.per_page))
        meta = {
            "count": len(entries),
            "page": page,
            "pages": max(1, -(-len(entries) // per_page)),
            "per_page": per_page,
        }
        return {
            "meta": {**meta, "applied": applied, "origin": self.url},
            "recipes": entries[(page - 1) * per_page : page * per_page],
        }


@contextmanager
def running(documents: Sequence[bytes] = (), per_page: int = PER_PAGE) -> Iterator[RecipeSite]:
    """A site that publishes these documents (JSON with a `slug`), ended after the block."""
    site = RecipeSite({}, per_page=per_page)
    for document in documents:
        site.publish(document)
    server = _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"site": site}))
    site.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, name="recipe site")
    thread.start()
    try:
        yield site
    finally:
        site.fault = Fault.NONE
        server.shutdown()
        thread.join()
        server.server_close()


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """A client that gives up is what the faults are for; anything else is shown as usual."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


class _Handler(BaseHTTPRequestHandler):
    site: RecipeSite

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        query = dict(parse_qsl(parts.query))
        self.site.asked.append(Asked(parts.path, query, {name.lower(): value for name, value in self.headers.items()}))
        if self.site.fault is Fault.SLOW:
            self.site.wait_while_slow()
        match self.site.fault:
            case Fault.BROKEN:
                self._answer(500, b"Internal Server Error", "text/plain")
            case Fault.REDIRECT:
                self._answer(302, b"", "text/plain", {"Location": self.site.redirect_to})
            case Fault.HUGE:
                self._answer(200, b'{"recipes": [], "filler": "' + b"x" * HUGE_BYTES + b'"}', "application/json")
            case Fault.WRONG_TYPE:
                self._answer(200, b"<!doctype html><title>Sign in</title>", "text/html")
            case Fault.WRONG_SHAPE:
                self._answer(200, b"[]", "application/json")
            case _:
                self._route(parts.path, query)

    def _route(self, path: str, query: Mapping[str, str]) -> None:
        if path == f"{API}.json":
            return self._document(json.dumps(self.site.listing(query)).encode())
        slug = path.removeprefix(f"{API}/").removesuffix(".json")
        if path == f"{API}/{slug}.json" and slug in self.site.documents:
            return self._document(self.site.documents[slug])
        return self._answer(404, b'{"error": "not found"}', "application/json")

    def _document(self, body: bytes) -> None:
        tag = f'"{hashlib.sha256(body).hexdigest()[:16]}"'
        if self.headers.get("If-None-Match") == tag:
            self._answer(304, b"", "application/json", {"ETag": tag})
        else:
            self._answer(200, body, "application/json", {"ETag": tag})

    def _answer(self, status: int, body: bytes, kind: str, more: Mapping[str, str] | None = None) -> None:
        cut = len(body) // 2 if self.site.fault is Fault.CUT else len(body)
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), **(more or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body[:cut])
        self.close_connection = self.close_connection or cut < len(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the name is the base class's)
        """Nothing: what was asked is kept in `asked`."""


def _entry(document: Document) -> dict[str, Any]:
    """What a listing tells of a document."""
    told = ("slug", "title", "summary", "tier", "beta", "generation", "updated_at", "credit", "uploaded_by")
    slug, revision = document["slug"], document.get("revision") or {}
    return {
        **{key: document[key] for key in told if key in document},
        "content_hash": revision.get("content_hash"),
        "commit_sha": revision.get("commit_sha"),
        "links": {"self": f"{API}/{slug}.json", "alternate": f"/r/{slug}"},
    }


def _fits(document: Document, asked: Mapping[str, str | None]) -> bool:
    return all(FILTERS[name](document, value) for name, value in asked.items() if value is not None)
