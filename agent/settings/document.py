"""`config/agent.yaml`, written from the model: every key with its default and what it means.

`python -m agent.settings.document > config/agent.yaml` writes it; a test holds the file against the model.
"""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from agent.settings.model import Settings

HEAD = """\
The site file of recipe-agent: /etc/recipe-agent/agent.yaml. Every key is shown with its default; take the # away to
set one. Files in conf.d/ beside this one are read after it, in the order of their names, and win key by key; the
environment wins over both (RECIPE_AGENT_LISTEN__PORT=0, RECIPE_AGENT_RUNTIME=docker).
Durations: 30, 30s, 5m, 1h30m. Sizes: 200GiB (binary), 64GB (decimal), plain bytes.
`agentctl config check` reads it without doing anything; `agentctl config show --origin` says where each value is from.
"""
WIDTH = 118


def document(model: type[BaseModel] = Settings) -> str:
    """The commented file."""
    lines = [f"# {line}" for line in HEAD.splitlines()] + [""]
    lines.extend(_section(model, ""))
    return "\n".join(lines).rstrip() + "\n"


def _section(model: type[BaseModel], indent: str) -> Iterator[str]:
    for name, field in model.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield ""
            yield from _comment(inner.__doc__ or "", indent)
            yield f"{indent}{name}:"
            yield from _section(inner, indent + "  ")
        else:
            yield from _comment(_words(field), indent)
            yield f"{indent}#{name}: {_default(field)}"


def _words(field: FieldInfo) -> str:
    choices = get_args(field.annotation) if get_origin(field.annotation) is Literal else ()
    parts = [field.description or "", f"One of {', '.join(choices)}." if choices else ""]
    return " ".join(part for part in parts if part)


def _comment(text: str, indent: str) -> Iterator[str]:
    for line in textwrap.wrap(" ".join(text.split()), WIDTH - len(indent)):
        yield f"{indent}# {line}"


def _default(field: FieldInfo) -> str:
    return _shown(field.get_default(call_default_factory=True))


def _shown(value: Any) -> str:
    if value is None:
        return "~"
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, tuple):
        return "[" + ", ".join(_shown(item) for item in value) + "]"
    if isinstance(value, Mapping):
        return json.dumps(dict(value))
    if isinstance(value, float):
        return f"{value:g}"
    return json.dumps(value) if not isinstance(value, str) or not value.isidentifier() else value


if __name__ == "__main__":
    sys.stdout.write(document())
