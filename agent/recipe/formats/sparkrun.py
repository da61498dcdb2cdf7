"""sparkrun recipes, versions 1 and 2 (spark-vllm-docker's are version 1).

`command` is a template: `{name}` stands for a value of `defaults` (or `model`), `{{` and `}}` for braces. `mods` are
scripts of a registry that change the image before it is used; a recipe names them and does not hold them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from agent.recipe.formats.reading import Reading, count, fact, mapping, slug_of, text

FORMAT = "sparkrun"
_FIELD = re.compile(r"\{\{|\}\}|\{([A-Za-z_][\w.]*)\}")
_ALIAS = re.compile(r"\{([A-Za-z_][\w.]*)\}")
_UNKNOWN = re.compile(r"\$\{[A-Za-z_]\w*\}")
_KINDS = {"vllm": "vllm", "sglang": "sglang", "llama-cpp": "llamacpp", "llamacpp": "llamacpp", "trtllm": "trtllm"}
_SIZES = {
    "tensor_parallel": "tensor_parallel",
    "pipeline_parallel": "pipeline_parallel",
    "max_model_len": "max_context",
}
_DEPTH = 4
"""A default may name another one."""


def recognise(value: Mapping[str, Any]) -> bool:
    """A model and a container are what every version has."""
    return "model" in value and "container" in value and bool({"command", "defaults", "recipe_version"} & set(value))


def read(value: Mapping[str, Any], slug: str | None) -> Reading:
    """The launch with its defaults filled in; names that nobody states become variables of the launch."""
    metadata = mapping(value.get("metadata"))
    title = text(value.get("name")) or text(value.get("model"))
    command = expanded(text(value.get("command")), value)
    return Reading(
        slug=slug or slug_of(value.get("name"), value.get("model")),
        title=title,
        summary=text(metadata.get("description")) or text(value.get("description")),
        launch=(command,) if command else (),
        places=("command", *(f"defaults.{name}" for name in _used(text(value.get("command"))))),
        engine=_KINDS.get(text(value.get("runtime"))),
        stated=_stated(value),
    )


def expanded(template: str, value: Mapping[str, Any]) -> str:
    """A template with the values of `defaults`; an unknown `{a.b}` becomes `${a_b}`, a variable without a value."""
    names: dict[str, Any] = {"model": value.get("model"), "model_revision": value.get("model_revision")}
    names |= mapping(value.get("defaults"))
    return _FIELD.sub(lambda match: _fill(match, names), template)


def _used(template: str) -> Iterator[str]:
    for match in _FIELD.finditer(template):
        if match[1] is not None:
            yield match[1].removeprefix("config.")


def _fill(match: re.Match[str], names: Mapping[str, Any]) -> str:
    if match[1] is None:
        return match[0][0]
    found = _value(match[1], names)
    return found if found else "${" + re.sub(r"\W", "_", match[1]) + "}"


def _value(name: str, names: Mapping[str, Any]) -> str:
    """A default's text; one that is nothing but another name in braces is that one's."""
    for _ in range(_DEPTH):
        raw = names.get(name.removeprefix("config."))
        known = str(raw).lower() if isinstance(raw, bool) else text(raw)
        other = _ALIAS.fullmatch(known)
        if other is None:
            return known
        name = other[1]
    return ""


def _stated(value: Mapping[str, Any]) -> dict[str, Any]:
    stated: dict[str, Any] = {"missing": list(_gaps(value)), "env": {}, "serving": {}, "requirements": {}}
    for name, raw in mapping(value.get("env")).items():
        filled = expanded(text(raw), value)
        if not _UNKNOWN.search(filled):
            stated["env"][str(name)] = fact(filled, f"env.{name}")
    container = text(value.get("container"))
    if container and value.get("mods"):
        stated["runtime"] = fact("docker", "container")
    elif container:
        stated["image"] = {"reference": fact(container, "container")}
    kind = _KINDS.get(text(value.get("runtime")))
    if kind:
        stated["engine"] = {"kind": fact(kind, "runtime")}
    stated["serving"] |= dict(_sizes(mapping(value.get("defaults"))))
    stated["requirements"] |= dict(_requirements(value))
    return stated


def _sizes(defaults: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    named = {
        "tensor_parallel": "tensor_parallel",
        "pipeline_parallel": "pipeline_parallel",
        "max_model_len": "max_context",
    }
    for theirs, ours in named.items():
        size = count(defaults.get(theirs))
        if size is not None:
            yield ours, fact(size, f"defaults.{theirs}")


def _requirements(value: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    model, revision = text(value.get("model")), text(value.get("model_revision"))
    if model.count("/") == 1:
        yield "weights", fact(f"{model}@{revision}" if revision else model, "model")
    nodes = count(value.get("min_nodes"))
    if nodes is not None and nodes > 1:
        yield "hosts", fact(nodes, "min_nodes")


def _gaps(value: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """What the file itself does not hold."""
    if not text(value.get("command")):
        runtime = text(value.get("runtime")) or "its runtime"
        why = f"the recipe has no command: sparkrun's {runtime} runtime composes one from `defaults`"
        how = "state launch.line in the site profile (sparkrun prints the command that it would run)"
        yield {"key": "launch.line", "why": why, "how": how}
    mods = [text(mod) for mod in value.get("mods") or () if text(mod)] if isinstance(value.get("mods"), list) else []
    container = text(value.get("container"))
    if mods:
        why = f"its image {container} is changed by {', '.join(mods)}, scripts that it names and does not hold"
        how = f"build an image with them and --set image.reference=IMAGE; {container} itself goes without them"
        yield {"key": "image.reference", "why": why, "how": how}
    if value.get("cluster_only") is True and count(value.get("min_nodes")) is None:
        why = "cluster_only: it runs over several machines, and does not say over how many"
        yield {"key": "requirements.hosts", "why": why, "how": "--set requirements.hosts=N"}
    for name, raw in mapping(value.get("env")).items():
        if _UNKNOWN.search(expanded(text(raw), value)):
            why = f"{name} is {text(raw)}, which sparkrun fills in when it launches"
            yield {"key": f"env.{name}", "why": why, "how": f"--set env.{name}=…"}
