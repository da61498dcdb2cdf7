"""The page and its stream over HTTP."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager

import pytest

from tests.e2e import traffic
from tests.e2e.rig import Rig
from tests.page.conftest import SLUG

pytestmark = pytest.mark.slow


def ask(rig: Rig, path: str, headers: Mapping[str, str] | None = None) -> tuple[int, Mapping[str, str], str]:
    """Status, headers and body of a GET without a token."""
    with closing(http.client.HTTPConnection("127.0.0.1", rig.port, timeout=10)) as connection:
        connection.request("GET", path, headers=dict(headers or {}))
        response = connection.getresponse()
        return response.status, response.headers, response.read().decode()


@contextmanager
def stream(rig: Rig, path: str) -> Iterator[Iterator[tuple[str, str]]]:
    """Kind and data of each event as it comes."""
    with closing(http.client.HTTPConnection("127.0.0.1", rig.port, timeout=20)) as connection:
        connection.request("GET", path)
        response = connection.getresponse()
        assert (response.status, response.headers["Content-Type"]) == (200, "text/event-stream")

        def events() -> Iterator[tuple[str, str]]:
            kind = ""
            while line := response.readline().decode().rstrip("\n"):
                name, _, value = line.partition(": ")
                if name == "event":
                    kind = value
                elif name == "data":
                    yield kind, value
                    response.readline()
                    kind = ""

        yield events()


def test_the_page_allows_itself_nothing_but_its_own_files(served: tuple[Rig, int]) -> None:
    """No inline script or style, so the policy needs no exception."""
    status, headers, body = ask(served[0], "/")
    assert status == 200
    policy = headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
    assert "unsafe" not in policy
    for forbidden in ("<style", "style=", "onclick", "<script>", 'http-equiv="refresh" content="10"></head'):
        assert forbidden not in body


@pytest.mark.parametrize(("name", "kind"), [("page.css", "text/css"), ("page.js", "text/javascript"),
                                            ("icon.svg", "image/svg+xml")])  # fmt: skip
def test_assets_are_sent_once(served: tuple[Rig, int], name: str, kind: str) -> None:
    """With their type, and not again while they are the same."""
    status, headers, body = ask(served[0], f"/assets/{name}")
    assert (status, headers.get_content_type()) == (200, kind)  # type: ignore[attr-defined]
    assert body
    again, _, nothing = ask(served[0], f"/assets/{name}", {"If-None-Match": headers["ETag"]})
    assert (again, nothing) == (304, "")


def test_no_other_file_is_an_asset(served: tuple[Rig, int]) -> None:
    """Names are looked up, not opened."""
    for name in ("page.py", "..%2Fpage.py", "%2e%2e/page.py"):
        status, _, body = ask(served[0], f"/assets/{name}")
        assert status in (401, 404)
        assert "import" not in body


def test_the_summary_is_what_status_says(served: tuple[Rig, int]) -> None:
    """Machines get the deployments as the API shows them."""
    with stream(served[0], "/summary") as events:
        kind, data = next(events)
    assert kind == ""
    assert [one["slug"] for one in json.loads(data)] == [SLUG]
    assert json.loads(data)[0].keys() == served[0].status(SLUG).keys()


def test_the_page_is_sent_what_changed_and_no_more(served: tuple[Rig, int]) -> None:
    """First everything, then the part of the deployment that moved."""
    rig, port = served
    with stream(rig, "/summary?view=page") as events:
        _, first = next(events)
        whole = json.loads(first)
        assert set(whole["parts"]) == set(whole["order"])
        with traffic.client(port, max_tokens=2000):
            rig.until(SLUG, "busy")
            later = next(found for _, data in events if (found := json.loads(data)) and "busy" in str(found["parts"]))
    key = next(one for one in later["parts"] if one.startswith("d-"))
    assert SLUG in later["parts"][key]
    assert set(later["order"]) == set(whole["order"])


def test_an_unknown_view_is_an_error(served: tuple[Rig, int]) -> None:
    """A misspelt option is never silently passed over."""
    status, _, body = ask(served[0], "/summary?view=pages")
    assert status == 400
    assert json.loads(body)["error"]["code"] == "usage"
