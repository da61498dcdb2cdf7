"""Durations and sizes as a settings file may write them: `30s` or 30, `50MB` or 50000000."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator

from agent.quantity import Bytes, parse_duration


def _seconds(value: Any) -> Any:
    return parse_duration(value).total_seconds() if isinstance(value, str) else value


def _size(value: Any) -> Any:
    return int(Bytes.parse(value)) if isinstance(value, str) else value


Seconds = Annotated[float, BeforeValidator(_seconds)]
"""A length of time; a bare number is seconds, text is `500ms`, `30s`, `5m`, `1h30m`, `2d`."""

Size = Annotated[int, BeforeValidator(_size)]
"""A number of bytes; text is `200GiB` (binary), `64GB` (decimal), `2000 MiB`."""
