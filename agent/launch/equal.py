"""Whether two bodies ask for the same container: empty, null and absent are one; Env and Binds are sets."""

from __future__ import annotations

from typing import Any

_SETS = ("Env", "Binds")


def differing(left: Any, right: Any, path: str = "") -> list[str]:
    """Paths (`HostConfig.Binds`) at which the two bodies differ, sorted."""
    if isinstance(left, dict) and isinstance(right, dict):
        keys = sorted(left.keys() | right.keys(), key=str)
        return [found for key in keys for found in differing(left.get(key), right.get(key), _below(path, str(key)))]
    return [] if _same(left, right, path) else [path or "the body"]


def _below(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _same(left: Any, right: Any, path: str) -> bool:
    if is_empty(left) and is_empty(right):
        return True
    if isinstance(left, dict) or isinstance(right, dict):
        return not differing(left or {}, right or {}, path) if _dicts(left, right) else False
    if isinstance(left, list) and isinstance(right, list):
        return _same_lists(left, right, path)
    return bool(left == right)


def _dicts(left: Any, right: Any) -> bool:
    return all(isinstance(side, dict) or is_empty(side) for side in (left, right))


def _same_lists(left: list[Any], right: list[Any], path: str) -> bool:
    if path.rpartition(".")[2] in _SETS:
        return set(left) == set(right)
    return len(left) == len(right) and all(
        _same(one, other, f"{path}[]") for one, other in zip(left, right, strict=True)
    )


def is_empty(value: Any) -> bool:
    """None, false, zero, and what has nothing in it: the engine reads them alike."""
    return value is None or value is False or value in ("", 0) or value in ([], {})
