"""Which entries of a source a step takes, and whether they may lie in a build context (pure)."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from agent.image.dockerfile import Content
from agent.image.port import Entry, Mode, Tree
from agent.image.trouble import CountDiffers, NotInSource, UnsafeSource


@dataclass(frozen=True, slots=True)
class Placed:
    """One entry at its path in the context."""

    path: str
    source_path: str
    entry: Entry


def placed(content: Content, tree: Tree) -> tuple[Placed, ...]:
    """The entries of a piece of context, in order. Raises NotInSource, CountDiffers, UnsafeSource."""
    found = tuple(_entries(content, tree.entries))
    if not found and content.path:
        raise NotInSource(path=content.path, source=tree.origin)
    files = sum(one.entry.mode is not Mode.SUBMODULE for one in found)
    if content.files is not None and files != content.files:
        raise CountDiffers(path=content.path, source=tree.origin, stated=content.files, found=files)
    for one in found:
        _check_path(one.path, tree)
    return found


def is_folder(entries: Mapping[str, Entry], path: str) -> bool | None:
    """Whether a path is a folder; None where there is none."""
    inner = path.strip("/")
    if inner in entries:
        return False
    within = any(name.startswith(f"{inner}/") for name in entries) if inner not in ("", ".") else bool(entries)
    return True if within else None


def check_link(one: Placed, content: Content, target: str, tree: Tree) -> None:
    """A link may point at what was copied with it and at nothing else. Raises UnsafeSource."""
    whole = posixpath.normpath(posixpath.join(posixpath.dirname(one.path), target))
    if target.startswith("/") or "\0" in target or not (whole + "/").startswith(content.into + "/"):
        raise UnsafeSource(
            what=f"the link {one.source_path}", source=tree.origin, why=f"it points outside, at {target}"
        )


def _entries(content: Content, entries: Mapping[str, Entry]) -> Iterator[Placed]:
    if content.path in entries:
        yield Placed(f"{content.into}/{posixpath.basename(content.path)}", content.path, entries[content.path])
        return
    prefix = f"{content.path}/" if content.path else ""
    for path, entry in entries.items():
        if path.startswith(prefix) and path not in content.without:
            yield Placed(f"{content.into}/{path.removeprefix(prefix)}", path, entry)


def _check_path(path: str, tree: Tree) -> None:
    if any(part in ("", ".", "..") for part in path.split("/")) or "\0" in path:
        raise UnsafeSource(what=repr(path), source=tree.origin, why="its path would leave the build context")
