"""A compose file: the services that serve a model, in the order they stand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent.launch.compose.engine import is_engine
from agent.launch.compose.load import load
from agent.launch.compose.project import Project
from agent.launch.compose.service import launch
from agent.launch.model import MOST_LAUNCHES, ContainerLaunch, Context
from agent.launch.refusal import BadCompose, NoLaunch


def read_text(source: str, context: Context) -> tuple[ContainerLaunch, ...]:
    """Each engine of the file. Raises BadCompose, NoLaunch, UnknownVariable, UnknownDirectory, CliRejects."""
    document = load(source)
    project = Project(document, context)
    services = document["services"]
    engines = {name: _mapping(name, service) for name, service in services.items() if _serves(service)}
    if len(engines) > MOST_LAUNCHES:
        raise NoLaunch(why=f"it has more than {MOST_LAUNCHES} services that serve a model")
    if not engines:
        raise NoLaunch(why=_nothing(document))
    return tuple(launch(str(name), service, project) for name, service in engines.items())


def _serves(service: Any) -> bool:
    return isinstance(service, Mapping) and is_engine(service)


def _mapping(name: Any, service: Any) -> Mapping[str, Any]:
    if not isinstance(service, Mapping):
        raise BadCompose(where=f"service {name}", why="a map is expected", how="write image: below it")
    return service


def _nothing(document: Mapping[str, Any]) -> str:
    names = ", ".join(str(name) for name in document["services"])
    included = document.get("include")
    files = [item if isinstance(item, str) else str(item) for item in included] if isinstance(included, list) else []
    more = f"; it includes {', '.join(files)}: convert those files" if files else ""
    return f"no service of the file serves a model ({names}){more}"
