"""YAML as people mean it: duplicate keys are errors, `no` is a word, `1:30` is text, dates stay text."""

from __future__ import annotations

import re
from collections.abc import Hashable
from typing import Any

import yaml

from agent.errors import InvalidInput

try:
    from yaml import CSafeLoader as _Base
except ImportError:  # PyYAML without libyaml: the same language, ten times slower
    from yaml import SafeLoader as _Base  # type: ignore[assignment]

MAX_NODES = 20_000
"""Values in one document, aliases counted each time they are used; a launch or a profile has some hundreds."""


class BadYaml(InvalidInput):
    """Text that is no YAML, or YAML that no person can have meant."""

    code = "input.yaml"
    message = "cannot read {what}: {why}"
    hint = "correct the file; nothing of it was used"


class _Loader(_Base):
    """Plain data only, by the core schema of YAML 1.2 (the 1.1 rules read `no` as false and `1:30` as 90)."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 (PyYAML's own form)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                continue
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, Hashable) and key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} stands twice", key_node.start_mark
                )
            seen.add(key if isinstance(key, Hashable) else repr(key))
        return super().construct_mapping(node, deep)


_CORE = (
    ("bool", r"^(?:true|True|TRUE|false|False|FALSE)$", [*"tTfF"]),
    ("null", r"^(?:~|null|Null|NULL|)$", [*"~nN", ""]),
    ("int", r"^(?:[-+]?(?:0|[1-9][0-9_]*)|0x[0-9a-fA-F]+)$", [*"-+0123456789"]),
    ("float", r"^[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$", [*"-+0123456789."]),
    ("merge", r"^<<$", ["<"]),
)
for _tag, _pattern, _first in _CORE:
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(_pattern), _first)


def read_yaml(text: str, what: str) -> Any:
    """The one document in `text`; `what` names it in errors. Raises BadYaml."""
    try:
        _count(text, what)
        # The loader builds plain data only; it is SafeLoader with a narrower schema.
        value = yaml.load(text, Loader=_Loader)  # noqa: S506
    except yaml.YAMLError as error:
        raise BadYaml(what=what, why=_why(error)) from error
    except RecursionError as error:
        raise BadYaml(what=what, why="it is nested too deeply") from error
    except (ValueError, OverflowError) as error:
        raise BadYaml(what=what, why=str(error)) from error
    _bound(value, what)
    return value


def read_mapping(text: str, what: str) -> dict[str, Any]:
    """As `read_yaml` for a document that must be a mapping with text keys; an empty one is `{}`."""
    value = read_yaml(text, what)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise BadYaml(what=what, why=f"a mapping of keys is expected, this is a {_kind(value)}")
    odd = next((key for key in value if not isinstance(key, str)), None)
    if odd is not None:
        raise BadYaml(what=what, why=f"the key {odd!r} is no text")
    return value


def _count(text: str, what: str) -> None:
    """Looked at before anything is built: a megabyte of tiny values takes seconds to build and an instant to count."""
    left = MAX_NODES
    for event in yaml.parse(text, Loader=_Loader):
        left -= isinstance(event, yaml.NodeEvent)
        if left < 0:
            raise BadYaml(what=what, why=f"it holds more than {MAX_NODES:,} values")


def _bound(value: Any, what: str) -> None:
    """Aliases make a small text stand for a huge value; counted is what a reader would walk."""
    left, stack = MAX_NODES, [value]
    while stack:
        node = stack.pop()
        left -= 1
        if left < 0:
            raise BadYaml(what=what, why=f"it stands for more than {MAX_NODES:,} values")
        if isinstance(node, dict):
            stack.extend(node.values())
        elif isinstance(node, list):
            stack.extend(node)


def _why(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error).splitlines()[0]
    return f"line {mark.line + 1}, column {mark.column + 1}: {problem}" if mark is not None else str(problem)


def _kind(value: Any) -> str:
    return {list: "list", str: "text", int: "number", float: "number", bool: "switch"}.get(type(value), "value")
