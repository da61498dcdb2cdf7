"""An error ends a command with the same code whether it was raised here or answered by the agent."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

import agent
from agent.cli.main import exit_code_of
from agent.errors import AgentError

RAISED_BY_THE_CLIENT = {"deployment.given_up"}


def kinds(family: type[AgentError]) -> Iterator[type[AgentError]]:
    for kind in family.__subclasses__():
        yield kind
        yield from kinds(kind)


def test_the_code_alone_tells_the_exit_code_of_every_error() -> None:
    for module in pkgutil.walk_packages(agent.__path__, "agent."):
        if not module.name.endswith(("__main__", "process_stub")):
            importlib.import_module(module.name)
    found = {kind for kind in kinds(AgentError) if kind.code not in RAISED_BY_THE_CLIENT}
    assert len(found) > 20
    assert {kind.code: exit_code_of(kind.code) for kind in found} == {kind.code: kind.exit_code for kind in found}
