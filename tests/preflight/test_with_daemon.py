"""Checks in a deployment's life: an unknown flag, an overruled check, and what is kept of the host."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e import recipes
from tests.e2e.rig import Rig, running
from tests.lab import images
from tests.lab.children import free_port
from tests.lab.engine import Engine
from tests.lab.nvml import hosts
from tests.lab.nvml.standin import StandIn

pytestmark = [pytest.mark.docker, pytest.mark.timeout(120)]


@pytest.fixture
def rig(lab_engine: Engine, tmp_path: Path) -> Iterator[Rig]:
    images.simulator(lab_engine, recipes.IMAGE)
    with running(tmp_path, lab_engine) as found:
        yield found


def test_an_unknown_flag_is_refused_before_anything_is_touched(rig: Rig) -> None:
    """By name, and by the code that would have refused it minutes later."""
    rig.publish(recipes.recipe("odd", free_port(), flags=("--no-such-flag", "1")), recipes.profile())
    said = rig.ctl("preflight", "odd", "-o", "json")
    found = {one["check"]: one for one in said.json["findings"]}["image.arguments"]
    assert said.code == 3
    assert found["level"] == "fail"
    assert "unrecognized arguments: --no-such-flag 1" in found["found"]
    refused = rig.ctl("deploy", "odd", "--yes", "-o", "json")
    assert (refused.code, refused.error["code"]) == (3, "preflight.image_arguments")
    assert rig.containers("odd") == []
    assert "image.arguments" not in rig.ctl("preflight", "odd", "--skip", "image.arguments").out
    assert rig.ctl("preflight", "odd", "--skip", "no.such.check").code == 2


def test_a_site_may_forbid_that_an_images_code_is_run(rig: Rig) -> None:
    rig.site["policy"] = {"image_checks": False}
    rig.configure()
    rig.publish(recipes.recipe("odd", free_port(), flags=("--no-such-flag", "1")))
    assert "image.arguments" not in rig.ok("preflight", "odd").out


def test_what_a_person_overrules_is_recorded_and_shown(rig: Rig) -> None:
    rig.publish(recipes.recipe("odd", free_port(), flags=("--no-such-flag", "1")), recipes.profile())
    rig.ctl("deploy", "odd", "--yes", "--accept", "image.arguments", "-o", "json")
    assert rig.status("odd")["accepted"] == ["image.arguments"]
    events = [event for event in rig.events("odd") if "accepted by a person: image.arguments" in event["text"]]
    assert len(events) == 1, rig.report()
    assert "--no-such-flag" in events[0]["text"]
    rig.ok("remove", "odd")


def test_an_image_that_is_pulled_is_asked_before_anything_is_started(
    rig: Rig, lab_engine: Engine, lab_registry: str
) -> None:
    """At the checks it was not here yet."""
    name = f"{lab_registry}/simulator:1"
    lab_engine.docker("tag", recipes.IMAGE, name)
    lab_engine.docker("push", name)
    lab_engine.docker("rmi", name)
    rig.publish(recipes.recipe("odd", free_port(), image=name, flags=("--no-such-flag", "1")), recipes.profile())
    assert "is not here yet" in rig.ctl("preflight", "odd", "-o", "json").out
    refused = rig.ctl("deploy", "odd", "--yes", "-o", "json")
    assert (refused.code, refused.error["code"]) == (3, "preflight.image_arguments")
    assert "--no-such-flag" in refused.error["message"]
    assert rig.containers("odd") == []


def test_the_host_of_a_start_and_the_best_of_its_links_are_kept(
    nvml: StandIn, lab_engine: Engine, tmp_path: Path
) -> None:
    document = hosts.cmp170hx(1)
    document["cards"][0] |= {"pcie_width": 4, "pcie_generation": 4, "utilization": 95}
    nvml.show(document)
    images.simulator(lab_engine, recipes.IMAGE)
    with running(tmp_path, lab_engine) as rig:
        rig.publish(recipes.recipe("kept", free_port()), recipes.profile())
        rig.ok("deploy", "kept", "--yes", "--wait=60", "-q")
        plan = rig.status("kept")["plan_id"]
        host = json.loads((tmp_path / "state" / "hosts" / f"{plan}.json").read_text())
        assert host["gpus"][0]["uuid"] == document["cards"][0]["uuid"]
        assert {"facts", "driver", "memory", "at"} <= set(host)
        (link,) = json.loads((tmp_path / "state" / "links.json").read_text()).values()
        assert (link["width"], link["worked_generation"]) == (4, 4)
        rig.ok("remove", "kept")
