"""Layers of profiles: shipped ← site ← --set. Every value keeps the name of its layer."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any

from pydantic import BaseModel, ValidationError

from agent.profile.document import Profile
from agent.profile.fact import OWN, Fact, Stated
from agent.profile.trouble import BadProfile, BadSet
from agent.settings.explain import explain
from agent.settings.yaml_text import BadYaml, read_yaml

__all__ = ["OWN", "SETS", "SHIPPED", "SITE", "from_sets", "layered", "validate"]

SHIPPED = "profile"
SITE = "site profile"
SETS = "--set"
_VERBATIM = ("variables", "env", "secrets", "substitutions", "files")
"""Sections whose keys are anybody's names and whose values are text, letter by letter."""
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")


def validate(value: Mapping[str, Any], what: str) -> Profile:
    """One layer. Raises BadProfile, which names the file and the key."""
    try:
        return Profile.model_validate(value)
    except ValidationError as error:
        raise BadProfile(what=what, why=explain(error, Profile)) from error


def layered(layers: Iterable[tuple[str, Profile]]) -> Profile:
    """All layers as one profile; a fact is taken whole, with the name of the layer that stated it last."""
    merged = Profile()
    for name, profile in layers:
        merged = _over(merged, _stamped(profile, name))
    return merged


def from_sets(sets: Mapping[str, str]) -> Profile:
    """`KEY=VALUE` words of a command line as a layer. Raises BadSet."""
    merged: dict[str, Any] = {}
    for key, text in sets.items():
        merged = _with(merged, _path(key), text, f"{key}={text}")
    return Profile.model_validate(merged)


def _with(merged: dict[str, Any], path: list[str], text: str, word: str) -> dict[str, Any]:
    """One more value: as YAML reads it, else as the text that it is (a driver's 580.10 is no number)."""
    verbatim = path[0] in _VERBATIM
    errors: list[ValidationError] = []
    for value in [text] if verbatim else [_value(text, ".".join(path)), text]:
        changed = deepcopy(merged)
        _put(changed, path, value, word)
        try:
            Profile.model_validate(changed)
        except ValidationError as error:
            errors.append(error)
        else:
            return changed
    raise BadSet(word=word, why=explain(errors[0], Profile))


def _path(key: str) -> list[str]:
    """A bare NAME in capitals is a variable of the launch."""
    head, dot, rest = key.partition(".")
    if head in _VERBATIM and dot:
        return [head, rest]
    return ["variables", key] if _VARIABLE.fullmatch(key) else key.split(".")


def _value(text: str, key: str) -> Any:
    try:
        return read_yaml(text, f"the value of {key}")
    except BadYaml:
        return text  # `a: b` and `*x` are text on a command line


def _put(into: dict[str, Any], path: list[str], value: Any, word: str) -> None:
    for name in path[:-1]:
        into = into.setdefault(name, {})
        if not isinstance(into, dict):
            raise BadSet(word=word, why=f"{name} has a value of its own already")
    into[path[-1]] = value


def _stamped(value: Any, layer: str) -> Any:
    """The same, with the layer's name in everything that carries a source."""
    if isinstance(value, BaseModel):
        inner = {name: _stamped(getattr(value, name), layer) for name in value.model_fields_set}
        return value.model_copy(update=inner | ({"layer": layer} if isinstance(value, Stated) else {}))
    if isinstance(value, dict):
        return {key: _stamped(item, layer) for key, item in value.items()}
    if isinstance(value, tuple):
        return tuple(_stamped(item, layer) for item in value)
    return value


def _over(under: Any, over: Any) -> Any:
    """`over` on top of `under`: parts and mappings key by key, facts and lists whole."""
    if isinstance(under, BaseModel) and isinstance(over, BaseModel) and not isinstance(over, Fact):
        names = over.model_fields_set - {"layer"}
        return under.model_copy(update={name: _over(getattr(under, name), getattr(over, name)) for name in names})
    if isinstance(under, dict) and isinstance(over, dict):
        return under | {key: _over(under.get(key), value) for key, value in over.items()}
    return over
