"""What another plan changes of the one that runs, and whether that needs a restart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from agent.plan.model import Plan
from agent.plan.tojson import to_json

_RESTART = ("runtime", "container", "argv", "gpus", "image")
"""What runs; a change of anything else is taken up by the agent alone."""
_AGENT = ("engine", "watch", "requirements", "claims", "acceptance", "expendable", "secrets", "mount_roots")
_FOUND = ("image.how", "image.digest")
"""What was merely found on this host."""
_BY_NAME = ("Env", "Binds")
"""Lists in which order means nothing."""


@dataclass(frozen=True, slots=True)
class Change:
    """One value that differs. None stands for "not there"."""

    path: str
    old: Any
    new: Any
    restart: bool

    def __str__(self) -> str:
        if self.old is None:
            return f"+ {self.path}: {self.new}"
        if self.new is None:
            return f"- {self.path}: {self.old}"
        return f"~ {self.path}: {self.old} → {self.new}"


@dataclass(frozen=True, slots=True)
class PlanDiff:
    """All changes from one plan to another, those that need a restart first."""

    changes: tuple[Change, ...]

    @property
    def restart(self) -> bool:
        """Whether carrying it out stops the engine."""
        return any(change.restart for change in self.changes)

    def lines(self) -> Iterator[str]:
        """For a terminal."""
        if not self.changes:
            yield "No changes: what runs is what would run."
            return
        for change in self.changes:
            yield f"{change}" + ("   # needs a restart" if change.restart else "")
        count = sum(change.restart for change in self.changes)
        verdict = f"{count} of them need a restart of the engine" if count else "none needs a restart"
        yield f"{len(self.changes)} changes, {verdict}."

    def to_json(self) -> dict[str, Any]:
        """`{"restart", "changes": [{"path", "old", "new", "restart"}]}`."""
        changes = [{"path": c.path, "old": c.old, "new": c.new, "restart": c.restart} for c in self.changes]
        return {"restart": self.restart, "changes": changes}


def diff(running: Plan, planned: Plan) -> PlanDiff:
    """From the plan that runs to another one."""
    old, new = to_json(running), to_json(planned)
    changes = [
        Change(path, was, will, key in _RESTART and path not in _FOUND)
        for key in (*_RESTART, *_AGENT)
        for path, was, will in _walk(old[key], new[key], key)
    ]
    return PlanDiff(tuple(sorted(changes, key=lambda change: not change.restart)))


def _walk(old: Any, new: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in dict.fromkeys([*old, *new]):
            yield from _walk(old.get(key), new.get(key), f"{path}.{key}")
    elif isinstance(old, list) and isinstance(new, list):
        yield from _list(old, new, path)
    elif old != new and (old or new):  # empty, null and absent are equal
        yield path, old, new


def _list(old: list[Any], new: list[Any], path: str) -> Iterator[tuple[str, Any, Any]]:
    """Texts by what is gone and what came: `Env` and `Binds` as sets, a command line by its options."""
    if not all(isinstance(item, str) for item in [*old, *new]):
        for at in range(max(len(old), len(new))):
            yield from _walk(_at(old, at), _at(new, at), f"{path}[{at}]")
        return
    unordered = path.rpartition(".")[2] in _BY_NAME
    was, will = (old, new) if unordered else (_options(old), _options(new))
    gone = [item for item in was if item not in will]
    came = [item for item in will if item not in was]
    yield from _paired(gone, came, path)
    if not unordered and not gone and not came and old != new:
        yield path, " ".join(old), " ".join(new)


def _options(words: list[str]) -> list[str]:
    """`--flag value` as one text each, other words alone."""
    out: list[str] = []
    for word in words:
        if out and out[-1].startswith("-") and " " not in out[-1] and "=" not in out[-1] and not word.startswith("-"):
            out[-1] = f"{out[-1]} {word}"
        else:
            out.append(word)
    return out


def _paired(gone: list[str], came: list[str], path: str) -> Iterator[tuple[str, Any, Any]]:
    """A name that is in both lists changed its value."""
    names = {_name(item): item for item in came}
    for item in gone:
        yield path, item, names.pop(_name(item), None) if _name(item) != item else None
    for item in came:
        if _name(item) == item or _name(item) in names:
            yield path, None, item


def _name(item: str) -> str:
    """`NAME` of `NAME=value`, `--flag` of `--flag value`; the item itself where it has no name."""
    head = item.partition(" ")[0] if item.startswith("-") else item
    return head.partition("=")[0]


def _at(items: list[Any], at: int) -> Any:
    return items[at] if at < len(items) else None
