"""Sizes of a registry: by platform, with a token or a login where it wants one, and never in the way."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from agent.adapters.image_registry import HttpRegistry, trusted
from agent.image.room import Layer
from tests.lab.children import free_port

DIGEST = "sha256:" + "a" * 64


class FakeRegistry:
    """One image for two platforms. `wants`: nothing, `token` or `login`."""

    def __init__(self) -> None:
        self.wants = ""
        self.at = ""
        self.logins: list[str] = []
        self.realm = ""
        self.answers: dict[str, Any] = {}

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/token", self.token)
        app.router.add_get("/v2/team/tiny/{path:.*}", self.get)
        return app

    async def token(self, request: web.Request) -> web.Response:
        self.logins.append(request.headers.get("Authorization", ""))
        assert request.query["scope"] == "repository:team/tiny:pull"
        return web.json_response({"token": "t0k"})

    async def get(self, request: web.Request) -> web.Response:
        given = request.headers.get("Authorization", "")
        if self.wants == "token" and given != "Bearer t0k":
            challenge = f'Bearer realm="{self.realm}",service="reg",scope="repository:team/tiny:pull"'
            return web.Response(status=401, headers={"WWW-Authenticate": challenge})
        if self.wants == "login" and given != "Basic " + base64.b64encode(b"me:secret").decode():
            return web.Response(status=401, headers={"WWW-Authenticate": 'Basic realm="reg"'})
        path = request.match_info["path"]
        if path not in self.answers:
            return web.Response(status=404)
        return web.json_response(self.answers[path])


@pytest.fixture
async def registry() -> AsyncIterator[FakeRegistry]:
    fake = FakeRegistry()
    runner = web.AppRunner(fake.app())
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    fake.at = f"127.0.0.1:{runner.addresses[0][1]}"
    fake.realm = f"http://{fake.at}/token"
    platforms = [{"digest": f"sha256:{n}", "platform": {"os": "linux", "architecture": n}} for n in ("amd64", "arm64")]
    layers = [{"size": 100, "digest": "sha256:l1"}, {"size": 50, "digest": "sha256:l2"}]
    fake.answers = {
        "manifests/1": {"manifests": platforms},
        "manifests/sha256:arm64": {"config": {"digest": "sha256:c"}, "layers": layers},
        f"manifests/{DIGEST}": {"config": {"digest": "sha256:c"}, "layers": layers},
        "blobs/sha256:c": {"rootfs": {"diff_ids": ["sha256:d1", "sha256:d2"]}},
    }
    yield fake
    await runner.cleanup()


@pytest.fixture
def logged_in(registry: FakeRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What `docker login` leaves."""
    auth = base64.b64encode(b"me:secret").decode()
    (tmp_path / "config.json").write_text(json.dumps({"auths": {registry.at: {"auth": auth}}}))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))


EXPECT = (Layer(100, "sha256:d1"), Layer(50, "sha256:d2"))


async def test_the_sizes_of_this_platform_s_layers(registry: FakeRegistry) -> None:
    """Through an index, or of a manifest by digest."""
    assert await HttpRegistry().layers(f"{registry.at}/team/tiny:1", "arm64") == EXPECT
    assert await HttpRegistry().layers(f"{registry.at}/team/tiny@{DIGEST}", "arm64") == EXPECT
    assert await HttpRegistry().layers(f"{registry.at}/team/tiny:1", "riscv64") is None


async def test_a_token_is_fetched_where_one_is_wanted(registry: FakeRegistry) -> None:
    """Without a login too, as public registries give them."""
    registry.wants = "token"
    assert await HttpRegistry().layers(f"{registry.at}/team/tiny:1", "arm64") == EXPECT
    assert registry.logins == [""]


@pytest.mark.usefixtures("logged_in")
@pytest.mark.parametrize("wants", ["token", "login"])
async def test_the_operator_s_login_is_used(registry: FakeRegistry, wants: str) -> None:
    """As `docker login` left it."""
    registry.wants = wants
    assert await HttpRegistry().layers(f"{registry.at}/team/tiny:1", "arm64") == EXPECT
    if wants == "token":
        assert registry.logins == ["Basic " + base64.b64encode(b"me:secret").decode()]


async def test_what_a_registry_does_not_say_is_unknown(registry: FakeRegistry) -> None:
    """No such tag, no login, nonsense, nobody there."""
    assert await HttpRegistry().layers(f"{registry.at}/team/tiny:none", "arm64") is None
    registry.answers["manifests/odd"] = {"layers": "many"}
    assert await HttpRegistry().layers(f"{registry.at}/team/tiny:odd", "arm64") is None
    registry.wants = "login"
    assert await HttpRegistry().layers(f"{registry.at}/team/tiny:1", "arm64") is None
    assert await HttpRegistry().layers(f"127.0.0.1:{free_port()}/team/tiny:1", "arm64") is None


@pytest.mark.parametrize(
    ("realm", "registry", "answer"),
    [
        ("https://auth.docker.io/token", "https://registry-1.docker.io/v2/", True),
        ("http://auth.docker.io/token", "https://registry-1.docker.io/v2/", False),
        ("http://127.0.0.1:9465/token", "https://registry-1.docker.io/v2/", False),
        ("https://localhost/token", "https://registry-1.docker.io/v2/", False),
        ("http://127.0.0.1:5001/token", "http://127.0.0.1:5000/v2/", True),
        ("file:///etc/passwd", "https://registry-1.docker.io/v2/", False),
        ("", "https://registry-1.docker.io/v2/", False),
    ],
)
def test_which_token_servers_are_asked(realm: str, registry: str, answer: bool) -> None:
    """A registry of the world does not lead a login, or a request, to this host or over an open line."""
    assert trusted(realm, registry) is answer
