"""Over TCP: what is open, what a token opens, and what is refused however it is asked. A live daemon answers."""

from __future__ import annotations

import hashlib
import json
import os
import socket
from pathlib import Path

import pytest

from tests.api.conftest import OTHER_TOKEN, TOKEN, open_rig
from tests.api.tcp import ask
from tests.e2e.rig import Rig, wait_for

OPEN = ("/", "/metrics", "/healthz", "/readyz", "/openapi.json")


def documented(rig: Rig) -> list[tuple[str, str]]:
    """Every method and path of the document, its parameters filled in."""
    paths = ask(rig.port, "/openapi.json").json["paths"]
    return [
        (method.upper(), path.replace("{slug}", "sim").replace("{id}", "1"))
        for path, methods in paths.items()
        for method in methods
    ]


@pytest.mark.parametrize("path", OPEN)
def test_what_is_open_answers_everybody(rig: Rig, path: str) -> None:
    assert ask(rig.port, path).status == 200
    assert ask(rig.port, path, "HEAD").status == 200


@pytest.mark.parametrize("path", OPEN)
def test_what_is_open_is_read_only(rig: Rig, path: str) -> None:
    assert {ask(rig.port, path, method).code for method in ("POST", "PUT", "DELETE", "PATCH", "TRACE")} == {"http.405"}


def test_the_summary_streams_to_everybody(rig: Rig) -> None:
    with socket.create_connection(("127.0.0.1", rig.port), timeout=10) as connection:
        connection.sendall(b"GET /summary HTTP/1.1\r\nHost: localhost\r\n\r\n")
        data = b""
        while b"data: " not in data:
            data += connection.recv(65536)
    assert b"200 OK" in data
    assert b"text/event-stream" in data


def test_everything_else_wants_a_token(rig: Rig) -> None:
    closed = [(method, path) for method, path in documented(rig) if path not in OPEN]
    assert len(closed) > 15
    for method, path in [*closed, ("GET", "/v1/nothing"), ("GET", "/v1/"), ("OPTIONS", "/v1/host")]:
        reply = ask(rig.port, path, method)
        assert (reply.status, reply.code) == (401, "api.not_allowed"), (method, path)
        assert reply.headers["www-authenticate"].startswith("Bearer")
    assert rig.status("sim")["desired"] == "running", "nothing was done"


@pytest.mark.parametrize("token", [TOKEN, OTHER_TOKEN])
def test_each_token_of_the_file_opens(rig: Rig, token: str) -> None:
    assert ask(rig.port, "/v1/deployments", token=token).json[0]["slug"] == "sim"


@pytest.mark.parametrize("token", [TOKEN[:-1], TOKEN + "x", "#", "# of the tests", "x" * 5000, "tökén"])
def test_another_token_opens_nothing(rig: Rig, token: str) -> None:
    assert ask(rig.port, "/v1/deployments", Authorization=f"Bearer {token}".encode().decode("latin-1")).status == 401


def test_a_token_is_a_header_and_nothing_else(rig: Rig) -> None:
    """Whatever a browser sends along by itself must not open anything."""
    assert ask(rig.port, f"/v1/deployments?token={TOKEN}&access_token={TOKEN}").status == 401
    assert ask(rig.port, "/v1/deployments", Cookie=f"token={TOKEN}").status == 401
    assert ask(rig.port, "/v1/deployments", Authorization=f"Basic {TOKEN}").status == 401


def test_no_answer_sets_a_cookie_or_lets_other_sites_read_it(rig: Rig) -> None:
    for path in (*OPEN, "/v1/host", "/v1/nothing"):
        headers = ask(rig.port, path, token=TOKEN, Origin="https://evil.example").headers
        assert not {name for name in headers if name == "set-cookie" or name.startswith("access-control-")}, path
        assert headers["x-content-type-options"] == "nosniff"
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert headers["server"] == "recipe-agent"


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:9465", "localhost.evil.example", "127.0.0.1.evil.example"]
)
@pytest.mark.parametrize("path", OPEN)
def test_a_name_that_was_made_to_lead_here_is_refused(rig: Rig, path: str, host: str) -> None:
    reply = ask(rig.port, path, host=host)
    assert (reply.status, reply.code) == (421, "api.foreign_name")


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:1", "127.0.0.1:9465", "[::1]:9465", "192.0.2.9", socket.gethostname()]
)
def test_addresses_and_own_names_are_answered(rig: Rig, host: str) -> None:
    assert ask(rig.port, "/", host=host).status == 200


def test_a_page_of_another_site_changes_nothing(rig: Rig) -> None:
    """Even with a valid token: whoever holds one has no reason to ask from a foreign page."""
    for headers in ({"Origin": "https://evil.example"}, {"Sec_Fetch_Site": "cross-site"}, {"Origin": "null"}):
        reply = ask(rig.port, "/v1/deployments/sim/pause", "POST", token=TOKEN, **headers)
        assert (reply.status, reply.code) == (403, "api.cross_site")
    assert rig.status("sim")["supervision"] == "active"


