"""Durations, sizes and counts as a settings file may write them: `30s` or 30, `50MB` or 50000000."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from agent.quantity import Bytes, parse_duration


def _seconds(value: Any) -> Any:
    return parse_duration(value).total_seconds() if isinstance(value, str) else value


def _size(value: Any) -> Any:
    return int(Bytes.parse(value)) if isinstance(value, str) else value


def _parameters(value: Any) -> Any:
    match = _PARAMETERS.fullmatch(value) if isinstance(value, str) else None
    return float(match[1]) * _COUNTS[match[2].upper()] if match else value


_COUNTS = {"M": 1e6, "B": 1e9, "T": 1e12}
_PARAMETERS = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([MBTmbt])\s*")

Parameters = Annotated[float, BeforeValidator(_parameters), Field(gt=0)]
"""A number of a model's parameters; text is `37B`, `950M`, `1.1T`."""

Seconds = Annotated[float, BeforeValidator(_seconds)]
"""A length of time; a bare number is seconds, text is `500ms`, `30s`, `5m`, `1h30m`, `2d`."""

Size = Annotated[int, BeforeValidator(_size)]
"""A number of bytes; text is `200GiB` (binary), `64GB` (decimal), `2000 MiB`."""
