"""What a container sees of the host: its binds, what should stand at their sources, and whether it may (pure)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from agent.plan.model import Plan
from agent.preflight.facts import PathFact, PathKind

FILE_SUFFIXES = frozenset(
    f".{name}"
    for group in (
        ("py", "pyi", "so", "sh", "c", "h", "cpp", "hpp", "cu", "cuh", "patch", "diff", "whl"),
        ("json", "jsonl", "yaml", "yml", "toml", "ini", "cfg", "conf", "env", "csv", "xml", "rules", "service", "list"),
        ("txt", "md", "jinja", "jinja2", "j2", "tmpl", "template", "log", "lock"),
        ("gguf", "safetensors", "bin", "pt", "pth", "model"),
        ("pem", "crt", "cer", "key"),
    )
    for name in group
)
SOCKET_SUFFIXES = frozenset((".sock", ".socket"))
FILE_NAMES = frozenset(
    ("passwd", "group", "shadow", "hosts", "hostname", "resolv.conf", "localtime", "timezone", "machine-id")
)


@dataclass(frozen=True, slots=True)
class Bind:
    """One host path in a container. `makes`: Docker creates a missing source, as a folder that root owns (`-v`)."""

    source: str
    target: str
    read_only: bool = False
    makes: bool = True


def binds_of(plan: Plan) -> tuple[Bind, ...]:
    """All host paths that the plan's container mounts; named volumes and tmpfs are none."""
    host = (plan.container.body.get("HostConfig") or {}) if plan.container else {}
    return (*short_form(host.get("Binds") or ()), *long_form(host.get("Mounts") or ()))


def short_form(binds: Sequence[str]) -> Iterator[Bind]:
    for text in binds:
        source, _, rest = text.partition(":")
        target, _, options = rest.partition(":")
        if source.startswith("/") and target:
            yield Bind(source, target, "ro" in options.split(","))


def long_form(mounts: Sequence[Mapping[str, Any]]) -> Iterator[Bind]:
    for mount in mounts:
        if mount.get("Type") == "bind" and mount.get("Source") and mount.get("Target"):
            makes = bool((mount.get("BindOptions") or {}).get("CreateMountpoint"))
            yield Bind(str(mount["Source"]), str(mount["Target"]), bool(mount.get("ReadOnly")), makes)


def expected(path: str) -> PathKind | None:
    """What a path's look promises: a file by its suffix or name, a folder by a final slash; None where it is open."""
    if path.endswith("/"):
        return PathKind.FOLDER
    name = PurePosixPath(path)
    if name.suffix.lower() in SOCKET_SUFFIXES:
        return PathKind.SOCKET
    return PathKind.FILE if name.suffix.lower() in FILE_SUFFIXES or name.name in FILE_NAMES else None


def on_host(path: str, binds: Sequence[Bind]) -> str | None:
    """The host path of a container's path, by the deepest mount over it; None where no mount covers it."""
    inside = PurePosixPath(path)
    over = [bind for bind in binds if inside.is_relative_to(bind.target)]
    if not over:
        return None
    deepest = max(over, key=lambda bind: len(PurePosixPath(bind.target).parts))
    return str(PurePosixPath(deepest.source) / inside.relative_to(deepest.target))


def astray(fact: PathFact, binds: Sequence[Bind], reals: Mapping[str, str]) -> bool:
    """Whether a path is a link that ends elsewhere, or nowhere, in the container; `reals`: source → its real path.

    An absolute link is followed by the container's own paths, so a mount must put its end at that same path; a
    relative one must stay within its mount.
    """
    if fact.link is None:
        return False
    if fact.link.startswith("/"):
        return on_host(fact.link, binds) != fact.link
    over = [bind for bind in binds if PurePosixPath(fact.path).is_relative_to(bind.source)]
    return not any(PurePosixPath(fact.real).is_relative_to(reals.get(bind.source, bind.source)) for bind in over)


def outside_roots(reals: Mapping[str, str], roots: Sequence[str]) -> dict[str, str]:
    """Which mounts the site's policy does not allow: source → its real path, where no root holds that.

    `reals`: source → real path, links followed just before the container is made; `roots`: real paths of what may be
    mounted, `/` for everything. A source that is a root itself is inside. Relative and `..` paths never are.
    """
    return {source: real for source, real in reals.items() if not any(within(real, root) for root in roots)}


def within(real: str, root: str) -> bool:
    path = PurePosixPath(real)
    return path.is_absolute() and ".." not in path.parts and path.is_relative_to(root)
