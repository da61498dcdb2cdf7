"""Secrets in a launch: their names stand in a plan, their values are put in when the container is made."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

PREFIX = "secret:"
_NAME = re.compile(
    r"(?:^|_)(?:TOKEN|KEY|APIKEY|PAT|CREDENTIALS?)$|PASSWORD|PASSWD|PASSPHRASE|(?:^|_)SECRETS?(?:_|$)",
    re.IGNORECASE,
)
_FLAG = re.compile(r"--?(?:[\w-]*[-_])?(?:api[-_]?key|password|secret)|--(?:(?:hf|auth|access)[-_])?token|-hft")
_ASSIGNED = re.compile(r"\b([A-Za-z_][A-Za-z0-9_]*)=(?!secret:)([^\s'\"|;,]+)")
REFERENCE = re.compile(r"secret:([A-Za-z_][A-Za-z0-9_]*)")


def is_secret(name: str) -> bool:
    """Whether a variable of this name holds a secret (`HF_TOKEN`, `OPENAI_API_KEY`, `DB_PASSWORD`)."""
    return _NAME.search(name) is not None


def hidden_variables(variables: Mapping[str, str], secrets: Mapping[str, Any]) -> dict[str, str]:
    """The values of `$NAME` that a launch is read with: a secret's is its reference."""
    shown = {name: f"{PREFIX}{name}" if is_secret(name) else value for name, value in variables.items()}
    return shown | {name: f"{PREFIX}{name}" for name in secrets}


def mask(text: str) -> str:
    """Prose with `NAME=value` of secrets as references; published values are no better kept than others."""
    if "=" not in text:
        return text
    return _ASSIGNED.sub(lambda match: f"{match[1]}={PREFIX}{match[1]}" if is_secret(match[1]) else match[0], text)


def hide_env(env: tuple[str, ...], known: Mapping[str, str]) -> tuple[str, ...]:
    """`NAME=value` words with every secret's value as a reference; `known` are the site's variables."""
    return tuple(_hide(word, known) for word in env)


def _hide(word: str, known: Mapping[str, str]) -> str:
    name, equals, value = word.partition("=")
    if not equals or not value or PREFIX in value or not is_secret(name):
        return word
    return f"{name}={PREFIX}{_source(name, value, known)}"


def hide_words(words: tuple[str, ...], known: Mapping[str, str]) -> tuple[str, ...]:
    """A command line with the values of `--api-key` and its like as references."""
    out: list[str] = []
    flag = ""
    for word in words:
        out.append(_hide_word(word, flag, known))
        flag = _as_name(word) if _FLAG.fullmatch(word) else ""
    return tuple(out)


def _hide_word(word: str, flag: str, known: Mapping[str, str]) -> str:
    """One word; `flag` names what the word before it asked for."""
    name, equals, value = word.partition("=")
    if PREFIX in word:
        return word
    if flag and not word.startswith("-"):
        return PREFIX + _source(flag, word, known)
    if equals and value and _FLAG.fullmatch(name):
        return f"{name}={PREFIX}{_source(_as_name(name), value, known)}"
    return word


def _as_name(flag: str) -> str:
    return flag.lstrip("-").replace("-", "_").upper()


def _source(name: str, value: str, known: Mapping[str, str]) -> str:
    """The site variable that the value came from, whatever it is called; else the name where it stands."""
    return next((variable for variable, text in known.items() if text == value), name)


def references(value: Any) -> Iterator[str]:
    """The names of all secrets within a body or an argument list."""
    if isinstance(value, str):
        yield from REFERENCE.findall(value)
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from references(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from references(item)


def with_secrets(value: Any, values: Mapping[str, str]) -> Any:
    """A body or an argument list with the values in place of the references; KeyError for a name without a value."""
    if isinstance(value, str):
        return REFERENCE.sub(lambda match: values[match[1]], value)
    if isinstance(value, Mapping):
        return {key: with_secrets(item, values) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [with_secrets(item, values) for item in value]
    return value
