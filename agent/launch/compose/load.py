"""YAML as compose reads it: YAML 1.2's words for true and false, no base-60 numbers, no key twice, no bombs."""

from __future__ import annotations

import re
from collections.abc import Hashable
from typing import Any

import yaml

from agent.launch.refusal import BadCompose

MOST_NODES = 50_000
"""Values in a file once its aliases are followed; more is a bomb."""

_HOW = "docker compose config shows what compose itself makes of the file"

_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_Base):  # type: ignore[misc]
    """A safe loader with resolvers of its own."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """A mapping in which no key stands twice."""
        seen: set[str] = set()
        for key, _ in node.value:
            if key.tag == "tag:yaml.org,2002:merge":
                continue
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.MarkedYAMLError(
                    problem="a key is text, and here is a list or a map", problem_mark=key.start_mark
                )
            if key.value in seen:
                raise yaml.MarkedYAMLError(problem=f"the key {key.value!r} stands twice", problem_mark=key.start_mark)
            seen.add(str(key.value))
        mapping: dict[Hashable, Any] = super().construct_mapping(node, deep)
        return mapping


_Loader.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in (
    ("bool", r"(?:true|True|TRUE|false|False|FALSE)\Z", "tTfF"),
    ("int", r"[-+]?(?:[0-9]+|0x[0-9a-fA-F]+|0o[0-7]+)\Z", "-+0123456789"),
    ("float", r"[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*)(?:[eE][-+]?[0-9]+)?\Z", "-+0123456789."),
    ("null", r"(?:~|null|Null|NULL|)\Z", "~nN\0"),
    ("merge", r"(?:<<)\Z", "<"),
):
    _letters: list[str] = [*(letter for letter in _first if letter != "\0"), *([""] if "\0" in _first else [])]
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(_pattern), _letters)


def _whole(loader: Any, node: yaml.ScalarNode) -> int | str:
    """Whole numbers as YAML 1.2 has them; a leading zero or too many digits leaves text."""
    text = str(node.value)
    if re.fullmatch(r"[-+]?0[0-9]+|.{40,}", text):
        return text
    return int(text, 0)


_Loader.add_constructor("tag:yaml.org,2002:int", _whole)


def load(text: str) -> dict[str, Any]:
    """The file as plain values. Raises BadCompose."""
    try:
        value = yaml.load(text, _Loader)  # noqa: S506 - a safe loader with fewer words
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise BadCompose(where=_place(error), why=_problem(error), how=_HOW) from error
    if not isinstance(value, dict) or not isinstance(value.get("services"), dict):
        raise BadCompose(where="the file", why="it has no services", how=_HOW)
    _count(value)
    return value


def _count(value: Any) -> None:
    """Walk the values as often as aliases repeat them. Raises BadCompose."""
    left = MOST_NODES
    stack: list[Any] = [value]
    while stack:
        item = stack.pop()
        left -= 1
        if left < 0:
            raise BadCompose(where="the file", why="its aliases unfold without end", how=_HOW)
        if isinstance(item, dict):
            stack.extend(item.values())
        elif isinstance(item, list):
            stack.extend(item)


def _place(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    return f"line {mark.line + 1}" if mark is not None else "the file"


def _problem(error: Exception) -> str:
    return str(getattr(error, "problem", None) or error).split("\n")[0] or "it is no YAML"
