"""Secrets in a launch: their names stand in a plan, their values are put in when the container is made."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

PREFIX = "secret:"
_NAME = re.compile(
    r"(?:^|_)(?:TOKEN|KEY|APIKEY|PAT|CREDENTIALS?)_?\d*$|PASSWORD|PASSWD|PASSPHRASE|(?:^|_)SECRETS?(?:_|$)"
    r"|ACCESS_KEY_ID$|PRIVATE_KEY_PEM$|CREDENTIALS_JSON$|(?:^|_)AUTHORIZATION$|_(?:PASS|PWD)$",
    re.IGNORECASE,
)
_PLACE = re.compile(r"_(?:FILE|PATH|DIR)$", re.IGNORECASE)
"""The name of a file that holds a secret is none, as in POSTGRES_PASSWORD_FILE."""
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SWITCH = re.compile(r"\d{1,2}|true|false|yes|no|on|off", re.IGNORECASE)
"""What says how often or whether, as TWO_PASS=1 does."""
FLAG = re.compile(r"--?(?:[\w-]*[-_])?(?:api[-_]?key|password|secret)|--(?:(?:hf|auth|access)[-_])?token|-hft")
SEVERAL = re.compile(r"--(?:[\w-]*[-_])?api[-_]?key")
"""Flags that take one value or more."""
REFERENCE = re.compile(r"secret:([A-Za-z_][A-Za-z0-9_]*)")


def is_secret(name: str) -> bool:
    """Whether a variable of this name holds a secret (`HF_TOKEN`, `OPENAI_API_KEY`, `DB_PASSWORD`)."""
    return _NAME.search(_HUMP.sub("_", name)) is not None and not _PLACE.search(name)


def hidden_variables(variables: Mapping[str, str], secrets: Mapping[str, Any]) -> dict[str, str]:
    """The values of `$NAME` that a launch is read with: a secret's is its reference."""
    shown = {name: f"{PREFIX}{name}" if is_secret(name) else value for name, value in variables.items()}
    return shown | {name: f"{PREFIX}{name}" for name in secrets}


def is_value(value: str) -> bool:
    """Whether it can be a secret at all: text that is no reference to one, and no switch."""
    return bool(value) and PREFIX not in value and not _SWITCH.fullmatch(value)


def as_name(flag: str) -> str:
    """`--hf-token` as the name of what it takes."""
    return flag.lstrip("-").replace("-", "_").upper()


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
