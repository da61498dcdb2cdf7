"""Archives are what their SHA-256 says, and stay where they belong."""

from __future__ import annotations

import asyncio
import hashlib
import io
import tarfile
import zipfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from aiohttp import web

from agent.adapters.image_archive import AllSources, checked
from agent.image.buildplan import SourceSpec
from agent.image.port import Mode, Patch
from agent.image.trouble import SourceMismatch, SourceRefused, SourceUnreachable
from tests.image.plans import Heard


class Shop:
    """A web server with files; one that is asked for and not there is a 404, `slow.*` never ends."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.asked = 0
        self.url = ""

    async def get(self, request: web.Request) -> web.StreamResponse:
        self.asked += 1
        name = request.match_info["name"]
        if name.startswith("slow"):
            response = web.StreamResponse()
            response.content_length = 1000
            await response.prepare(request)
            await asyncio.sleep(5)
        if name not in self.files:
            raise web.HTTPNotFound
        return web.Response(body=self.files[name])

    def put(self, name: str, data: bytes) -> SourceSpec:
        self.files[name] = data
        return SourceSpec("pack", archive=f"{self.url}/{name}", sha256=hashlib.sha256(data).hexdigest())


@pytest.fixture
async def shop() -> AsyncIterator[Shop]:
    shop, app = Shop(), web.Application()
    app.router.add_get("/{name}", shop.get)
    runner = web.AppRunner(app, shutdown_timeout=0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    shop.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield shop
    await runner.cleanup()


@pytest.fixture
def sources(tmp_path: Path) -> AllSources:
    return AllSources(tmp_path / "cache", silence_s=0.5)


def tarred(fill: Callable[[tarfile.TarFile], None]) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as archive:
        fill(archive)
    return data.getvalue()


def add(archive: tarfile.TarFile, name: str, data: bytes = b"x\n", mode: int = 0o644, link: str | None = None) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(data), mode
    if link is not None:
        info.type, info.linkname, info.size = tarfile.SYMTYPE, link, 0
    archive.addfile(info, io.BytesIO(data))


async def test_an_archive_becomes_a_source_like_any_other(shop: Shop, sources: AllSources) -> None:
    """Below its one top folder; patched as git is; fetched once."""

    def fill(archive: tarfile.TarFile) -> None:
        add(archive, "pack-1.0/a.py", b"one\n")
        add(archive, 'pack-1.0/bin/r"un', b"#!\n", 0o755)
        add(archive, "pack-1.0/link", link="a.py")

    spec = shop.put("pack.tar.gz", tarred(fill))
    tree = await sources.fetch(spec, Heard())
    assert {path: entry.mode for path, entry in tree.entries.items()} == {
        "a.py": Mode.FILE,
        'bin/r"un': Mode.EXECUTABLE,
        "link": Mode.LINK,
    }
    patch = Patch("p", "s", b"--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-one\n+two\n")
    assert await (await tree.patched([patch])).read("a.py") == b"two\n"
    assert (await sources.fetch(spec, Heard())).tree == tree.tree
    assert shop.asked == 1


async def test_a_zip_and_a_wheel(shop: Shop, sources: AllSources) -> None:
    """A wheel is used as it is, though it is a zip."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr("a.py", "a\n")
        archive.writestr("d/b.py", "b\n")
    assert sorted((await sources.fetch(shop.put("x.zip", data.getvalue()), Heard())).entries) == ["a.py", "d/b.py"]
    wheel = shop.put("tiny-1-py3-none-any.whl", data.getvalue())
    assert list((await sources.fetch(wheel, Heard())).entries) == ["tiny-1-py3-none-any.whl"]


async def test_another_file_than_the_plan_s_is_refused_and_not_kept(
    shop: Shop, sources: AllSources, tmp_path: Path
) -> None:
    """By its hash, whatever its name."""
    spec = shop.put("pack.tar.gz", tarred(lambda archive: add(archive, "a.py")))
    shop.files["pack.tar.gz"] += b"more"
    with pytest.raises(SourceMismatch, match="its SHA-256 is"):
        await sources.fetch(spec, Heard())
    assert list((tmp_path / "cache" / "archives").iterdir()) == []


@pytest.mark.parametrize("name", ["../evil", "/etc/evil", "a/../../evil", "a//b", ".git/hooks/x", "a\\b", "."])
def test_a_path_that_leaves_its_place_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="leave its place"):
        checked(name)


async def test_an_archive_with_such_a_path_is_refused(shop: Shop, sources: AllSources) -> None:
    """As a whole."""
    spec = shop.put("evil.tar.gz", tarred(lambda archive: add(archive, "a/../../evil")))
    with pytest.raises(SourceRefused, match="cannot be unpacked"):
        await sources.fetch(spec, Heard())


async def test_what_is_no_archive_or_not_there_is_said(shop: Shop, sources: AllSources) -> None:
    """Bytes that nothing unpacks, a 404, silence, an address of another kind."""
    with pytest.raises(SourceRefused, match="cannot be unpacked"):
        await sources.fetch(shop.put("pack.tar.gz", b"no archive"), Heard())
    with pytest.raises(SourceRefused, match="404"):
        await sources.fetch(SourceSpec("x", archive=f"{shop.url}/none.zip", sha256="0" * 64), Heard())
    with pytest.raises(SourceUnreachable, match="nothing came for"):
        await sources.fetch(SourceSpec("x", archive=f"{shop.url}/slow.zip", sha256="0" * 64), Heard())
    with pytest.raises(SourceRefused, match="no http or https address"):
        await sources.fetch(SourceSpec("x", archive="file:///etc/passwd", sha256="0" * 64), Heard())
    with pytest.raises(SourceRefused, match="no history"):
        await sources.contains(SourceSpec("x", archive="x", sha256="0" * 64), "a", "b", Heard())
