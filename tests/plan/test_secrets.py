"""A secret's name stands in a plan and its value nowhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent.launch.refusal import LaunchRefused
from agent.plan.hide import Names, hide_words, mask, without_secrets
from agent.plan.secrets import is_secret, references, with_secrets
from agent.plan.show import show
from agent.plan.tojson import to_json
from agent.recipe.read import read_recipe
from tests.lab.pace import cost, second
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
        ("API_KEY_1", True),
        ("hfToken", True),
        ("MYSQL_PWD", True),
        ("DB_PASS", True),
        ("AWS_ACCESS_KEY_ID", True),
        ("TLS_PRIVATE_KEY_PEM", True),
        ("PWD", False),
        ("OLDPWD", False),
        ("BYPASS", False),
        ("POSTGRES_PASSWORD_FILE", False),
        ("HF_TOKEN_PATH", False),
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
        (("--api-key", "a", "b", "--port", "1"), ("--api-key", "secret:API_KEY", "secret:API_KEY_2", "--port", "1")),
        (("--hf-token", "x", "model"), ("--hf-token", "secret:HF_TOKEN", "model")),
        (("--api-key", "$KEY", "--api-key", "secret:A"), ("--api-key", "secret:API_KEY", "--api-key", "secret:A")),
    ],
)
def test_flags_that_carry_secrets_are_hidden_too(words: tuple[str, ...], hidden: tuple[str, ...]) -> None:
    assert tuple(hide_words(words, Names({"MY_KEY": "site"}))) == hidden


def test_values_are_put_in_where_the_container_is_made() -> None:
    body = {"Env": ["A=secret:X", "B=Bearer secret:X"], "Cmd": ["--api-key", "secret:API_KEY"], "Image": "i"}
    made = with_secrets(body, {"X": "1", "API_KEY": "2"})
    assert made == {"Env": ["A=1", "B=Bearer 1"], "Cmd": ["--api-key", "2"], "Image": "i"}
    with pytest.raises(KeyError):
        with_secrets(body, {"X": "1"})


def test_a_path_of_a_file_is_no_secret(tmp_path: Path) -> None:
    made = plan(bare(launch("-e", "HF_TOKEN_PATH=/run/token")))
    assert made.secrets == {}


ODD = "S3cret-value.X9"


@pytest.mark.parametrize(
    ("flags", "command", "name"),
    [
        (["-e", f"HF_ENDPOINT=https://user:{ODD}@mirror.example/x"], [], "MIRROR_EXAMPLE_PASSWORD"),
        (["-e", f"https_proxy=http://u:{ODD}@proxy:3128"], [], "PROXY_PASSWORD"),
        (["-e", f"INDEX=https://{ODD}@pip.example/simple"], [], "PIP_EXAMPLE_TOKEN"),
        (["-e", f"DATABASE_URL=postgres://u:{ODD}@db/x"], [], "DB_PASSWORD"),
        (["-e", f'CONF={{"api_key": "{ODD}"}}'], [], "api_key"),
        (["-e", f"VLLM_ARGS=--port 1 --api-key {ODD}"], [], "API_KEY"),
        (["-e", f"AUTH=Bearer {ODD}"], [], "AUTHORIZATION"),
        (["--label", f"org.example/hf-token={ODD}"], [], "HF_TOKEN"),
        (["--health-cmd", f"curl -H 'X-Api-Key: {ODD}' localhost"], [], "X_API_KEY"),
        (["--health-cmd", f"curl localhost?api_key={ODD}&x=1"], [], "api_key"),
        ([], ["--model", f"https://u:{ODD}@host/m"], "HOST_PASSWORD"),
        ([], ["--kv-transfer-config", f'{{"a": {{"password": "{ODD}", "b": 1}}}}'], "password"),
        (["--entrypoint", "bash"], ["-c", f"vllm serve m --api-key='{ODD}' --port 1"], "API_KEY"),
        (["--entrypoint", "bash"], ["-c", f"export HF_TOKEN='{ODD}'; vllm serve m"], "HF_TOKEN"),
        (["--entrypoint", "bash"], ["-c", f"curl -H 'Authorization: Bearer {ODD}' x"], "AUTHORIZATION"),
        (["--entrypoint", f"/x --api-key={ODD}"], [], "API_KEY"),
    ],
)
def test_a_secret_in_an_odd_place_is_a_reference_too(flags: list[str], command: list[str], name: str) -> None:
    """And the container gets what it was, letter by letter."""
    made = plan(bare(["docker", "run", *flags, "vllm/vllm-openai:v1", "--model", "m", *command]))
    assert ODD not in json.dumps(to_json(made)) + show(made)
    assert f"secrets.{name}" in [entry.key for entry in made.missing]
    assert made.container is not None
    assert ODD in json.dumps(with_secrets(made.container.body, {name: ODD}))


def test_a_field_whose_name_says_that_it_is_a_secret_is_not_shown() -> None:
    document = {
        "slug": "bare",
        "config": {"launch": ["docker", "run", "img"], "env": {"HF_TOKEN": ODD}, "hf-token": [ODD]},
    }
    made = plan(read_recipe(json.dumps(document).encode(), "a file"))
    assert ODD not in json.dumps(to_json(made))


def test_a_refusal_cites_a_launch_without_its_secrets() -> None:
    with pytest.raises(LaunchRefused) as caught:
        plan(bare(["docker", "run", "--mount", f"type=bind,password={ODD}", "img"]))
    assert ODD not in json.dumps(caught.value.as_dict())
    assert "password=secret:password" in caught.value.text


@pytest.mark.parametrize(
    "text",
    [
        "hf_" + "a1" * 15,
        "sk-proj-" + "a1" * 12,
        "ghp_" + "a1" * 12,
        "nvapi-" + "a1" * 12,
        "AKIA" + "A1" * 8,
        "eyJhbGciOiJI.eyJzdWIiOiIx.SflKxwRJSMeKKF2QT4",
    ],
)
def test_a_token_of_a_known_form_is_hidden_wherever_it_is(text: str) -> None:
    assert text not in mask(f"It runs with {text}, as before.")


@pytest.mark.parametrize(
    "text",
    [
        "Basic authentication is off; bearer tokens are not needed.",
        "or give the engine --api-key by a secret, --hf-token from a file",
        "vllm serve m --api-key $VLLM_API_KEY --max-tokens 5",
        'export KEY=$(cat /run/key); serve --api-key "$KEY"',
        '{"method":"dspark","num_speculative_tokens":5}',
        "git clone ssh://git@host.example/x https://host.example/y@v1",
        "TWO_PASS=1 X_KEY=true PWD=/srv",
        "disk-space-of-some-hundred-gigabytes task-oriented-model-2026",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert mask(text) == text


def test_two_values_never_share_a_name() -> None:
    body = {"Env": ["A=https://u:one1@h/x", "B=https://u:two2@h/y", "C=https://u:one1@h/z"]}
    assert without_secrets(body, {})["Env"] == [
        "A=https://u:secret:H_PASSWORD@h/x",
        "B=https://u:secret:H_PASSWORD_2@h/y",
        "C=https://u:secret:H_PASSWORD@h/z",
    ]


@pytest.mark.parametrize(
    "piece", ["a", "x-", "sk-", "eyJ-", '"a', "--a ", "a://", "://", "bearer ", "A=", "https://a:b", "-", "@", "u:"]
)
def test_half_a_megabyte_of_anything_is_looked_through_at_once(piece: str) -> None:
    text = piece * (500_000 // len(piece)) + '=://"'
    assert cost(lambda: mask(text)) < 1.0 * second()
