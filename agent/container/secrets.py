"""Where a container's secrets stand, so that evidence can leave them out (pure).

The values are known only when the container is made. Its label `recipe-agent.secrets` keeps the places, and whoever
shows the container later takes the values from these places and leaves them out everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from agent.container.port import LABEL_SECRETS
from agent.plan.secrets import references

HIDDEN = "(secret)"
LONG_ENOUGH = 6
"""Shorter values are hidden at their places alone: they would be found by chance in anything."""

_WORDS = ("Entrypoint", "Cmd")


def secret_places(body: Mapping[str, Any]) -> tuple[str, ...]:
    """Where a body refers to secrets: the names of environment variables, and words as `Cmd[3]`."""
    env = [entry.partition("=")[0] for entry in body.get("Env") or () if any(references(entry))]
    return (*env, *(place for place, word in _words(body) if any(references(word))))


def without_secrets(document: Mapping[str, Any], config: Mapping[str, Any]) -> dict[str, Any]:
    """`document` without the secrets of the container of this `config` (Env, Entrypoint, Cmd, Labels)."""
    places = frozenset(((config.get("Labels") or {}).get(LABEL_SECRETS) or "").split(",")) - {""}
    entries = [entry for entry in config.get("Env") or () if entry.partition("=")[0] in places]
    words = [word for place, word in _words(config) if place in places]
    whole = {entry: f"{entry.partition('=')[0]}={HIDDEN}" for entry in entries} | dict.fromkeys(words, HIDDEN)
    values = {*words, *(entry.partition("=")[2] for entry in entries)}
    parts = sorted((value for value in values if len(value) >= LONG_ENOUGH), key=len, reverse=True)
    shown = _hide(document, whole, parts) if places else document
    return dict(shown)


def _hide(value: Any, whole: Mapping[str, str], parts: list[str]) -> Any:
    if isinstance(value, str):
        if value in whole:
            return whole[value]
        for part in parts:
            value = value.replace(part, HIDDEN)
        return value
    if isinstance(value, Mapping):
        return {key: _hide(item, whole, parts) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_hide(item, whole, parts) for item in value]
    return value


def _words(body: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for key in _WORDS:
        found = body.get(key) or ()
        words = [found] if isinstance(found, str) else found
        yield from ((f"{key}[{index}]", word) for index, word in enumerate(words))
