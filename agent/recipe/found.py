"""What getting and searching give: a recipe with what a person should know of where it came from."""

from __future__ import annotations

from dataclasses import dataclass

from agent.recipe.changes import Difference, Kind, compare
from agent.recipe.model import Recipe
from agent.recipe.search import Hit

TOLD = 8
"""Changes of a new revision that are told one by one."""
SAME = Difference(Kind.SAME)


@dataclass(frozen=True, slots=True)
class Found:
    """A recipe with what a person should know of where it came from.

    `newer` is what its source offers instead of the pinned state that `recipe` is; `age_s` is how long ago the source
    last confirmed it, None for a file.
    """

    recipe: Recipe
    notes: tuple[str, ...] = ()
    newer: Recipe | None = None
    difference: Difference = SAME
    age_s: float | None = None


@dataclass(frozen=True, slots=True)
class Results:
    """What a search found, and which sources could not be asked."""

    hits: tuple[Hit, ...]
    notes: tuple[str, ...] = ()


def differing(pinned: Recipe, newer: Recipe) -> Found:
    """The pinned state with what its source offers instead."""
    difference = compare(pinned, newer)
    moved = ", ".join(dict.fromkeys(change.part for change in difference.changes))
    if difference.kind is Kind.NOTE:
        note = f"{newer.source} has other bytes of the same revision ({moved} moved); the pinned ones are used"
        return Found(pinned, (note,), newer, difference, age_s=0.0)
    note = (
        f"{newer.source} has another revision ({_name(newer)} instead of {_name(pinned)}; different: {moved}); "
        f"the pinned one is used until: agentctl recipes fetch {pinned.slug}"
    )
    return Found(pinned, (note, *_told(difference)), newer, difference, age_s=0.0)


def _told(difference: Difference) -> tuple[str, ...]:
    """The changes that decide something, the first ones in full."""
    deciding = [f"the new revision changes {change}" for change in difference.changes if change.decides]
    rest = len(deciding) - TOLD
    return (*deciding[:TOLD], *([f"and {rest} more places"] if rest > 0 else []))


def _name(recipe: Recipe) -> str:
    number, digest = recipe.revision.number, (recipe.revision.content_hash or recipe.sha256 or "")[:12]
    return f"{digest}" if number is None else f"{number}, {digest}"
