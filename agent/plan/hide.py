"""A launch, and prose, with references in place of secrets; each value under one name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent.errors import AgentError
from agent.plan.inline import hide_within
from agent.plan.secrets import FLAG, PREFIX, SEVERAL, as_name, is_secret, is_value


def mask(text: str) -> str:
    """Prose without the secrets in it; published values are no better kept than others."""
    return hide_within(text, lambda name, _: name, prose=True)


def masked(error: AgentError) -> AgentError:
    """An error that cites a launch, without the secrets that stand there."""
    error.text, error.advice = mask(error.text), mask(error.advice)
    error.details = {key: _masked(value) for key, value in error.details.items()}
    error.args = (error.text,)
    return error


def _masked(value: Any) -> Any:
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, Mapping):
        return {key: _masked(item) for key, item in value.items()}
    return [_masked(item) for item in value] if isinstance(value, list | tuple) else value


def without_secrets(body: Mapping[str, Any], known: Mapping[str, str]) -> dict[str, Any]:
    """The body with references in place of secrets; `known` are the site's variables."""
    names, changed = Names(known), dict(body)
    if body.get("Env"):
        changed["Env"] = [hide_assigned(word, names) for word in body["Env"]]
    for key in ("Entrypoint", "Cmd"):
        if body.get(key):
            changed[key] = list(hide_words(body[key], names))
    if (body.get("Healthcheck") or {}).get("Test"):
        changed["Healthcheck"] = {**body["Healthcheck"], "Test": list(hide_words(body["Healthcheck"]["Test"], names))}
    if body.get("Labels"):
        changed["Labels"] = {key: _labelled(key, value, names) for key, value in body["Labels"].items()}
    return changed


@dataclass(slots=True)
class Names:
    """The names of one launch's secrets: a site's variable of that value, else where it stands, each for one value."""

    known: Mapping[str, str]
    _taken: dict[str, str] = field(default_factory=dict)

    def name(self, called: str, value: str) -> str:
        found = next((variable for variable, text in self.known.items() if text == value), called)
        number = 1
        while self._taken.setdefault(_numbered(found, number), value) != value:
            number += 1
        return _numbered(found, number)


def _numbered(name: str, number: int) -> str:
    return name if number == 1 else f"{name}_{number}"


def hide_assigned(word: str, names: Names) -> str:
    """`NAME=value` with the value of a secret, or what is secret within it, as a reference."""
    name, equals, value = word.partition("=")
    if equals and is_secret(name) and is_value(value):
        return f"{name}={PREFIX}{names.name(name, value)}"
    return f"{name}{equals}{hide_within(value, names.name)}"


def hide_words(words: Sequence[str], names: Names) -> Iterator[str]:
    """A command line with the values of `--api-key` and its like, and what is secret within words, as references."""
    flag = ""
    for word in words:
        shown = _hide_word(word, flag, names)
        yield shown
        if word.startswith("-"):
            flag = word if FLAG.fullmatch(word) else ""
        elif not SEVERAL.fullmatch(flag):
            flag = ""


def _hide_word(word: str, flag: str, names: Names) -> str:
    """One word; `flag` asked for it."""
    if flag and not word.startswith("-"):
        return word if PREFIX in word else PREFIX + names.name(as_name(flag), word)
    return hide_within(word, names.name)


def _labelled(key: str, value: str, names: Names) -> str:
    plain = key.rpartition("/")[2].rpartition(".")[2].replace("-", "_")
    if is_secret(plain) and is_value(value):
        return PREFIX + names.name(plain.upper(), value)
    return hide_within(value, names.name)
