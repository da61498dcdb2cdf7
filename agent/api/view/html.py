"""HTML in which a text cannot be forgotten to be escaped: only `tag` makes markup, and it escapes what is not."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

VOID = frozenset({"meta", "link", "br"})


class Html(str):
    """Markup; any other `str` is text."""

    __slots__ = ()


def text(inner: str) -> Html:
    return inner if isinstance(inner, Html) else Html(escape(inner))


def tag(name: str, /, *inner: str, **attributes: str | float | bool | None) -> Html:
    """An element. `class_` and `for_` lose their underscore, others turn into hyphens; None and False are left out."""
    words = "".join(
        f" {key.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{escape(str(value))}"')
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    if name in VOID:
        return Html(f"<{name}{words}>")
    return Html(f"<{name}{words}>{joined(inner)}</{name}>")


def joined(parts: Iterable[str]) -> Html:
    return Html("".join(map(text, parts)))
