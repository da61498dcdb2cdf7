"""`-v`: a bind or a named volume where there is a source, else a folder that Docker makes a volume for."""

from __future__ import annotations

from dataclasses import dataclass

from agent.launch.flags.kinds import refuse
from agent.launch.model import Context, LaunchWarning


@dataclass(frozen=True, slots=True)
class Volume:
    """`source` is empty for an anonymous volume; `is_path` says whether it names a path of the host."""

    source: str
    target: str
    options: tuple[str, ...] = ()

    @property
    def is_path(self) -> bool:
        return self.source[:1] in (".", "/", "~") or self.source.startswith("\\\\") or _drive(self.source)


def parse(spec: str) -> Volume:
    """`source:target:options`, a drive letter's colon being part of a path. Raises Malformed."""
    refuse(not spec, "invalid empty volume spec")
    if len(spec.encode()) <= 2:
        return Volume("", spec)
    parts = _parts(spec)
    refuse("" in parts, f"invalid spec: {spec}: empty section between colons")
    refuse(len(parts) > 3, f"invalid spec: {spec}: too many colons")
    if len(parts) == 1:
        return Volume("", parts[0])
    return Volume(parts[0], parts[1], tuple(parts[2].split(",")) if len(parts) == 3 else ())


def _parts(spec: str) -> list[str]:
    parts, current = [], ""
    for piece in spec.split(":"):
        current = f"{current}:{piece}" if current else piece
        if len(current) == 1 and current.isalpha():
            continue
        parts.append(current)
        current = ""
    return [*parts, current] if current else parts


def _drive(source: str) -> bool:
    return len(source) > 1 and source[0].isalpha() and source[1] == ":"


def bind(spec: str, context: Context) -> str:
    """The bind as it is posted: a source that starts with a dot is made absolute."""
    volume = parse(spec)
    source, colon, rest = spec.partition(":")
    if volume.is_path and colon and source.startswith("."):
        return f"{context.absolute(source)}:{rest}"
    return spec


def split(specs: list[str], context: Context) -> tuple[list[str], dict[str, dict[str, str]]]:
    """Binds, and the anonymous volumes of the image config; each spec counts once."""
    binds: list[str] = []
    anonymous: dict[str, dict[str, str]] = {}
    for spec in dict.fromkeys(specs):
        if parse(spec).source:
            binds.append(bind(spec, context))
        else:
            anonymous[spec] = {}
    return binds, anonymous


def warnings(specs: list[str]) -> list[LaunchWarning]:
    """Sources that are not what they look like."""
    found = []
    for spec in specs:
        volume = parse(spec)
        if volume.source.startswith("~"):
            text = f"-v {spec}: nothing expands the ~, Docker takes a path that starts with it and refuses"
            found.append(LaunchWarning("volume.tilde", text, "$HOME in its place"))
        elif not volume.source and ":" in spec and len(spec) > 2:
            text = f"-v {spec} names a single path with a colon in it, so an anonymous volume is made"
            found.append(LaunchWarning("volume.drive_letter", text, "a name of two letters or more"))
    return found
