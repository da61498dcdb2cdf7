"""CSV records as the CLI's flags take them."""

from __future__ import annotations

from collections.abc import Iterable


def record(fields: Iterable[str]) -> str:
    """One CSV record; a field with a comma, a quote or a line break is quoted."""
    return ",".join(_field(field) for field in fields)


def _field(field: str) -> str:
    plain = not any(char in field for char in ',"\n\r') and not field.startswith(" ")
    return field if plain else '"' + field.replace('"', '""') + '"'
