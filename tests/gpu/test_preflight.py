"""The checks on a real card: free, taken by somebody, and touched."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.rig import Rig
from tests.gpu.box import Box, HostEngine, loaded
from tests.gpu.conftest import Table
from tests.gpu.rigs import on_card, running

GIB = 1 << 30
SLUG = "one-card"
HOSTS_OWN = {"service", "runtime.reachable", "host.boot", "gpu.health", "memlock", "toolkit"}
"""What a host may be told about itself, whatever the recipe: a missing live-restore, persistence mode that is off."""


@pytest.fixture
def site(docker: HostEngine, box: Box, tmp_path: Path) -> Iterator[Rig]:
    with running(tmp_path, docker) as rig:
        document, _ = on_card(tmp_path, box, SLUG, 2 * GIB)
        document["hardware"] = [{"device_count": 1}]
        rig.publish(document)
        yield rig


def findings(rig: Rig, *words: str) -> tuple[int, dict[str, dict[str, Any]]]:
    said = rig.ctl("preflight", SLUG, "-o", "json", *words)
    assert said.out, said.err
    return said.code, {one["check"]: one for one in said.json["findings"]}


def test_a_free_card_passes_and_does_as_it_is_told(site: Rig, box: Box, table: Table) -> None:
    code, found = findings(site, "--touch")
    whole = box.busy == "work"  # the other image gets its Python by a mount, so that nothing can be tried in it alone
    told = {check: one["found"] for check, one in found.items() if one["level"] != "pass"}
    table("preflight of a free card, not passed", "; ".join(f"{k}: {v}" for k, v in told.items()) or "nothing")
    table("`preflight --touch`", found["gpu.touch"]["found"])
    assert code == 0, told
    assert set(told) <= HOSTS_OWN | (set() if whole else {"image.arguments"})
    assert found["gpu.touch"]["level"] == "pass"
    assert found["gpu.touch"]["details"]["where"] == ("inside the image" if whole else "from the host")
    assert found["image.arguments"]["level"] == ("pass" if whole else "unknown")


def test_a_card_that_somebody_holds_is_refused_by_pid_and_container(
    site: Rig, docker: HostEngine, box: Box, table: Table
) -> None:
    with loaded(docker, box, 8 * GIB, "idle" if box.busy == "work" else box.busy) as name:
        pid = int(docker.docker("inspect", "--format", "{{.State.Pid}}", name))
        code, found = findings(site)
        table("a card that is taken", found["gpu.busy"]["found"])
        assert code == 3
        assert found["gpu.busy"]["level"] == "fail"
        assert f"pid {pid} " in found["gpu.busy"]["found"]
        assert f"in container {name}" in found["gpu.busy"]["found"]
        assert found["gpu.busy"]["hint"].endswith(f"docker stop {name}")
        refused = site.ctl("deploy", SLUG, "--yes", "-o", "json")
        assert (refused.code, refused.error["code"]) == (3, "preflight.gpu_busy")
