"""No secret in any reply: a live daemon whose recipe and site carry them, asked for everything that it has.

The secrets are of no well-known form, so that only knowing them can hide them; and some are of a form, and known to
nobody.
"""

from __future__ import annotations

import gzip
import json
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from urllib.parse import quote

import pytest

from tests.api.conftest import TOKEN, open_rig
from tests.api.tcp import ask
from tests.e2e import recipes, traffic
from tests.e2e.rig import Rig, wait_for
from tests.lab.children import free_port

FROM_FILE = "correct-horse-battery-staple"
FROM_VARIABLE = "quiet-otter-walks-at-dawn"
API_KEY = "seven-green-lanterns-burning"
IN_URL = "hunter2-of-the-mirror"
PUBLISHED = "hf_ABCDEFGHIJKLMNOPQRSTUVWX"
SECRETS = (FROM_FILE, FROM_VARIABLE, API_KEY, IN_URL, PUBLISHED, TOKEN)
NOT_YET = {"/v1/deployments/leaky/verification"}
"""What there is only after somebody asked for it."""

TELLTALE = """#!/bin/sh
# an engine that prints what it was given, as engines do
echo "args: $*"
env
exec {vllm} "$@"
"""


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """`leaky` was deployed, crashed, and was started again: there are events, an incident, logs and a saved log."""
    found = open_rig(tmp_path_factory.mktemp("secrets"))
    site_with_secrets(found)
    try:
        found.start()
        port = free_port()
        found.publish(recipe(port), recipes.profile())
        found.ok("deploy", "leaky", "--yes", "-q", "--wait=60")
        traffic.fault(port, "exit", "3")
        wait_for(lambda: found.incidents("leaky"), "an incident")
        found.until("leaky", "ready", "busy", generation=2, within=60)
        yield found
    finally:
        found.close()


def site_with_secrets(rig: Rig) -> None:
    secret = rig.folder / "registry.secret"
    secret.write_text(f"{FROM_FILE}\n")
    mirror = rig.folder / "mirror.secret"
    mirror.write_text(f"{IN_URL}\n")
    rig.site["secrets"] = {"HF_TOKEN": str(secret), "MIRROR_EXAMPLE_PASSWORD": str(mirror)}
    rig.site["variables"] = {"DB_PASSWORD": FROM_VARIABLE, "ENGINE_API_KEY": API_KEY}
    program = rig.folder / "bin" / "vllm"
    simulator = program.rename(program.with_name("simulator"))
    program.write_text(TELLTALE.format(vllm=simulator))
    program.chmod(0o755)


def recipe(port: int) -> dict[str, object]:
    """A launch with a secret of each kind."""
    environment = {
        "HF_TOKEN": "$HF_TOKEN",
        "DB_PASSWORD": "$DB_PASSWORD",
        "MIRROR": f"https://operator:{IN_URL}@mirror.example/models",
    }
    made = recipes.recipe("leaky", port, env=environment, flags=["--api-key", "$ENGINE_API_KEY"])
    made["config"]["notes"] = f"export HF_TOKEN={PUBLISHED} before you start"
    return made


def everything(rig: Rig) -> Iterator[tuple[str, bytes]]:
    """Every answer to a GET of the document, every stream's first part, every page, and the changes' answers."""
    incident = quote(rig.incidents("leaky")[0]["id"])
    operation = rig.api("/v1/operations")[0]["id"]
    for path, methods in ask(rig.port, "/openapi.json").json["paths"].items():
        ids = incident if "incidents" in path else operation
        filled = path.replace("{slug}", "leaky").replace("{id}", ids)
        if "get" in methods:
            query = "?follow=0&limit=5000" if path == "/v1/events" else ""
            reply = ask(rig.port, filled + query, token=TOKEN)
            assert reply.status == 200 or filled in NOT_YET, (filled, reply.body)
            yield filled, gzip.decompress(reply.body) if path.endswith("/export") else reply.body
    yield "/", ask(rig.port, "/").body
    for path in ("/v1/events?after=0&limit=5000", "/v1/deployments/leaky/logs?follow=1", "/summary"):
        yield path, beginning(rig.port, path)
    document = json.dumps({"document": json.dumps(recipe(free_port()))}).encode()
    for path in ("/v1/plans", "/v1/plans/steps", "/v1/deployments"):
        yield f"POST {path}", ask(rig.port, path, "POST", document, token=TOKEN).body
    broken = json.dumps(
        {"document": json.dumps({"slug": "x", "config": {"launch": f"docker run --api-key {API_KEY}"}})}
    )
    yield "a refusal", ask(rig.port, "/v1/plans", "POST", broken.encode(), token=TOKEN).body


def beginning(port: int, path: str, seconds: float = 2.0) -> bytes:
    """What a stream gives within `seconds` of its first word."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
        connection.sendall(head.encode())
        data, end = connection.recv(1 << 20), time.monotonic() + seconds
        connection.settimeout(seconds)
        with suppress(TimeoutError):
            while time.monotonic() < end and (more := connection.recv(1 << 20)):
                data += more
    assert b" 200 OK" in data.splitlines()[0]
    return data


def test_the_engine_did_get_them(rig: Rig) -> None:
    """Otherwise the absence below would mean nothing."""
    folder = rig.folder / "state"
    logs = "\n".join(path.read_text(errors="replace") for path in folder.rglob("*.log"))
    for secret in (FROM_FILE, FROM_VARIABLE, API_KEY, IN_URL):
        assert secret in logs, f"no log of an engine has {secret}"


def test_no_reply_has_one(rig: Rig) -> None:
    bodies = dict(everything(rig))
    assert not [(path, secret) for path, body in bodies.items() for secret in SECRETS if secret.encode() in body]
    assert b"secret:HF_TOKEN" in bodies["/v1/deployments/leaky/plan"], "names stay"
    assert b"[removed]" in bodies["/v1/deployments/leaky/logs"]


def test_the_agents_own_log_has_none(rig: Rig) -> None:
    text = rig.log.read_text()
    assert not [secret for secret in SECRETS if secret in text]


def test_evidence_on_disk_has_none(rig: Rig) -> None:
    folder = rig.folder / "state" / "incidents"
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files
    assert not [(path.name, secret) for path in files for secret in SECRETS if secret in path.read_text()]


def test_the_state_has_none_of_the_sites(rig: Rig) -> None:
    """What a recipe publishes stands in its plan; what the site keeps is read when a container is made."""
    data = b"".join(path.read_bytes() for path in (rig.folder / "state").glob("state.db*"))
    assert data
    assert not [secret for secret in (FROM_FILE, FROM_VARIABLE, API_KEY) if secret.encode() in data]