def test_a_change_over_tcp_is_noted_with_address_and_token_but_not_the_token(rig: Rig) -> None:
    same = f"http://127.0.0.1:{rig.port}"
    assert ask(rig.port, "/v1/deployments/sim/pause", "POST", token=TOKEN, Origin=same).status == 200
    assert ask(rig.port, "/v1/deployments/sim/resume", "POST", token=TOKEN).json["supervision"] == "active"
    event = [one for one in rig.events("sim") if one["kind"] == "asked"][-1]
    digits = hashlib.sha256(TOKEN.encode()).hexdigest()[:8]
    assert event["text"] == f"resume asked by 127.0.0.1 with token {digits}"
    assert event["data"] == {"what": "resume", "by": {"door": "tcp", "address": "127.0.0.1", "token": digits}}
    assert TOKEN not in rig.log.read_text()


def test_a_change_on_the_unix_socket_is_noted_with_the_kernels_word(rig: Rig) -> None:
    rig.ok("pause", "sim", "-q")
    rig.ok("resume", "sim", "-q")
    by = [one for one in rig.events("sim") if one["kind"] == "asked"][-1]["data"]["by"]
    assert (by["door"], by["uid"]) == ("unix", os.getuid())
    assert by["pid"] > 1


def test_a_body_that_is_too_large_is_refused(rig: Rig) -> None:
    body = json.dumps({"document": "x" * (7 << 20)}).encode()
    reply = ask(rig.port, "/v1/plans", "POST", body, token=TOKEN)
    assert (reply.status, reply.code) == (413, "http.413")


@pytest.mark.parametrize(
    "raw",
    [
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 20_000 + b"\r\n\r\n",
        b"GET /" + b"x" * 20_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 not http\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nno colon\r\n\r\n",
    ],
    ids=["long header", "long path", "tls", "two lengths", "bad header"],
)
def test_what_is_no_http_is_answered_with_an_error_object(rig: Rig, raw: bytes) -> None:
    with socket.create_connection(("127.0.0.1", rig.port), timeout=10) as connection:
        connection.sendall(raw)
        data = b""
        while more := connection.recv(65536):
            data += more
    head, _, body = data.partition(b"\r\n\r\n")
    assert head.startswith((b"HTTP/1.1 400 ", b"HTTP/1.0 400 "))
    assert json.loads(body)["error"]["code"] == "http.400"


def test_an_unknown_method_is_answered_with_those_that_there_are(rig: Rig) -> None:
    reply = ask(rig.port, "/v1/deployments/sim/plan", "POST", token=TOKEN)
    assert (reply.status, reply.code) == (405, "http.405")
    assert reply.headers["allow"] == "GET,HEAD"


def test_an_address_that_asks_too_often_waits(tmp_path: Path) -> None:
    rig = open_rig(tmp_path, rate_per_s=0.1, burst=10)  # none comes back while a busy machine asks twelve times
    try:
        rig.start()
        replies = [ask(rig.port, "/healthz") for _ in range(12)]
        assert [one.status for one in replies] == [200] * 10 + [429] * 2
        assert replies[-1].code == "api.too_often"
        assert 1 <= int(replies[-1].headers["retry-after"]) <= 11
        assert rig.api("/v1/deployments") == [], "the unix socket has no such limit"
    finally:
        rig.close()


def test_guessing_tokens_is_slow(tmp_path: Path) -> None:
    rig = open_rig(tmp_path, rate_per_s=0.5, burst=50)
    try:
        rig.start()
        replies = [ask(rig.port, "/v1/host", token=f"guess-number-{number:08}") for number in range(8)]
        assert [one.status for one in replies].count(401) <= 5
        assert replies[-1].status == 429
    finally:
        rig.close()


def test_tokens_are_read_again_when_their_file_changes(tmp_path: Path) -> None:
    rig = open_rig(tmp_path)
    tokens, new = tmp_path / "tokens", "a-token-that-came-later-000001"

    def status(token: str) -> int:
        return ask(rig.port, "/v1/host", token=token).status

    try:
        rig.start()
        assert (status(TOKEN), status(new)) == (200, 401)
        tokens.write_text(f"{new}\n")
        wait_for(lambda: status(new) == 200, "the new token to open")
        assert status(TOKEN) == 401
        tokens.write_text("short\n")
        wait_for(lambda: "keys_refused" in rig.log.read_text(), "the refusal in the log")
        assert status(new) == 200, "a file that cannot be used changes nothing"
        assert "short\n" not in rig.log.read_text()
    finally:
        rig.close()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it holds none"),
        ("# nothing\n", "it holds none"),
        ("ok-token-0123456789\nshort\n", "line 2 is shorter than 16"),
    ],
)
def test_a_token_file_that_is_no_use_stops_the_start(tmp_path: Path, text: str, why: str) -> None:
    rig = open_rig(tmp_path)
    (tmp_path / "tokens").write_text(text)
    process = rig.launch()
    assert process.wait(20) == 1
    assert why in rig.log.read_text()
    assert "hint: one token a line" in rig.log.read_text()
