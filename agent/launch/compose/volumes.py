"""A service's volumes as `-v` and `--mount`: paths from the project's folder, names with the project's name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from agent.launch.compose.project import Project
from agent.launch.compose.values import items, text
from agent.launch.flags import volumes as short
from agent.launch.golang import Malformed
from agent.launch.refusal import BadCompose
from agent.launch.writing.record import record


def flags(service: Mapping[str, Any], project: Project) -> Iterator[str]:
    """Both notations. Raises BadCompose."""
    for item in items(service.get("volumes"), "volumes"):
        if isinstance(item, Mapping):
            yield from _long(item, project)
        else:
            yield from ("-v", _short(text(item, "volumes"), project))


def named(service: Mapping[str, Any]) -> list[str]:
    """The named volumes of a service."""
    out = []
    for item in items(service.get("volumes"), "volumes"):
        if isinstance(item, Mapping):
            out += [text(item.get("source"))] if item.get("type") == "volume" and item.get("source") else []
        else:
            volume = short.parse(text(item))
            out += [volume.source] if volume.source and not volume.is_path else []
    return out


def _short(spec: str, project: Project) -> str:
    try:
        volume = short.parse(spec)
    except Malformed as error:
        raise BadCompose(where="volumes", why=str(error), how="write SOURCE:TARGET or SOURCE:TARGET:ro") from error
    if not volume.source:
        return spec
    rest = spec[len(volume.source) :]
    source = project.path(volume.source) if volume.is_path else project.volume(volume.source)
    return source + rest


def _long(volume: Mapping[str, Any], project: Project) -> Iterator[str]:
    kind, source = text(volume.get("type")), text(volume.get("source"))
    target = text(volume.get("target"))
    if kind == "bind" and not _options(volume, "bind", "create_host_path") and not _must_be_there(volume):
        yield from ("-v", f"{project.path(source)}:{target}" + (":ro" if volume.get("read_only") else ""))
        return
    fields = [f"type={kind}", f"target={target}"]
    if source:
        fields.append(f"source={project.path(source) if kind == 'bind' else _named(kind, source, project)}")
    if volume.get("read_only"):
        fields.append("readonly")
    yield from ("--mount", record([*fields, *_fields(volume)]))


def _must_be_there(volume: Mapping[str, Any]) -> bool:
    """A folder that the Engine may not make: what `-v` makes, `--mount` refuses."""
    options = volume.get("bind")
    return isinstance(options, Mapping) and options.get("create_host_path") is False


def _named(kind: str, source: str, project: Project) -> str:
    return project.volume(source) if kind == "volume" else source


def _options(volume: Mapping[str, Any], key: str, *known: str) -> dict[str, Any]:
    options = volume.get(key) or {}
    return {name: value for name, value in options.items() if name not in known} if isinstance(options, Mapping) else {}


_KNOWN = {
    ("bind", "propagation"): "bind-propagation={}",
    ("bind", "recursive"): "bind-recursive={}",
    ("volume", "nocopy"): "volume-nocopy={}",
    ("volume", "subpath"): "volume-subpath={}",
    ("tmpfs", "size"): "tmpfs-size={}",
    ("tmpfs", "mode"): "tmpfs-mode={}",
    ("image", "subpath"): "image-subpath={}",
}


def _fields(volume: Mapping[str, Any]) -> Iterator[str]:
    for kind in ("bind", "volume", "tmpfs", "image"):
        for name, value in _options(volume, kind, "create_host_path").items():
            form = _KNOWN.get((kind, name))
            if form is None:
                raise BadCompose(where=f"volumes.{kind}.{name}", why="docker run cannot say it", how="leave it out")
            yield form.format(f"{value:o}" if name == "mode" and isinstance(value, int) else text(value))
