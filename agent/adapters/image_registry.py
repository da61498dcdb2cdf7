"""A registry asked for an image's sizes, over its HTTP API (distribution spec v2), as the operator's Docker would be.

Credentials come from the operator's Docker config and its helpers, and go to their registry and its token server alone.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from agent.image.reference import HUB, Reference, parse
from agent.image.room import Layer

if TYPE_CHECKING:
    import aiohttp

DEADLINE_S = 20.0
LARGEST = 8 << 20
"""Of a manifest or a config; real ones have some kilobytes."""
HUB_HOST = "registry-1.docker.io"
MANIFESTS = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
_FIELD = re.compile(r'(\w+)="([^"]*)"')
_LOOPBACK = re.compile(r"(localhost|127(\.\d+){3}|\[::1\])(:\d+)?")


@dataclass(frozen=True, slots=True)
class Login:
    """A user name and password for one registry, or a token in the name's place."""

    user: str
    password: str

    @property
    def header(self) -> str:
        return "Basic " + base64.b64encode(f"{self.user}:{self.password}".encode()).decode()


class HttpRegistry:
    """Any registry that a reference names."""

    def __init__(self, deadline_s: float = DEADLINE_S) -> None:
        self._deadline_s = deadline_s

    async def layers(self, reference: str, architecture: str) -> tuple[Layer, ...] | None:
        """None for every way in which a registry does not answer: this only looks ahead."""
        import aiohttp

        wanted = parse(reference)
        login = await asyncio.to_thread(login_for, wanted.registry)
        try:
            async with asyncio.timeout(self._deadline_s), aiohttp.ClientSession(trust_env=True) as session:
                return await self._ask(_Talk(session, wanted, login), wanted, architecture)
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError, KeyError, TypeError):
            return None

    async def _ask(self, talk: _Talk, wanted: Reference, architecture: str) -> tuple[Layer, ...] | None:
        manifest = await talk.get(f"manifests/{wanted.digest or wanted.tag or 'latest'}")
        if "manifests" in manifest:
            digest = for_platform(manifest["manifests"], architecture)
            if digest is None:
                return None
            manifest = await talk.get(f"manifests/{digest}")
        config = await talk.get(f"blobs/{manifest['config']['digest']}")
        diff_ids = list((config.get("rootfs") or {}).get("diff_ids") or ())
        sizes = [int(layer["size"]) for layer in manifest["layers"]]
        if len(diff_ids) != len(sizes):
            return tuple(Layer(size) for size in sizes)
        return tuple(Layer(size, str(diff_id)) for size, diff_id in zip(sizes, diff_ids, strict=True))


def for_platform(manifests: list[Mapping[str, Any]], architecture: str) -> str | None:
    """The digest of the image for Linux on that architecture."""
    for one in manifests:
        platform = one.get("platform") or {}
        if platform.get("os") == "linux" and platform.get("architecture") == architecture:
            return str(one["digest"])
    return None


def login_for(registry: str) -> Login | None:
    """From the operator's Docker config or its credential helper; None where there is none. Blocks."""
    from docker import auth
    from docker.errors import DockerException

    try:
        found = auth.load_config().resolve_authconfig(registry if registry != HUB else None)
    except DockerException:
        return None
    if not found or not found.get("username"):
        return None
    return Login(str(found["username"]), str(found.get("password") or ""))


class _Talk:
    """One conversation about one repository."""

    def __init__(self, session: aiohttp.ClientSession, wanted: Reference, login: Login | None) -> None:
        host = HUB_HOST if wanted.registry == HUB else wanted.registry
        # as Docker itself: plain HTTP on this host's own addresses only
        self._base = f"{'http' if _LOOPBACK.fullmatch(host) else 'https'}://{host}/v2/{wanted.path}/"
        self._session = session
        self._login = login
        self._header: str | None = None

    async def get(self, path: str) -> dict[str, Any]:
        """A JSON document; asks for a token once where the registry wants one."""
        status, challenge, data = await self._once(path)
        if status == 401 and self._header is None:
            self._header = await self._authorized(challenge)
            status, _, data = await self._once(path)
        if status != 200:
            raise ValueError(f"it answers {status}")
        document = json.loads(data)
        if not isinstance(document, dict):
            raise ValueError("it is no object")  # noqa: TRY004 - what a registry sent is a value, not a type
        return document

    async def _once(self, path: str) -> tuple[int, str, bytes]:
        headers = {"Accept": ", ".join(MANIFESTS)} | ({"Authorization": self._header} if self._header else {})
        async with self._session.get(self._base + path, headers=headers) as answer:
            data = await answer.content.read(LARGEST) if answer.status == 200 else b""
            while answer.status == 200 and len(data) < LARGEST and (more := await answer.content.read(LARGEST)):
                data += more
            return answer.status, answer.headers.get("WWW-Authenticate", ""), data

    async def _authorized(self, challenge: str) -> str:
        """The header that the registry asks for. A login goes to nobody over an open line."""
        scheme, _, rest = challenge.partition(" ")
        fields = dict(_FIELD.findall(rest))
        if scheme.lower() == "basic" and self._login is not None:
            return self._login.header
        realm = fields.get("realm", "")
        if scheme.lower() != "bearer" or not trusted(realm, self._base):
            raise ValueError("it wants a login that cannot be given")
        headers = {"Authorization": self._login.header} if self._login is not None else {}
        words = {name: fields[name] for name in ("service", "scope") if name in fields}
        async with self._session.get(realm, params=words, headers=headers) as answer:
            token = json.loads(await answer.content.read(LARGEST))
            return f"Bearer {token.get('token') or token['access_token']}"


def trusted(realm: str, registry: str) -> bool:
    """Whether a token server is asked: an encrypted one, or one of this host for a registry of this host."""
    parts, own = urlsplit(realm), urlsplit(registry)
    local = _LOOPBACK.fullmatch(parts.netloc) is not None
    return (parts.scheme == "https" and not local) or (local and _LOOPBACK.fullmatch(own.netloc) is not None)
