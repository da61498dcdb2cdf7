"""What a service takes from its project: the name, the folder, volumes and networks that are shared."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from agent.launch.compose.values import text
from agent.launch.model import Context
from agent.launch.refusal import BadCompose, UnknownDirectory, UnknownVariable


@dataclass(frozen=True, slots=True)
class Project:
    """A compose file's top level, and the context it is read in."""

    document: Mapping[str, Any]
    context: Context

    @property
    def name(self) -> str:
        """`name:`, `COMPOSE_PROJECT_NAME`, or the folder's name in compose's letters. Raises UnknownDirectory."""
        given = self.document.get("name") or self.context.variables.get("COMPOSE_PROJECT_NAME")
        if given:
            return text(given, "name")
        if self.context.cwd is None:
            raise UnknownDirectory(
                "cannot convert the compose file: it has no name, and the folder that would give it one is not known",
                word="the project's name",
                advice="name the project's folder with --cwd, or give it a name:",
            )
        folder = self.context.cwd.rstrip("/").rpartition("/")[2].lower()
        return re.sub(r"[^a-z0-9_-]", "", folder).lstrip("_-") or "default"

    def path(self, source: str) -> str:
        """A path of the host in full. Raises UnknownDirectory, UnknownVariable for `~`."""
        if source == "~" or source.startswith("~/"):
            home = self.context.lookup("HOME")
            if home is None:
                raise UnknownVariable(names="HOME", missing=["HOME"])
            return home + source[1:]
        return self.context.absolute(source)

    def volume(self, name: str) -> str:
        """A named volume as compose calls it on the engine."""
        return self._shared("volumes", name)

    def network(self, name: str) -> str:
        """A network as compose calls it on the engine."""
        return self._shared("networks", name)

    def undeclared(self, kind: str, names: Iterable[str]) -> list[str]:
        """Names that this file does not declare: a file that includes it does, or compose refuses it."""
        declared = self.document.get(kind) or {}
        return [name for name in names if name not in declared and name != "default"]

    def made_specially(self, name: str) -> str:
        """How compose makes a volume of its own where that is more than a plain one: its driver and its options."""
        options = (self.document.get("volumes") or {}).get(name)
        if not isinstance(options, Mapping) or options.get("external"):
            return ""
        driver = text(options.get("driver")) if options.get("driver") not in (None, "local") else ""
        opts = options.get("driver_opts")
        said = [f"{key}={value}" for key, value in opts.items()] if isinstance(opts, Mapping) else []
        return " ".join([*([f"--driver {driver}"] if driver else []), *(f"--opt {word}" for word in said)])

    def states_default_network(self) -> bool:
        """Whether the file says something about the network that every service is on."""
        networks = self.document.get("networks")
        return isinstance(networks, Mapping) and bool(networks.get("default"))

    def _shared(self, kind: str, name: str) -> str:
        declared = self.document.get(kind) or {}
        if not isinstance(declared, Mapping):
            raise BadCompose(where=kind, why="a map is expected", how=f"write {name}: below {kind}:")
        options = declared.get(name) or {}
        if isinstance(options, Mapping) and options.get("name"):
            return text(options["name"], kind)
        external = options.get("external") if isinstance(options, Mapping) else None
        if isinstance(external, Mapping) and external.get("name"):
            return text(external["name"], kind)
        return name if external else f"{self.name}_{name}"
