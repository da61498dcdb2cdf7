"""Any document, profile and choice is a plan or an error of the family, within a second."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.errors import AgentError
from agent.plan.show import show
from agent.plan.tojson import plan_from_json, to_json
from agent.recipe.read import read_recipe
from tests.lab.pace import cost, second
from tests.plan.build import bare, cards, plan, recipe, small

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)
flags = st.sampled_from(
    [
        "docker", "run", "create", "-d", "--rm", "-it", "--gpus", "all", "device=0", "2", "--gpus=all", "-v",
        "/a:/b", "$X:/y", "./c:/d", "-e", "A=1", "HF_TOKEN=$HF", "HF_TOKEN", "-p", "8000:8000", "--ipc=host",
        "--network", "host", "--entrypoint", "vllm", "python3", "img:v1", "vllm/vllm-openai:v1", "serve", "m",
        "--tensor-parallel-size", "4", "--port", "9", "-m", "vllm.entrypoints.openai.api_server", "llama-server",
        "sglang", "--api-key", "x", "$(id -u)", "${A:-b}", "", "--", "&&", "|", "# note", "'", '"',
    ]
)  # fmt: skip
keys = st.sampled_from(sorted(small()))
few = settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def stored(made: Any) -> None:
    """What every plan must bear: to be stored, read back and shown."""
    assert plan_from_json(json.loads(json.dumps(to_json(made)))) == made
    assert show(made)


@few
@given(keys, json_values)
def test_any_value_at_any_key_of_a_document(key: str, value: Any) -> None:
    with suppress(AgentError):
        stored(plan(recipe(**{key: value})))


@few
@given(st.lists(flags, max_size=14), st.integers(0, 3))
def test_any_argument_list(words: list[str], count: int) -> None:
    with suppress(AgentError):
        stored(plan(bare(words), gpus=cards(count)))


@few
@given(st.lists(st.lists(flags, max_size=10).map(" ".join), max_size=4))
def test_any_lines_of_shell(lines: list[str]) -> None:
    with suppress(AgentError):
        stored(plan(bare([*lines, "# the end"])))


@few
@given(st.dictionaries(st.sampled_from(["gpus", "port", "runtime", "name", "watch", "env", "launch"]), json_values))
def test_any_profile(profile: dict[str, Any]) -> None:
    with suppress(AgentError):
        stored(plan(site=profile, gpus=cards(2)))


def test_a_document_of_a_megabyte_is_planned_within_a_second() -> None:
    document = small() | {"notes": [f"Sentence {n}; another one." for n in range(30_000)]}
    data = json.dumps(document).encode()
    assert len(data) > 900_000
    assert cost(lambda: plan(read_recipe(data, "a file"))) < 1.0 * second()
    made = plan(read_recipe(data, "a file"))
    assert len(made.unapplied) > 30_000
