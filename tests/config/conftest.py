"""A live agent with a deployed simulator, scraped by a real Prometheus with the rules as they ship."""

from __future__ import annotations

import json
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.rig import Rig, deployed, running
from tests.lab import prometheus
from tests.lab.fixtures import entered
from tests.lab.nvml import hosts
from tests.lab.nvml.standin import StandIn
from tests.lab.place import REPOSITORY

FOLDER = REPOSITORY / "config" / "prometheus"
SLUG = "alert-sim"


@dataclass(frozen=True, slots=True)
class Watched:
    """The rig, the port of its engine, and the port of Prometheus."""

    rig: Rig
    engine: int
    port: int

    def ask(self, path: str, **query: str) -> Any:
        """`data` of an answer of Prometheus's API; raises with its words where it says no."""
        words = urllib.parse.urlencode(query)
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/api/v1/{path}?{words}")
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.load(answer)["data"]

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The series of an instant query."""
        found: list[dict[str, Any]] = self.ask("query", query=expression)["result"]
        return found


def settings_for(rig: Rig, receivers: Sequence[int] = ()) -> Mapping[str, Any]:
    """The scrape job and the rules as they ship, only faster, and with this rig as their target."""
    shipped = yaml.safe_load((FOLDER / "scrape.yaml").read_text())
    [job] = shipped["scrape_configs"]
    job |= {"scrape_interval": "1s", "scrape_timeout": "1s"}
    job["static_configs"] = [{"targets": [f"127.0.0.1:{rig.port}"]}]
    alerting = {"alertmanagers": [{"static_configs": [{"targets": [f"127.0.0.1:{port}"]}]} for port in receivers]}
    return {
        "global": {"evaluation_interval": "1s"},
        "scrape_configs": [job],
        "rule_files": [str(FOLDER / name) for name in shipped["rule_files"]],
        "alerting": alerting,
    }


@pytest.fixture(scope="module")
def watched(
    prometheus_tools: prometheus.Tools, nvml_library: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Watched]:
    """One for all tests of a file, on a host with one card."""
    card = StandIn(nvml_library, tmp_path_factory.mktemp("card") / "nvml.json")
    card.show(hosts.host(hosts.card(0, "CMP 170HX", 64 * hosts.GIB)))
    with ExitStack() as stack:
        rig = stack.enter_context(running(tmp_path_factory.mktemp("agent"), more=card.environment))
        engine = deployed(rig, SLUG)
        folder = tmp_path_factory.mktemp("prometheus")
        port = entered(stack, prometheus.running(prometheus_tools, folder, settings_for(rig)))
        yield Watched(rig, engine, port)
