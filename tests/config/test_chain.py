"""From a stall to a person: agent, Prometheus, Alertmanager and a receiver, all of them real."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.config.conftest import SLUG, settings_for
from tests.e2e import traffic
from tests.e2e.rig import deployed, running, wait_for
from tests.lab import prometheus
from tests.lab.children import get
from tests.lab.fixtures import entered

PATIENCE_S = 60.0


@contextmanager
def receiver() -> Iterator[tuple[int, queue.Queue[dict[str, Any]]]]:
    """The port of a webhook, and what it was sent."""
    told: queue.Queue[dict[str, Any]] = queue.Queue()

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            told.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Hook)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1], told
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def counted(at: int) -> bool:
    """Whether stalls are known, as none so far: a counter that first comes with its first stall has not increased."""
    query = quote(f'recipe_agent_stalls_total{{recipe="{SLUG}"}}')
    status, body = get(at, f"/api/v1/query?query={query}")
    return status == 200 and bool(json.loads(body)["data"]["result"])


@pytest.mark.prometheus
@pytest.mark.slow
def test_a_stall_reaches_the_person(prometheus_tools: prometheus.Tools, lab_session: Path, tmp_path: Path) -> None:
    """The engine hangs; the message that arrives names it, says what it means and where the runbook is."""
    for name in ("agent", "prometheus", "alertmanager"):
        (tmp_path / name).mkdir()
    with ExitStack() as stack:
        hook, told = stack.enter_context(receiver())
        route = {"receiver": "person", "group_by": ["recipe"], "group_wait": "0s", "group_interval": "1s"}
        person = {"name": "person", "webhook_configs": [{"url": f"http://127.0.0.1:{hook}/", "send_resolved": True}]}
        settings = {"route": route, "receivers": [person]}
        manager = entered(stack, prometheus.alertmanager(prometheus_tools, tmp_path / "alertmanager", settings))
        rig = stack.enter_context(running(tmp_path / "agent"))
        engine = deployed(rig, SLUG)
        faster = settings_for(rig, [manager])
        at = entered(stack, prometheus.running(prometheus_tools, tmp_path / "prometheus", faster))
        wait_for(lambda: counted(at), "Prometheus to have seen the counter before it moves", within=PATIENCE_S)
        with traffic.client(engine):
            rig.until(SLUG, "busy")
            traffic.fault(engine, "stall")
            rig.until(SLUG, "stalled", "stopping", "releasing", "backoff", "starting")
        [alert] = told.get(timeout=PATIENCE_S)["alerts"]
    assert alert["status"] == "firing"
    assert alert["labels"]["alertname"] == "RecipeAgentEngineStalled"
    assert (alert["labels"]["recipe"], alert["labels"]["severity"]) == (SLUG, "warning")
    assert alert["annotations"]["summary"].startswith(f"{SLUG} stalled (busy) on 127.0.0.1:")
    assert alert["annotations"]["runbook"] == "runbook.md#recipeagentenginestalled"
