"""What people already have plans, or says what is missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent.plan.compile import compile_plan
from agent.plan.inputs import Inputs
from agent.plan.model import Plan
from agent.plan.show import show
from agent.recipe.read import read_recipe
from agent.settings.model import Settings
from tests.recipe.test_formats import COMPOSE, PROJECT, SPARKRUN


def made(text: str | bytes, source: str = "/srv/recipes/mine.yaml", **inputs: Any) -> Plan:
    data = text.encode() if isinstance(text, str) else text
    site = inputs.pop("settings", Settings.model_validate({"policy": {"mount_roots": ["/srv"]}}))
    return compile_plan(Inputs(read_recipe(data, source), site, **inputs))


def keys(plan: Plan) -> list[str]:
    return [entry.key for entry in plan.missing]


def test_a_sparkrun_recipe_runs_in_its_container() -> None:
    plan = made(SPARKRUN, sets={"requirements.hosts": "1", "env.NODES": "1"})
    assert plan.container is not None
    body = plan.container.body
    assert body["Image"] == "registry.example/small:v1"
    assert [*body["Entrypoint"], *body["Cmd"]][-1] == '{"a": {"b": 1}}'
    assert set(body["Env"]) == {"A=1", "PORT=8000", "NODES=1"}
    assert (plan.missing, plan.runtime) == ((), "docker")
    assert plan.origins["image.reference"] == "recipe container"


def test_over_several_machines_it_says_so() -> None:
    assert keys(made(SPARKRUN)) == ["env.NODES", "requirements.hosts"]


def test_a_recipe_of_the_project_is_composed_and_says_from_where() -> None:
    plan = made(PROJECT)
    assert plan.engine is not None
    assert plan.engine.tensor_parallel == 4
    assert plan.origins["launch.line[2]"] == "recipe features.tools.args[0]"
    assert [entry.where for entry in plan.unapplied if "features.draft" in entry.where]
    assert not [entry.where for entry in plan.unapplied if "features.tools.args" in entry.where]


def test_a_compose_file_is_meant_from_its_own_folder() -> None:
    plan = made(COMPOSE.replace("command:", "volumes: ['./models:/models']\n    command:"))
    assert plan.container is not None
    assert plan.container.body["HostConfig"]["Binds"] == ["/srv/recipes/models:/models"]
    assert plan.origins["launch"] == "the compose file"


def test_of_several_services_one_is_named() -> None:
    two = COMPOSE + COMPOSE.partition("services:")[2].replace("engine:", "second:")
    assert "launch.service" in keys(made(two))
    named = made(two, sets={"launch.service": next(e for e in made(two).missing).how.split("=")[1].split()[0]})
    assert named.container is not None
    assert keys(named) == []


def test_a_script_runs_what_it_starts() -> None:
    plan = made("#!/bin/bash\nset -e\nexport A=1\nexec vllm serve org/m --port 8123\n", "/srv/recipes/run.sh")
    assert plan.argv == ("vllm", "serve", "org/m", "--port", "8123")


@pytest.mark.parametrize("folder", ["sparkrun", "spark-vllm-docker", "vllm-recipes"])
def test_every_recipe_that_people_have_plans(folder: str, shared: Path) -> None:
    planned = 0
    for path in sorted((shared / "corpus" / "recipes" / folder).glob("*.yaml")):
        if path.name.startswith(("registry", "platforms", "taxonomy", "strategies__")):
            continue
        plan = made(path.read_bytes(), str(path))
        assert show(plan)
        assert all(entry.how for entry in plan.missing)
        assert plan.engine is not None or "engine.kind" in keys(plan)
        planned += 1
    assert planned


def test_every_compose_file_plans_where_the_site_allows_its_mounts(shared: Path) -> None:
    for path in sorted((shared / "corpus" / "compose").glob("*.yaml")):
        allowing = Settings.model_validate({"policy": {"mount_roots": ["/"], "host_network": True}})
        plan = made(path.read_bytes(), str(path), settings=allowing)
        assert show(plan)
        assert plan.container is not None or plan.missing
