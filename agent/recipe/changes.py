"""What differs between two states of a document: nothing, a note (votes and dates moved), or another revision."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from agent.recipe.leaves import embedded
from agent.recipe.model import DECIDING, Recipe


class Kind(StrEnum):
    """How much two states differ."""

    SAME = "same"
    NOTE = "note"
    REVISION = "revision"


@dataclass(frozen=True, slots=True)
class Change:
    """One place that differs; None is "not there"."""

    path: str
    old: Any
    new: Any

    @property
    def part(self) -> str:
        """The document's top-level key that it is in."""
        return self.path.split(".")[0].split("[")[0]

    @property
    def decides(self) -> bool:
        """Whether it stands in a part that decides what runs or what is claimed."""
        return self.part in DECIDING

    def __str__(self) -> str:
        return f"{self.path}: {_short(self.old)} → {_short(self.new)}"


@dataclass(frozen=True, slots=True)
class Difference:
    """Two states of one recipe, compared; `changes` has those that decide something first."""

    kind: Kind
    changes: tuple[Change, ...] = ()
    remark: str = ""


def compare(old: Recipe, new: Recipe) -> Difference:
    """`old` is the pinned state, `new` what a source offers."""
    if old.sha256 is not None and old.sha256 == new.sha256:
        return Difference(Kind.SAME)
    changes = tuple(sorted(_walk(old.document, new.document, ""), key=lambda change: not change.decides))
    same_hash = old.revision.content_hash == new.revision.content_hash
    deciding = any(change.decides for change in changes)
    if same_hash and not deciding:
        return Difference(Kind.NOTE, changes)
    if same_hash:
        return Difference(Kind.REVISION, changes, "its content_hash is unchanged all the same, so it proves nothing")
    return Difference(Kind.REVISION, changes, "" if deciding else "nothing that decides what runs is different")


def _walk(old: Any, new: Any, path: str) -> Iterator[Change]:
    old, new = _open(old), _open(new)
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in dict.fromkeys([*old, *new]):
            yield from _walk(old.get(key), new.get(key), f"{path}.{key}" if path else str(key))
    elif isinstance(old, list) and isinstance(new, list):
        for index in range(max(len(old), len(new))):
            yield from _walk(_at(old, index), _at(new, index), f"{path}[{index}]")
    elif old != new:
        yield Change(path, old, new)


def _open(value: Any) -> Any:
    inner = embedded(value) if isinstance(value, str) else None
    return value if inner is None else inner


def _at(items: list[Any], index: int) -> Any:
    return items[index] if index < len(items) else None


def _short(value: Any) -> str:
    text = "nothing" if value is None else str(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
