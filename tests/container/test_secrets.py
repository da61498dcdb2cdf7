"""Secrets go into a container, and evidence of it shows none."""

from __future__ import annotations

from typing import Any

from agent.container.body import LogBounds, compose
from agent.container.labels import Identity
from agent.container.secrets import secret_places, without_secrets

BODY = {
    "Entrypoint": ["serve", "--api-key", "secret:API_KEY"],
    "Cmd": ["--model", "m", "--pin=secret:PIN"],
    "Env": ["A=1", "HF_TOKEN=secret:HF_TOKEN", "AUTH=Bearer secret:HF_TOKEN", "SHORT=secret:PIN", "PLAIN"],
}
VALUES = {"API_KEY": "sk-very-long", "HF_TOKEN": "hf_very_long", "PIN": "12"}


def composed() -> dict[str, Any]:
    return compose(BODY, Identity("r", "p", 1), LogBounds("1m", 2), VALUES.__getitem__)


def test_the_places_are_variables_and_words() -> None:
    assert secret_places(BODY) == ("HF_TOKEN", "AUTH", "SHORT", "Entrypoint[2]", "Cmd[2]")


def test_the_values_go_in_everywhere() -> None:
    body = composed()
    assert body["Entrypoint"][2] == "sk-very-long"
    assert body["Cmd"][2] == "--pin=12"
    assert body["Env"] == ["A=1", "HF_TOKEN=hf_very_long", "AUTH=Bearer hf_very_long", "SHORT=12", "PLAIN"]


def test_evidence_shows_none_of_them_wherever_they_turn_up() -> None:
    body = composed()
    document = {
        "Config": body,
        "Path": "serve",
        "Args": ["--api-key", "sk-very-long", "--model", "m", "--pin=12"],
        "State": {"Error": "cannot use sk-very-long", "ExitCode": 12, "Pid": 1234},
        "Created": "2026-12-12",
    }
    shown = without_secrets(document, body)
    assert not [value for value in ("sk-very-long", "hf_very_long", "=12") if value in str(shown)]
    assert shown["Config"]["Env"][0] == "A=1"
    assert shown["Args"] == ["--api-key", "(secret)", "--model", "m", "(secret)"]
    assert shown["State"] == {"Error": "cannot use (secret)", "ExitCode": 12, "Pid": 1234}
    assert shown["Created"] == "2026-12-12"


def test_what_has_no_secrets_is_shown_as_it_is() -> None:
    document = {"Config": {"Env": ["A=1"], "Labels": None}, "Args": ["x"]}
    assert without_secrets(document, document["Config"]) == document  # type: ignore[arg-type]
