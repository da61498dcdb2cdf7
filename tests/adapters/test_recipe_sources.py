"""Recipes from a real local server, a folder and the pins on disk."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from agent.adapters.recipe_folder import FolderSource
from agent.adapters.recipe_http import HttpSource
from agent.adapters.recipe_pins import DiskPins
from agent.recipe.listing import Query
from agent.recipe.source import Fetched, Pin, Unchanged
from agent.recipe.trouble import BadRecipe, PinBroken, SourceTrouble
from tests.recipe.documents import document, encode, entry, listing

SLUG = "small-model-on-2x-card"


@dataclass
class Server:
    """A recipe site on loopback. `answers` maps a path to what it gives; every request is written down."""

    url: str = ""
    answers: dict[str, Any] = field(default_factory=dict)
    seen: list[web.BaseRequest] = field(default_factory=list)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.seen.append(request)
        answer = self.answers.get(request.path)
        if answer is None:
            return web.Response(status=404)
        if callable(answer):
            response: web.StreamResponse = await answer(request)
            return response
        return web.json_response(answer)


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    made = Server()
    runner = web.ServerRunner(web.Server(made.handle), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    made.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield made
    await runner.cleanup()


async def test_a_document_is_fetched_and_the_next_request_is_conditional(server: Server) -> None:
    async def answer(request: web.BaseRequest) -> web.Response:
        if request.headers.get("If-None-Match") == '"v1"':
            return web.Response(status=304)
        return web.Response(body=encode(document()), content_type="application/json", headers={"ETag": '"v1"'})

    server.answers[f"/api/v1/recipes/{SLUG}.json"] = answer
    site = HttpSource(server.url)
    fetched = await site.fetch(SLUG)
    assert isinstance(fetched, Fetched)
    assert (fetched.data, fetched.etag) == (encode(document()), '"v1"')
    pin = Pin(SLUG, "0" * 64, fetched.source, 0, 0, fetched.etag)
    assert isinstance(await site.fetch(SLUG, pin), Unchanged)


async def test_a_recipe_that_is_not_there_is_none(server: Server) -> None:
    assert await HttpSource(server.url).fetch("absent") is None


async def test_a_listing_is_read_page_by_page_with_the_filters_as_parameters(server: Server) -> None:
    async def answer(request: web.BaseRequest) -> web.Response:
        page = int(request.query.get("page", "1"))
        return web.json_response(listing(entry(f"recipe-{page}"), page=page, pages=3, engine="vllm", search=None))

    server.answers["/api/v1/recipes.json"] = answer
    pages = await HttpSource(server.url).search(Query(engine="vllm", text="moe", max_gpus=4))
    assert [recipe.slug for page in pages for recipe in page.entries] == ["recipe-1", "recipe-2", "recipe-3"]
    assert dict(server.seen[1].query) == {"engine": "vllm", "search": "moe", "page": "2"}
    assert pages[0].notes == (f"{server.url} did not apply search; applied here as far as its entries say",)


async def test_an_entry_is_found_in_a_listing_without_a_suffix(server: Server) -> None:
    server.answers["/api/v1/recipes"] = listing(entry("listed"))
    found = await HttpSource(server.url).entry("listed")
    assert found is not None
    assert found.sha256 is None


async def _huge(request: web.BaseRequest) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    await response.prepare(request)
    for _ in range(90):
        await response.write(b" " * 65536)
    return response


async def _silent(request: web.BaseRequest) -> web.StreamResponse:
    await asyncio.Event().wait()
    return web.Response()


async def _dripping(request: web.BaseRequest) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    await response.prepare(request)
    while True:
        await response.write(b" ")
        await asyncio.sleep(0.02)


async def _broken(request: web.BaseRequest) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "application/json", "Content-Length": "1000"})
    await response.prepare(request)
    await response.write(b"{")
    assert request.transport is not None
    request.transport.close()
    return response


async def _page(request: web.BaseRequest) -> web.Response:
    return web.Response(text="<html>", content_type="text/html")


async def _failing(request: web.BaseRequest) -> web.Response:
    return web.Response(status=500)


async def _away(request: web.BaseRequest) -> web.Response:
    return web.Response(status=302, headers={"Location": "http://169.254.169.254/latest/meta-data"})


async def _round(request: web.BaseRequest) -> web.Response:
    return web.Response(status=302, headers={"Location": str(request.rel_url)})


@pytest.mark.parametrize(
    ("answer", "error", "why"),
    [
        (_huge, BadRecipe, "larger than 5 MB"),
        (_silent, SourceTrouble, "no whole answer within 0.5 s"),
        (_dripping, SourceTrouble, "no whole answer within 0.5 s"),
        (_broken, SourceTrouble, "cannot read the recipe"),
        (_page, SourceTrouble, "it answered text/html where JSON is expected"),
        (_failing, SourceTrouble, "it answered 500"),
        (_away, SourceTrouble, "redirects to http://169.254.169.254, which is not this source"),
        (_round, SourceTrouble, "more than 3 redirects"),
    ],
)
async def test_a_bad_server_is_a_clear_error(server: Server, answer: Any, error: type[Exception], why: str) -> None:
    server.answers[f"/api/v1/recipes/{SLUG}.json"] = answer
    timeout_s = 0.5 if "within" in why else 20.0  # five megabytes may take a busy machine longer
    with pytest.raises(error) as caught:
        await HttpSource(server.url, timeout_s=timeout_s).fetch(SLUG)
    assert why in str(caught.value)
    assert server.url in str(caught.value)


async def test_a_server_that_is_not_there_is_a_clear_error() -> None:
    with pytest.raises(SourceTrouble, match=r"cannot read the recipe .* from http://127\.0\.0\.1:9: "):
        await HttpSource("http://127.0.0.1:9").fetch(SLUG)


async def test_a_redirect_within_the_site_is_followed(server: Server) -> None:
    async def moved(request: web.BaseRequest) -> web.Response:
        return web.Response(status=301, headers={"Location": "/moved.json"})

    server.answers |= {f"/api/v1/recipes/{SLUG}.json": moved, "/moved.json": document()}
    fetched = await HttpSource(server.url).fetch(SLUG)
    assert isinstance(fetched, Fetched)
    assert json.loads(fetched.data) == document()


def test_a_site_knows_its_own_urls() -> None:
    site = HttpSource("https://site.example/")
    assert site.owns(f"https://site.example/api/v1/recipes/{SLUG}.json") == SLUG
    assert site.owns("https://site.example.evil.example/api/v1/recipes/a.json") is None
    assert site.owns("https://site.example/api/v1/recipes/..%2Fx.json") is None
    assert site.owns("https://site.example/about") is None


async def test_a_folder_gives_documents_by_slug_whatever_the_file_is_called(tmp_path: Path) -> None:
    (tmp_path / "other-name.json").write_bytes(encode(document()))
    (tmp_path / "listing.json").write_bytes(encode(listing(entry("listed"), entry(SLUG))))
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "notes.txt").write_text("not a recipe")
    folder = FolderSource(tmp_path)
    fetched = await folder.fetch(SLUG)
    assert isinstance(fetched, Fetched)
    assert fetched.source == str(tmp_path / "other-name.json")
    assert await folder.fetch("listed") is None
    listed = await folder.entry("listed")
    assert listed is not None
    pages = await folder.search(Query())
    assert [recipe.slug for page in pages for recipe in page.entries] == [SLUG, "listed", SLUG]
    assert "broken.json" in pages[0].notes[0]


async def test_one_bad_file_hides_no_other(tmp_path: Path) -> None:
    """It is told by a search, and is the reason where the slug is in none of the others."""
    (tmp_path / "a-huge.json").write_text('{"slug": "huge", "x": "' + "y" * 5_000_001 + '"}')
    (tmp_path / "b-broken.json").write_text("{")
    (tmp_path / "c-link.json").symlink_to(tmp_path / "nowhere")
    (tmp_path / "d-folder.json").mkdir()
    os.mkfifo(tmp_path / "e-pipe.json")
    (tmp_path / "z.json").write_text('{"slug": "good"}')
    source = FolderSource(tmp_path)
    assert isinstance(await source.fetch("good"), Fetched)
    with pytest.raises(BadRecipe, match="larger than"):
        await source.fetch("huge")
    pages = await source.search(Query())
    assert [entry.slug for page in pages for entry in page.entries] == ["good"]
    assert len(pages[0].notes) == 2


async def test_of_two_files_with_one_slug_the_same_one_is_found_and_fetched(tmp_path: Path) -> None:
    for name in ("a.json", "twice.json", "z.json"):
        (tmp_path / name).write_text(json.dumps({"slug": "twice", "title": name}))
    source = FolderSource(tmp_path)
    fetched = await source.fetch("twice")
    assert isinstance(fetched, Fetched)
    page = (await source.search(Query()))[0]
    assert [entry.title for entry in page.entries] == ["twice.json"] == [json.loads(fetched.data)["title"]]
    assert page.notes == (
        "a.json and twice.json are both twice; twice.json counts",
        "twice.json and z.json are both twice; twice.json counts",
    )


@pytest.mark.parametrize("name", [f"{SLUG}.json", "other.json"], ids=["by its name", "by what stands in it"])
async def test_a_document_that_is_broken_is_why_its_recipe_is_not_found(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(f'{{"slug": "{SLUG}", "title": ')
    (tmp_path / "of-another.json").write_text("{")
    folder = FolderSource(tmp_path)
    with pytest.raises(BadRecipe, match=name):
        await folder.fetch(SLUG)
    assert await folder.fetch("nobodys") is None
    (tmp_path / "sound.json").write_bytes(encode(document()))
    assert isinstance(await folder.fetch(SLUG), Fetched)


async def test_a_folder_that_is_not_there_has_no_recipes(tmp_path: Path) -> None:
    folder = FolderSource(tmp_path / "none")
    assert await folder.fetch(SLUG) is None
    assert [page.entries for page in await folder.search(Query())] == [()]


def _pin_of(data: bytes) -> Pin:
    return Pin(SLUG, hashlib.sha256(data).hexdigest(), "https://site.example/x.json", 1.0, 2.0, '"v1"', None)


async def test_pins_survive_and_an_older_copy_stays_beside_the_new_one(tmp_path: Path) -> None:
    pins = DiskPins(tmp_path)
    old, new = encode(document()), encode(document(votes=2))
    await pins.put(_pin_of(old), old)
    await pins.put(_pin_of(new), new)
    assert await DiskPins(tmp_path).get(SLUG) == (_pin_of(new), new)
    assert (tmp_path / SLUG / f"{_pin_of(old).sha256}.json").read_bytes() == old
    assert await pins.get("absent") is None


@pytest.mark.parametrize("spoil", ["bytes", "pin", "keys"])
async def test_a_pin_that_is_not_what_was_pinned_is_never_used(tmp_path: Path, spoil: str) -> None:
    data = encode(document())
    pins = DiskPins(tmp_path)
    await pins.put(_pin_of(data), data)
    place = tmp_path / SLUG
    if spoil == "bytes":
        (place / f"{_pin_of(data).sha256}.json").write_bytes(data + b" ")
    else:
        (place / "pin.json").write_text("{" if spoil == "pin" else '{"slug": "x"}')
    with pytest.raises(PinBroken, match="cannot use the pinned copy"):
        await pins.get(SLUG)


async def test_a_cache_that_cannot_be_written_is_an_error_of_the_family(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(SourceTrouble, match="cannot read the cache"):
        await DiskPins(blocked).put(_pin_of(b"x"), b"x")
    assert os.listdir(tmp_path) == ["file"]
