"""The published recipes, with what ships for them: complete, exact, and honest about what they lack."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agent.launch.equal import differing
from agent.plan.compile import compile_plan
from agent.plan.inputs import Inputs, LocalImage
from agent.plan.model import Plan
from agent.plan.show import show
from agent.plan.tojson import plan_from_json, to_json
from agent.profile.load import shipped
from agent.recipe.listing import read_page
from agent.recipe.model import Recipe
from agent.recipe.read import read_recipe
from agent.settings.model import Settings
from tests.plan.build import cards

PP4 = "deepseek-v4-1-flash-764b-on-4x-cmp-170hx-pp4-shadow-kv-exl3-2bpw"
DEEPINFER = "deepseek-v4-1-flash-sm80-deepinfer-kernel-port-6x-a100-dspark-k5"
SPARK = "deepseek-v4-1-flash-on-4x-dgx-spark-tuned-tp4-sglang-dspark"
EXL3 = "deepseek-v4-1-flash-exl3-3bpw-tc-moe-on-4x-cmp-170hx-tp4"
RTX = "ds4-1-flash-4x6000-jj-dspark-k7"
HERE = {"pp4-exl3:v14": LocalImage()}


@pytest.fixture(scope="session")
def recipes(shared: Path) -> dict[str, Recipe]:
    listing = json.loads((shared / "recipes" / "listing.json").read_text())
    found = {entry.slug: entry for entry in read_page(listing, "the listing").entries}
    for slug in (PP4, DEEPINFER):
        path = shared / "recipes" / f"{slug}.json"
        found[slug] = read_recipe(path.read_bytes(), str(path))
    return found


def made(of: Recipe, variables: dict[str, str] | None = None, **inputs: Any) -> Plan:
    return compile_plan(Inputs(of, Settings(variables=variables or {}), shipped(of.slug), **inputs))


def rig(recipes: dict[str, Recipe], **inputs: Any) -> Plan:
    """The author's rig: four cards, the image built, both variables known."""
    return made(recipes[PP4], {"HOME": "/home/op", "GRAFT": "/srv/graft"}, images=HERE, gpus=cards(4), **inputs)


def test_the_container_is_what_the_docker_client_would_make(
    recipes: dict[str, Recipe], shared: Path, docker_client: Path
) -> None:
    plan = rig(recipes)
    launch = [word.replace("$HOME", "/home/op").replace("$GRAFT", "/srv/graft") for word in recipes[PP4].launch]
    oracle = shared / "corpus" / "tools" / "oracle.py"
    words = [sys.executable, str(oracle), "--argv", json.dumps(launch)]
    environment = {**os.environ, "PATH": f"{docker_client.parent}:{os.environ['PATH']}"}
    done = subprocess.run(words, capture_output=True, text=True, check=True, env=environment)
    theirs = json.loads(done.stdout)["request"]
    assert plan.container is not None
    body = {**plan.container.body, "NetworkingConfig": None}
    host = {**body.pop("HostConfig")}
    unset = {key: host.pop(key) for key in ("MemorySwappiness", "ConsoleSize")}
    assert unset == {"MemorySwappiness": -1, "ConsoleSize": [0, 0]}
    assert differing(body, theirs["Config"]) == []
    assert differing(host, theirs["HostConfig"]) == ["LogConfig"]
    assert plan.container.name == "dsv41-pp4"


def test_on_its_authors_rig_nothing_is_missing(recipes: dict[str, Recipe]) -> None:
    plan = rig(recipes)
    assert plan.missing == ()
    assert plan.image is not None
    assert (plan.image.how, len(plan.gpus), plan.engine and plan.engine.gpus_needed) == ("local", 4, 4)


def test_what_it_asks_of_a_host_is_typed_with_its_origin(recipes: dict[str, Recipe]) -> None:
    needs = {need.id: need for need in rig(recipes).requirements}
    assert {key: need.need for key, need in needs.items()} == {
        "gpu.count": 4,
        "gpu.model": "cmp-170hx",
        "gpu.memory": 64 * 10**9,
        "gpu.architecture": "8.0",
        "gpu.busy": 2000 * 2**20,
        "driver.version": "610.57.04",
        "memory.total": 373 * 2**30,
        "memory.available": 200 * 2**30,
        "disk.free": 700 * 10**9,
        "weights": "deepseek-ai/DeepSeek-V4.1-Flash@2cba9e42aa026125f3ed06c6d98c1db82f7ca027",
    }
    assert needs["memory.available"].origin == (
        "profile requirements.memory_available "
        "(recipe config.runtime.notes: host RAM available ≥200 GB (engram pin 189 GiB))"
    )


def test_its_windows_are_its_own(recipes: dict[str, Recipe]) -> None:
    watch = rig(recipes).watch
    assert (watch.stall.seconds, watch.stall_blind.seconds, watch.canary_timeout.seconds) == (180, 447, 194)
    assert (watch.start_expected.seconds, watch.start_alert.seconds, watch.start_limit.seconds) == (450, 900, 3600)


def test_its_build_is_complete_and_names_what_is_not_stated(recipes: dict[str, Recipe]) -> None:
    plan = made(recipes[PP4], images={"pp4-exl3:v14": None})
    assert [entry.key for entry in plan.missing] == [
        "variables.HOME",
        "variables.GRAFT",
        "image.sources.vllm-backport.commit",
        "image.sources.vllm-exl3.commit",
    ]
    assert plan.image is not None
    kinds = [next(iter(step)) for step in plan.image.steps]
    assert kinds == ["source"] * 5 + ["copy"] * 3 + ["run"] * 4 + ["pip", "extension"]
    scripts = [step["run"]["script"] for step in plan.image.steps if "run" in step]
    assert scripts == [
        "patches/pp_relay_img_ids.py",
        "patches/engram_sm80_fp8.py",
        "patches/moe_cand_key_fix.py",
        "patches/plugin_v150_shim.py",
    ]
    tags = [step["source"].get("tag") for step in plan.image.steps if "source" in step]
    assert "v1.5.0" in tags


