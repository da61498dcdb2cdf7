"""Where the bounds of a deployment's rates come from."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.daemon.limits import model_of
from agent.engines.model import EngineKind, EngineLaunch
from agent.plan.model import ActiveParameters, ContainerPlan, Plan
from agent.plan.tojson import plan_from_json, to_json
from tests.plan.build import plan
from tests.verify.test_active import LLAMA3_8B, QWEN3_30B_A3B


def moe(folder: Path, config: dict[str, Any] | None = None, **engine: Any) -> Plan:
    """A container that has `folder` as /models."""
    if config is not None:
        (folder / "tiny").mkdir()
        (folder / "tiny" / "config.json").write_text(json.dumps(config))
    launch = EngineLaunch(EngineKind.VLLM, model="/models/tiny", **engine)
    body = {"Cmd": ["serve", "/models/tiny"], "HostConfig": {"Binds": [f"{folder}:/models:ro"]}}
    return replace(plan(), engine=launch, container=ContainerPlan("x", None, body), active_parameters=None)


def test_a_model_s_own_configuration_is_counted_through_the_mount(tmp_path: Path) -> None:
    found = model_of(moe(tmp_path, QWEN3_30B_A3B, speculative_tokens=3))
    assert found.active_parameters == pytest.approx(2.73e9, rel=0.01)
    assert found.how.startswith("config.json: 48 layers")
    assert (found.bits, found.steps) == (16.0, 4)


def test_what_is_stated_goes_before_what_is_counted(tmp_path: Path) -> None:
    made = replace(moe(tmp_path, LLAMA3_8B), active_parameters=ActiveParameters(3e9, "site profile"))
    found = model_of(made)
    assert (found.active_parameters, found.how, found.bits) == (3e9, "site profile", 16.0)
    assert plan_from_json(to_json(made)).active_parameters == made.active_parameters


def test_weights_that_are_loaded_in_another_form_have_no_known_width(tmp_path: Path) -> None:
    made = moe(tmp_path, LLAMA3_8B)
    assert made.container is not None
    body = {**made.container.body, "Cmd": ["serve", "/models/tiny", "--quantization=fp8"]}
    assert model_of(replace(made, container=ContainerPlan("x", None, body))).bits is None


def test_what_nobody_states_is_unknown_with_the_way_to_state_it(tmp_path: Path) -> None:
    found = model_of(moe(tmp_path))
    assert found.active_parameters is None
    assert "there is no" in found.why_unknown
    assert "serving.active_parameters" in found.why_unknown


def test_a_plan_of_an_earlier_version_has_none() -> None:
    document = to_json(plan())
    del document["active_parameters"]
    assert plan_from_json(document).active_parameters is None
