"""Compose's env files: `NAME=value` with quotes, comments and `export`, unlike the docker CLI's own format."""

from __future__ import annotations

import re

from agent.launch.compose.interpolate import Interpolation
from agent.launch.refusal import BadCompose

_LINE = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_.-]*)\s*(?:[=:]\s?(.*))?", re.DOTALL)
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}


def entries(text: str, path: str, interpolation: Interpolation) -> dict[str, str | None]:
    """Names with their values; None for a name alone, whose value is the caller's. Raises BadCompose."""
    out: dict[str, str | None] = {}
    for number, raw in enumerate(text.removeprefix("\ufeff").splitlines(), 1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        found = _LINE.fullmatch(line)
        if found is None:
            raise BadCompose(where=f"{path} line {number}", why="it is no NAME=VALUE", how="correct the line")
        value = found[2]
        out[found[1]] = None if value is None else _value(value.strip(), f"{path} line {number}", interpolation)
    return out


def _value(text: str, where: str, interpolation: Interpolation) -> str:
    if text[:1] in ("'", '"'):
        return _quoted(text, where, interpolation)
    plain = re.split(r"\s#", text, maxsplit=1)[0].rstrip()
    return interpolation.text("" if plain.startswith("#") else plain)


def _quoted(text: str, where: str, interpolation: Interpolation) -> str:
    quote = text[0]
    found = re.match(r"'([^']*)'|\"((?:[^\"\\]|\\.)*)\"", text)
    rest = text[found.end() :].strip() if found else "?"
    if found is None or (rest and not rest.startswith("#")):
        raise BadCompose(where=where, why=f"the quote {quote} does not close the value", how="keep a value on one line")
    if quote == "'":
        return found[1]
    return interpolation.text(re.sub(r"\\(.)", lambda each: _ESCAPES.get(each[1], each[1]), found[2]))
