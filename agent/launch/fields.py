"""Field splitting: how the text of an unquoted expansion becomes arguments beside what stands next to it.

A field is open while more text may be glued to it; None is no open field.
"""

from __future__ import annotations


def glued_list(items: list[str], open_field: str | None, fields: list[str]) -> str | None:
    """Append a list's items: the first continues the open field, the last stays open."""
    if not items:
        return open_field
    first = (open_field or "") + items[0]
    if len(items) == 1:
        return first
    fields.extend([first, *items[1:-1]])
    return items[-1]


def split_text(text: str, open_field: str | None, fields: list[str]) -> str | None:
    """Append what `text` finishes to `fields`; return the field that stays open (None: none)."""
    pieces = text.split()
    if not pieces:
        if text and open_field is not None:
            fields.append(open_field)
            return None
        return open_field
    if text[0].isspace() and open_field is not None:
        fields.append(open_field)
        open_field = None
    pieces[0] = (open_field or "") + pieces[0]
    fields.extend(pieces[:-1])
    if text[-1].isspace():
        fields.append(pieces[-1])
        return None
    return pieces[-1]
