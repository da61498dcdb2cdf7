"""Layers of plain mappings: a later one wins key by key, and every value remembers the file that gave it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

DEFAULT = "default"


def merge(layers: Iterable[tuple[str, Mapping[str, Any]]]) -> tuple[dict[str, Any], dict[str, str]]:
    """The merged mapping, and for each dotted key the name of the layer it came from.

    Mappings merge; lists and plain values replace. A key with no value (`policy:` above comments only) says nothing.
    """
    merged: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for name, layer in layers:
        _lay(merged, layer, name, "", origins)
    return merged, origins


def _lay(into: dict[str, Any], layer: Mapping[str, Any], name: str, prefix: str, origins: dict[str, str]) -> None:
    for key, value in layer.items():
        if value is None:
            continue
        path = f"{prefix}{key}"
        if isinstance(value, Mapping):
            under = into.get(key)
            inner = under if isinstance(under, dict) else {}
            origins.pop(path, None)
            into[key] = inner
            _lay(inner, value, name, f"{path}.", origins)
        else:
            if isinstance(into.get(key), dict):
                for below in [one for one in origins if one.startswith(f"{path}.")]:
                    del origins[below]
            into[key] = value
            origins[path] = name


def flatten(value: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted keys and their values, in order; an empty mapping is a value."""
    for key, inner in value.items():
        if isinstance(inner, Mapping) and inner:
            yield from flatten(inner, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", inner
