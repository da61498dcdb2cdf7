"""A recipe site over HTTP: conditional, bounded in size, type and time, and never led to another host.

aiohttp is imported at the first request: a plan from a file or a fresh pin does not need it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urlencode, urljoin, urlsplit

from agent.quantity import Bytes
from agent.recipe.jsontext import MAX_BYTES, parse
from agent.recipe.listing import Page, Query, read_page
from agent.recipe.model import Recipe
from agent.recipe.read import SLUG
from agent.recipe.source import Fetched, Pin, Unchanged
from agent.recipe.trouble import BadRecipe, SourceTrouble

if TYPE_CHECKING:
    import aiohttp

DOCUMENT = "/api/v1/recipes/{slug}.json"
LISTINGS = ("/api/v1/recipes.json", "/api/v1/recipes")
REDIRECTS = 3
MAX_PAGES = 100
CHUNK = 65536
_TYPES = re.compile(r"(?:application|text)/(?:[\w.+-]+\+)?json|text/plain")


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer; `data` is empty for a 304 and a 404."""

    status: int
    data: bytes
    headers: Mapping[str, str]
    url: str


class HttpSource:
    """One configured site. `timeout_s` bounds each request as a whole, a server that drips included."""

    remote = True

    def __init__(self, url: str, timeout_s: float = 20.0) -> None:
        self.name = url.rstrip("/")
        self.timeout_s = timeout_s

    async def fetch(self, slug: str, pin: Pin | None = None) -> Fetched | Unchanged | None:
        answer = await self._ask(self._document(slug), f"the recipe {slug}", _conditions(pin))
        if answer.status == 404:
            return None
        if answer.status == 304:
            return Unchanged()
        source = self._document(slug)
        return Fetched(answer.data, source, answer.headers.get("ETag"), answer.headers.get("Last-Modified"))

    async def entry(self, slug: str) -> Recipe | None:
        pages = await self.search(Query())
        return next((entry for page in pages for entry in page.entries if entry.slug == slug), None)

    async def search(self, query: Query) -> tuple[Page, ...]:
        first = await self._page(query, 1)
        last = min(first.pages, MAX_PAGES)
        return (first, *[await self._page(query, number) for number in range(2, last + 1)])

    def owns(self, url: str) -> str | None:
        head, tail = DOCUMENT.split("{slug}")
        path = url.removeprefix(self.name + head) if url.startswith(self.name + head) else ""
        slug = unquote(path.removesuffix(tail))
        return slug if SLUG.fullmatch(slug) else None

    def _document(self, slug: str) -> str:
        return self.name + DOCUMENT.format(slug=quote(slug, safe=""))

    async def _page(self, query: Query, number: int) -> Page:
        words = urlencode(query.parameters() | ({"page": str(number)} if number > 1 else {}))
        for path in LISTINGS:
            url = self.name + path + (f"?{words}" if words else "")
            answer = await self._ask(url, "the listing", {})
            if answer.status != 404:
                return self._read(answer, query)
        raise SourceTrouble(what="the listing", source=self.name, why="it has none (404)")

    def _read(self, answer: Answer, query: Query) -> Page:
        page = read_page(parse(answer.data, answer.url, []), answer.url)
        asked = query.parameters()
        ignored = [key for key in asked if page.applied is not None and page.applied.get(key) in (None, "", [])]
        note = (f"{self.name} did not apply {', '.join(ignored)}; applied here as far as its entries say",)
        return Page(page.entries, page.page, page.pages, page.applied, page.notes + (note if ignored else ()))

    async def _ask(self, url: str, what: str, headers: Mapping[str, str]) -> Answer:
        """GET with every redirect looked at. Raises SourceTrouble for anything but 200, 304 and 404."""
        import aiohttp

        timeout = aiohttp.ClientTimeout(total=self.timeout_s)
        try:
            async with aiohttp.ClientSession(timeout=timeout) as session:
                for _ in range(REDIRECTS + 1):
                    answer = await self._once(session, url, what, headers)
                    if answer.status not in (301, 302, 303, 307, 308):
                        return answer
                    url = self._follow(answer, what)
        except TimeoutError as error:
            raise self._trouble(what, f"no whole answer within {self.timeout_s:g} s") from error
        except aiohttp.ClientError as error:
            raise self._trouble(what, str(error) or type(error).__name__) from error
        raise self._trouble(what, f"more than {REDIRECTS} redirects")

    async def _once(self, session: aiohttp.ClientSession, url: str, what: str, headers: Mapping[str, str]) -> Answer:
        sent = {"Accept": "application/json", "User-Agent": "recipe-agent", **headers}
        async with session.get(url, headers=sent, allow_redirects=False) as response:
            status = response.status
            if status == 200:
                self._typed(response.content_type, what)
                return Answer(200, await self._body(response, what), response.headers, url)
            if status in (301, 302, 303, 304, 307, 308, 404):
                return Answer(status, b"", response.headers, url)
            raise self._trouble(what, f"it answered {status} {response.reason or ''}".rstrip())

    async def _body(self, response: aiohttp.ClientResponse, what: str) -> bytes:
        data = bytearray()
        async for chunk in response.content.iter_chunked(CHUNK):
            data += chunk
            if len(data) > MAX_BYTES:
                raise BadRecipe(what=f"{what} of {self.name}", why=f"it is larger than {MAX_BYTES // 1_000_000} MB")
        said = response.headers.get("Content-Length")
        if said and said.isdigit() and int(said) > len(data) and "Content-Encoding" not in response.headers:
            raise self._trouble(what, f"the answer broke off after {Bytes(len(data))} of {Bytes(int(said))}")
        return bytes(data)

    def _typed(self, content_type: str, what: str) -> None:
        if not _TYPES.fullmatch(content_type):
            raise self._trouble(what, f"it answered {content_type} where JSON is expected")

    def _follow(self, answer: Answer, what: str) -> str:
        target = urljoin(answer.url, answer.headers.get("Location", ""))
        here, there = urlsplit(answer.url), urlsplit(target)
        safer = here.scheme == "http" and there.scheme == "https" and there.port in (None, 443)
        if there.hostname != here.hostname or not (safer or (there.scheme, there.port) == (here.scheme, here.port)):
            raise self._trouble(what, f"it redirects to {there.scheme}://{there.netloc}, which is not this source")
        return target

    def _trouble(self, what: str, why: str) -> SourceTrouble:
        return SourceTrouble(what=what, source=self.name, why=why)


def _conditions(pin: Pin | None) -> dict[str, Any]:
    if pin is None:
        return {}
    named = {"If-None-Match": pin.etag, "If-Modified-Since": pin.last_modified}
    return {key: value for key, value in named.items() if value}
