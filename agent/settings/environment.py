"""The environment as the last layer: `RECIPE_AGENT_<SECTION>__<KEY>`, for units and containers.

    RECIPE_AGENT_LISTEN__PORT=0                     listen: {port: 0}
    RECIPE_AGENT_LISTEN__TLS__KEY=/k.pem            listen: {tls: {key: /k.pem}}
    RECIPE_AGENT_SECRETS__HF_TOKEN=/run/hf          secrets: {HF_TOKEN: /run/hf}
    RECIPE_AGENT_RUNTIME=docker                     runtime: docker

Values are read as YAML (`[0, 1]`, `true`, `30s`). A launch's variables come from files alone, whoever starts the agent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from agent.errors import InvalidInput
from agent.settings.explain import nearest
from agent.settings.model import Settings
from agent.settings.yaml_text import read_yaml

PREFIX = "RECIPE_AGENT_"
BETWEEN = "__"
FILES_ALONE = "variables"


class BadOverride(InvalidInput):
    """A variable that means no setting."""

    code = "settings.environment"
    message = "cannot use {what} of the environment: {why}"
    hint = "agentctl config show --origin lists every key; unset the variable, or correct its name"


def overrides(environ: Mapping[str, str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """A layer a variable, named for its origin, in the order of their names. Raises BadOverride."""
    for name in sorted(environ):
        words = name.removeprefix(PREFIX).split(BETWEEN)
        if not name.startswith(PREFIX) or (len(words) == 1 and words[0].lower() not in plain_keys()):
            continue
        yield f"environment {name}", nested(path_of(name, words), read_yaml(environ[name], name))


def plain_keys() -> frozenset[str]:
    """Top-level keys that hold a value themselves."""
    sections = {name for name in Settings.model_fields if section(Settings, name) is not None}
    return frozenset(Settings.model_fields) - sections - {FILES_ALONE, "secrets"}


def path_of(name: str, words: list[str]) -> list[str]:
    """The key's path. Names below a mapping of the operator's own (`secrets`) stay as they are written."""
    path: list[str] = []
    model: type[BaseModel] | None = Settings
    for word in words:
        if model is None:
            path.append(word)
            continue
        key = word.lower()
        if key == FILES_ALONE and not path:
            raise BadOverride(what=name, why="variables of launches come from the site file and --set alone")
        if key not in model.model_fields:
            raise BadOverride(
                what=name, why=f"unknown key {'.'.join([*path, key])!r}" + nearest(key, model.model_fields)
            )
        path.append(key)
        model = section(model, key)
    return path


def section(model: type[BaseModel], key: str) -> type[BaseModel] | None:
    inner = model.model_fields[key].annotation
    return inner if isinstance(inner, type) and issubclass(inner, BaseModel) else None


def nested(path: list[str], value: Any) -> dict[str, Any]:
    made: Any = value
    for key in reversed(path):
        made = {key: made}
    return dict(made)
