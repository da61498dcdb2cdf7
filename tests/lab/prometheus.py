"""Prometheus and Alertmanager, from unpacked packages; Prometheus and promtool need neither root nor the lab.

tools = prometheus.tools()
tools.check("rules", Path("config/prometheus/alerts.yml"))
with prometheus.running(tools, tmp_path, scrape_configs) as port: …
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.lab import packages
from tests.lab.children import free_port, serving
from tests.lab.place import session_folder


@dataclass(frozen=True, slots=True)
class Tools:
    """Where the programs are."""

    prometheus: Path
    promtool: Path
    alertmanager: Path
    amtool: Path

    def promtool_run(self, *words: str | Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """What promtool says, such as for `check metrics` (the metrics on its stdin) or `test rules FILE`."""
        return subprocess.run(
            [self.promtool, *words], input=stdin, capture_output=True, text=True, timeout=60, check=False
        )


def tools() -> Tools:
    """The programs. Raises Unavailable where they are not unpacked yet and cannot be."""
    folder = packages.fetch(packages.PROMETHEUS) / "usr/bin"
    return Tools(folder / "prometheus", folder / "promtool", folder / "prometheus-alertmanager", folder / "amtool")


@contextmanager
def running(found: Tools, folder: Path, settings: Mapping[str, Any]) -> Iterator[int]:
    """The port of a Prometheus with these settings (the content of `prometheus.yml`), ended after the block."""
    port = free_port()
    path = folder / "prometheus.yml"
    path.write_text(json.dumps(settings))  # YAML holds JSON
    words: list[str | Path] = [found.prometheus, f"--config.file={path}", f"--storage.tsdb.path={folder / 'series'}"]
    with serving([*words, f"--web.listen-address=127.0.0.1:{port}"], port, folder / "prometheus.log"):
        yield port


@contextmanager
def alertmanager(found: Tools, folder: Path, settings: Mapping[str, Any]) -> Iterator[int]:
    """The port of an Alertmanager with these settings, alone in its cluster, ended after the block.

    In the lab only (raises Unavailable outside): Debian's reads a template at a fixed place in /usr/share.
    """
    session_folder()
    template = Path("/usr/share/prometheus")
    if not template.exists():
        template.symlink_to(found.alertmanager.parents[1] / "share" / "prometheus")
    port = free_port()
    path = folder / "alertmanager.yml"
    path.write_text(json.dumps(settings))
    words: list[str | Path] = [
        found.alertmanager,
        f"--config.file={path}",
        f"--storage.path={folder / 'alerts'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--cluster.listen-address=",
    ]
    with serving(words, port, folder / "alertmanager.log"):
        yield port
