"""A secret's name stands in a plan and its value nowhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent.plan.secrets import hide_words, is_secret, references, with_secrets
from agent.plan.show import show
from agent.plan.tojson import to_json
from tests.plan.build import bare, plan, settings

VALUE = "hf_very_secret_value"


def launch(*words: str) -> list[str]:
    return ["docker", "run", *words, "vllm/vllm-openai:v1", "--model", "m"]


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("HF_TOKEN", True),
        ("HUGGING_FACE_HUB_TOKEN", True),
        ("OPENAI_API_KEY", True),
        ("VLLM_API_KEY", True),
        ("AWS_SECRET_ACCESS_KEY", True),
        ("DB_PASSWORD", True),
        ("GITHUB_PAT", True),
        ("hf_token", True),
        ("TOKENIZERS_PARALLELISM", False),
        ("MAX_TOKENS", False),
        ("SSH_AUTH_SOCK", False),
        ("KEYBOARD", False),
        ("VLLM_PLUGINS", False),
    ],
)
def test_names_tell_secrets(name: str, secret: bool) -> None:
    assert is_secret(name) is secret


@pytest.mark.parametrize(
    ("words", "keys"),
    [
        (("-e", "HF_TOKEN=$HF_TOKEN"), {"variables": {"HF_TOKEN": VALUE}}),
        (("-e", "HF_TOKEN=$OTHER"), {"variables": {"OTHER": VALUE}}),
        (("-e", f"HF_TOKEN={VALUE}"), {"variables": {}}),
        (("-e", "AUTH_HEADER=Bearer $HF_TOKEN"), {"variables": {"HF_TOKEN": VALUE}}),
        (("-e", "HF_TOKEN=${HF_TOKEN:-none}"), {"variables": {"HF_TOKEN": VALUE}}),
    ],
    ids=["own name", "another name", "published", "within", "default"],
)
def test_no_output_of_a_plan_holds_a_secret(words: tuple[str, ...], keys: dict[str, Any]) -> None:
    made = plan(bare(launch(*words)), settings=settings(**keys))
    assert VALUE not in json.dumps(to_json(made)["container"]) + show(made) + json.dumps(to_json(made)["argv"])
    assert made.container is not None
    assert list(references(made.container.body))


def test_a_published_launch_may_stand_in_the_document_but_not_in_the_plan() -> None:
    made = plan(bare(launch("-e", f"HF_TOKEN={VALUE}")), settings=settings(variables={}))
    assert VALUE not in json.dumps(to_json(made))


def test_the_plan_says_where_each_secret_is() -> None:
    of = bare(launch("-e", "HF_TOKEN=$HF_TOKEN", "-e", "A_KEY=$A_KEY", "-e", "B_KEY=published"))
    made = plan(of, settings=settings(secrets={"HF_TOKEN": "/etc/recipe-agent/hf"}, variables={"A_KEY": "x"}))
    assert made.secrets == {"HF_TOKEN": "/etc/recipe-agent/hf", "A_KEY": "variables"}
    assert [entry.key for entry in made.missing] == ["secrets.B_KEY"]
    done = plan(
        of,
        settings=settings(secrets={"HF_TOKEN": "/etc/recipe-agent/hf"}, variables={"A_KEY": "x"}),
        sets={"secrets.B_KEY": "/run/b"},
    )
    assert (done.missing, done.secrets["B_KEY"]) == ((), "/run/b")


def test_prose_that_carries_a_secret_is_shown_without_it() -> None:
    from tests.plan.build import recipe, small

    config = small()["config"]
    config["runtime"]["env"] = f"HF_TOKEN={VALUE} | A=1"
    config["runtime"]["notes"] = f"Start it with HF_TOKEN={VALUE}, and MAX=5."
    made = plan(recipe(config=config))
    assert VALUE not in json.dumps(to_json(made))
    assert any(entry.text == "Start it with HF_TOKEN=secret:HF_TOKEN, and MAX=5." for entry in made.unapplied)


def test_another_secret_makes_no_other_plan() -> None:
    of = bare(launch("-e", "HF_TOKEN=$HF_TOKEN"))
    ids = {plan(of, settings=settings(variables={"HF_TOKEN": value})).plan_id for value in ("a", "b")}
    assert len(ids) == 1


@pytest.mark.parametrize(
    ("words", "hidden"),
    [
        (("--api-key", "x"), ("--api-key", "secret:API_KEY")),
        (("--api-key=x",), ("--api-key=secret:API_KEY",)),
        (("--admin-api-key", "x"), ("--admin-api-key", "secret:ADMIN_API_KEY")),
        (("--hf-token", "x"), ("--hf-token", "secret:HF_TOKEN")),
        (("--api-key", "--port"), ("--api-key", "--port")),
        (("--api-key-file", "/x"), ("--api-key-file", "/x")),
        (("--max-tokens", "5"), ("--max-tokens", "5")),
        (("--api-key", "site"), ("--api-key", "secret:MY_KEY")),
    ],
)
def test_flags_that_carry_secrets_are_hidden_too(words: tuple[str, ...], hidden: tuple[str, ...]) -> None:
    assert hide_words(words, {"MY_KEY": "site"}) == hidden


def test_values_are_put_in_where_the_container_is_made() -> None:
    body = {"Env": ["A=secret:X", "B=Bearer secret:X"], "Cmd": ["--api-key", "secret:API_KEY"], "Image": "i"}
    made = with_secrets(body, {"X": "1", "API_KEY": "2"})
    assert made == {"Env": ["A=1", "B=Bearer 1"], "Cmd": ["--api-key", "2"], "Image": "i"}
    with pytest.raises(KeyError):
        with_secrets(body, {"X": "1"})


def test_a_path_of_a_file_is_no_secret(tmp_path: Path) -> None:
    made = plan(bare(launch("-e", "HF_TOKEN_PATH=/run/token")))
    assert made.secrets == {}
