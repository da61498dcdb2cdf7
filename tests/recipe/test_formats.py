"""Recipes in other people's formats are recognised by what is in them, and keep what they state with its place."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.errors import AgentError
from agent.recipe.formats.sparkrun import expanded
from agent.recipe.read import read_recipe
from agent.recipe.trouble import BadRecipe

SPARKRUN = """
recipe_version: "2"
model: org/small
model_revision: abc123
runtime: vllm
container: registry.example/small:v1
min_nodes: 2
metadata: {description: A small model}
defaults: {port: 8000, tensor_parallel: 2, max_model_len: 4096, trust: true, revision: "{model_revision}"}
env: {A: "1", PORT: "{config.port}", NODES: "{launch.num_nodes}"}
command: |
  vllm serve {model} --port {port} -tp {tensor_parallel} \\
    --revision {revision} --hf-overrides '{{"a": {{"b": 1}}}}'
"""

PROJECT = """
meta: {title: Small, slug: small-1.0, description: A small model}
model:
  model_id: org/small
  min_vllm_version: "0.20.2"
  docker_image: vllm/vllm-openai:v0.20.2
  base_args: [--trust-remote-code]
  base_env: {A: "1"}
features:
  tools: {args: [--enable-auto-tool-choice, --tool-call-parser, small]}
  draft: {args: [--speculative-config, '{"method":"mtp"}']}
opt_in_features: [draft]
strategy_overrides: {single_node_tp: {tp: 4}}
hardware_overrides: {hopper: {extra_args: [--max-num-seqs, "512"]}}
"""

COMPOSE = """
services:
  engine:
    image: vllm/vllm-openai:v1
    command: --model org/small
"""


def read(text: str, name: str = "mine.yaml") -> Any:
    return read_recipe(text.encode(), f"/recipes/{name}")


@pytest.mark.parametrize(
    ("text", "form", "slug"),
    [
        (SPARKRUN, "sparkrun", "mine"),
        (PROJECT, "vllm-recipes", "small-1.0"),
        (COMPOSE, "compose", "mine"),
        ("#!/bin/sh\ndocker run --gpus all vllm/vllm-openai:v1 --model m\n", "shell", "mine"),
        ("vllm serve m \\\n  --port 8000", "shell", "mine"),
        ('\ufeff {"slug": "json", "config": {}}', "localairecipes", "json"),
    ],
)
def test_a_format_is_known_by_what_is_in_the_file(text: str, form: str, slug: str) -> None:
    recipe = read(text)
    assert (recipe.format, recipe.slug) == (form, slug)
    assert recipe.sha256 is not None


def test_a_template_is_filled_with_its_defaults() -> None:
    recipe = read(SPARKRUN)
    assert recipe.launch[0].split() == [
        *["vllm", "serve", "org/small", "--port", "8000", "-tp", "2", "\\", "--revision", "abc123"],
        *["--hf-overrides", '\'{"a":', '{"b":', "1}}'"],
    ]


@pytest.mark.parametrize(
    ("template", "filled"),
    [
        ("{a} {b}", "1 ${b}"),
        ("{config.a}", "1"),
        ("{launch.node_count}", "${launch_node_count}"),
        ("{{a}} {json}", '{a} {"k": "{a}"}'),
        ("{loop}", "${loop}"),
        ("{yes}", "true"),
    ],
)
def test_a_name_that_nobody_states_is_a_variable_of_the_launch(template: str, filled: str) -> None:
    defaults = {"a": 1, "json": '{"k": "{a}"}', "loop": "{loop}", "yes": True}
    assert expanded(template, {"defaults": defaults}) == filled


def test_sparkruns_fields_are_facts_with_their_place() -> None:
    stated = read(SPARKRUN).stated
    assert stated["image"] == {"reference": {"value": "registry.example/small:v1", "from": "container"}}
    assert stated["requirements"]["hosts"] == {"value": 2, "from": "min_nodes"}
    assert stated["requirements"]["weights"]["value"] == "org/small@abc123"
    assert stated["env"] == {"A": {"value": "1", "from": "env.A"}, "PORT": {"value": "8000", "from": "env.PORT"}}
    assert [gap["key"] for gap in stated["missing"]] == ["env.NODES"]


def test_what_a_sparkrun_recipe_only_names_is_missing() -> None:
    text = SPARKRUN.replace("min_nodes: 2", "mods: [mods/fix]\ncluster_only: true").partition("command:")[0]
    recipe = read(text)
    assert recipe.launch == ()
    keys = [gap["key"] for gap in recipe.stated["missing"]]
    assert keys == ["launch.line", "image.reference", "requirements.hosts", "env.NODES"]
    assert "image" not in recipe.stated


def test_the_projects_arguments_say_where_each_is_from() -> None:
    line = read(PROJECT).stated["launch"]["line"]
    assert [word for part in line for word in part["argv"]] == [
        *["vllm", "serve", "org/small", "--trust-remote-code", "--enable-auto-tool-choice"],
        *["--tool-call-parser", "small", "--tensor-parallel-size", "4"],
    ]
    assert line[2]["from"] == "features.tools.args[0]"
    assert line[-1]["from"] == "strategy_overrides.single_node_tp.tp"
    notes = [note["text"] for note in read(PROJECT).stated["notes"]]
    assert any("(hopper)" in note for note in notes)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it is empty"),
        ("a: [1", "line 2, column 1"),
        ("key: value", "a YAML file of another kind (its keys: key)"),
        ("just words", "it starts no engine and is in no known format"),
        ("services: {a: [", "line 2, column 1"),
    ],
)
def test_what_is_no_recipe_is_an_error_that_says_what_would_be(text: str, why: str) -> None:
    with pytest.raises(BadRecipe) as caught:
        read(text)
    assert why in caught.value.text


def test_a_launch_alone_needs_a_name() -> None:
    with pytest.raises(BadRecipe, match="a launch alone has no slug"):
        read_recipe(b"vllm serve m", "/recipes/with space.sh")


@pytest.mark.parametrize("name", ["sparkrun", "spark-vllm-docker", "vllm-recipes"])
def test_what_people_already_have_is_read_or_is_no_recipe(name: str, shared: Path) -> None:
    other = ("registry", "platforms", "taxonomy", "strategies__")
    files = sorted((shared / "corpus" / "recipes" / name).glob("*.yaml"))
    assert files
    for path in files:
        if path.name.startswith(other):
            with pytest.raises(BadRecipe, match="of another kind"):
                read_recipe(path.read_bytes(), str(path))
        else:
            assert read_recipe(path.read_bytes(), str(path)).format != "localairecipes"


ARGS = st.sampled_from(["a", "args", "tp"])
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(alphabet="ab{}.$ -", max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ARGS, inner, max_size=3),
    max_leaves=6,
)
KEYS = "model container command defaults env mods runtime min_nodes metadata meta features"
keys = st.sampled_from(KEYS.split())


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(keys, values, max_size=8))
def test_any_mapping_is_read_or_refused(document: dict[str, Any]) -> None:
    import yaml

    with suppress(AgentError):
        read(yaml.safe_dump(document))
