"""One stated value: what it is, which file stated it, and the words of the recipe that it was read from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Generic, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

T = TypeVar("T")

OWN = "recipe"
"""The layer of what a recipe of another format states in fields of its own."""


def _words(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


class Strict(BaseModel):
    """A part of a profile: unknown keys are errors, values do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, coerce_numbers_to_str=True)


class Quote(Strict):
    """Words of the recipe, letter by letter, and the field that holds them (`config.runtime.notes`)."""

    path: str = Field(alias="from")
    words: Annotated[tuple[str, ...], BeforeValidator(_words)] = ()
    """None where the whole field is meant."""


class Stated(Strict):
    """What carries its source: `from` and `words`, more of the same in `also`, and the layer that it came with."""

    path: str | None = Field(None, alias="from")
    words: Annotated[tuple[str, ...], BeforeValidator(_words)] = ()
    also: tuple[Quote, ...] = ()
    layer: str = ""
    """Set when layers are merged; a file does not write it."""

    def quotes(self) -> Iterator[Quote]:
        """Every place of the recipe that this was read from."""
        if self.path is not None:
            yield Quote(path=self.path, words=self.words)
        yield from self.also

    def origin(self, key: str) -> str:
        """`profile requirements.disk (recipe engine_source.install_note: ~700 GB disk)`."""
        head = f"{self.layer or 'profile'} {key}"
        if self.path is None:
            return head
        place = f"recipe {self.path}" + (f": {' … '.join(self.words)}" if self.words else "")
        return place if self.layer == OWN else f"{head} ({place})"


class Fact(Stated, Generic[T]):
    """A plain value (`driver: 580.1`), or one with its source (`driver: {value: …, from: …, words: …}`)."""

    value: T

    @model_validator(mode="before")
    @classmethod
    def _plain(cls, data: Any) -> Any:
        return data if isinstance(data, dict) and "value" in data else {"value": data}


def value_of(fact: Fact[T] | None) -> T | None:
    """The value, None where nothing was stated."""
    return None if fact is None else fact.value