def test_what_nothing_acts_on_is_listed(recipes: dict[str, Recipe]) -> None:
    left = [entry.text for entry in rig(recipes).unapplied]
    for words in ("use_local_argmax_reduction is not supported", "FULL_DECODE_ONLY graph = PIECEWISE", "CC-BY-4.0"):
        assert any(words in text for text in left), words
    for words in ("docker rm -f may hang", "driver 610.57.04", "GPUs must be free", "Startup ~7.5 min"):
        assert not any(words in text for text in left), words


def test_a_host_of_four_other_cards_asks_which(recipes: dict[str, Recipe]) -> None:
    plan = made(recipes[PP4], {"HOME": "/h/op", "GRAFT": "/g"}, images=HERE, gpus=cards(6))
    assert [entry.key for entry in plan.missing] == ["gpus"]


def test_the_composed_line_says_of_each_word_where_it_is_from(recipes: dict[str, Recipe]) -> None:
    plan = made(recipes[DEEPINFER], {"HF_HOME": "/srv/hf"}, gpus=cards(6))
    assert plan.container is not None
    body = plan.container.body
    assert [*body["Entrypoint"], *body["Cmd"]] == [
        "vllm",
        "serve",
        "deepseek-ai/DeepSeek-V4.1-Flash",
        "--tensor-parallel-size",
        "2",
        "--pipeline-parallel-size",
        "3",
        "--max-model-len",
        "1048576",
        "--speculative-config",
        '{"method":"dspark","num_speculative_tokens":5}',
    ]
    assert body["Env"] == ["VLLM_PP_LAYER_PARTITION=14,14,12"]
    assert plan.origins["launch.line[2]"].endswith("(recipe config.runtime.env: TP2 x PP3 partition 14/14/12)")
    assert any("is not the author's" in warning for warning in plan.warnings)
    assert [entry.key for entry in plan.missing] == ["image.base"]


def test_its_patches_go_on_in_order_onto_the_commit(recipes: dict[str, Recipe]) -> None:
    plan = made(recipes[DEEPINFER])
    assert plan.image is not None
    sources = {step["source"]["name"]: step["source"] for step in plan.image.steps if "source" in step}
    assert sources["vllm"]["commit"] == "79a7108d9aea27ddab99ce1779290d300b17fc23"
    apply = next(step["apply"] for step in plan.image.steps if "apply" in step)
    assert apply["onto"] == "vllm"
    assert list(apply["patches"]) == [
        "patches/00-vllm-pr56201-sm80-base.patch",
        "patches/vllm-sm80-deepinfer.patch",
    ]
    kinds = [next(iter(step)) for step in plan.image.steps if "source" not in step]
    assert kinds == ["apply", "env", "pip"], "a tree without .git is told its version before it is built"
    assert {"SETUPTOOLS_SCM_PRETEND_VERSION": "0.28.1rc0"} in [step.get("env") for step in plan.image.steps]


def test_its_build_is_planned_where_no_engine_answers_yet(recipes: dict[str, Recipe]) -> None:
    plan = made(recipes[DEEPINFER], runtimes=frozenset({"process"}))
    assert plan.runtime == "docker"
    assert [entry.key for entry in plan.missing] == ["variables.HF_HOME", "image.base"]


def test_a_long_context_is_watched_by_what_is_claimed_of_a_short_one(recipes: dict[str, Recipe]) -> None:
    watch = made(recipes[DEEPINFER]).watch
    assert (watch.stall_blind.seconds or 0) > 240, "a cold prefill of 1,000,000 tokens takes four minutes"
    assert any("claims contradict each other" in warning for warning in watch.warnings)


@pytest.mark.parametrize(
    ("slug", "kind", "missing"),
    [
        (SPARK, "sglang", ["launch.line", "image.reference", "requirements.hosts"]),
        (EXL3, None, ["launch.line", "engine.kind", "image.reference"]),
        (RTX, None, ["launch.line", "engine.kind", "image.reference"]),
    ],
)
def test_a_mere_entry_says_what_it_says_and_lacks_the_rest(
    slug: str, kind: str | None, missing: list[str], recipes: dict[str, Recipe]
) -> None:
    plan = made(recipes[slug])
    assert plan.recipe.sha256 is None
    assert (plan.engine.kind.value if plan.engine else None) == kind
    assert [entry.key for entry in plan.missing] == missing
    assert all(entry.how for entry in plan.missing)
    assert plan.claims[0].note.startswith("the listing's own figure")


def test_a_claim_from_a_summary_is_a_claim(recipes: dict[str, Recipe]) -> None:
    claims = [(claim.metric, claim.value, claim.context) for claim in made(recipes[EXL3]).claims]
    assert ("ttft_ms", 10900, 255424) in claims


@pytest.mark.parametrize("slug", [PP4, DEEPINFER, SPARK, EXL3, RTX])
def test_every_plan_is_stored_and_shown(slug: str, recipes: dict[str, Recipe]) -> None:
    plan = made(recipes[slug])
    assert plan_from_json(json.loads(json.dumps(to_json(plan)))) == plan
    assert show(plan)
