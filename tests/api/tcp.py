"""Asking the TCP side as any client could: headers as they are given, no help from a library."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer as it came."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """The code of the error object; the test fails where the answer is none."""
        error = self.json["error"]
        assert set(error) == {"code", "message", "hint", "details"}, error
        assert self.headers["content-type"].startswith("application/json")
        return str(error["code"])


def ask(
    port: int,
    path: str,
    method: str = "GET",
    body: bytes | None = None,
    token: str = "",
    tls: ssl.SSLContext | None = None,
    **headers: str,
) -> Reply:
    """One request on a connection of its own. `host="evil.example"` is the header, not the place."""
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    if token:
        sent["Authorization"] = f"Bearer {token}"
    made: http.client.HTTPConnection = (
        http.client.HTTPSConnection("127.0.0.1", port, timeout=20, context=tls)
        if tls
        else http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    )
    with closing(made) as connection:
        connection.request(method, path, body, sent)
        response = connection.getresponse()
        found = {name.lower(): value for name, value in response.getheaders()}
        return Reply(response.status, found, response.read())
