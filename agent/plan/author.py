"""The author's machine: what a launch takes from it, what the site says instead, and what nobody knows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from agent.launch.model import CommandLaunch, ContainerLaunch, Context
from agent.launch.refusal import FileUnread, LaunchRefused, UnknownDirectory, UnknownSubstitution, UnknownVariable
from agent.plan.model import Missing
from agent.plan.secrets import hidden_variables, is_secret
from agent.profile.document import Profile
from agent.settings.model import Settings

T = TypeVar("T")

ROUNDS = 12
"""Variables, then substitutions, then a directory, then each of a few files may be found to be missing."""
_STAND_IN = "/missing-variable/"
_VARIABLE = re.compile(r"\$\{?([A-Za-z_][A-Za-z0-9_]*)")


@dataclass(frozen=True, slots=True)
class Known:
    """What stands for the author's machine: variables with their origins, and what commands would print."""

    context: Context
    origins: Mapping[str, str] = field(default_factory=dict)


def known(settings: Settings, profile: Profile) -> Known:
    """The site's variables under the profile's and the command line's; secrets only by their names."""
    stated = {name: fact.value for name, fact in profile.variables.items()}
    values = {**settings.variables, **stated}
    origins = {name: f"agent.yaml variables.{name}" for name in settings.variables}
    origins |= {name: fact.origin(f"variables.{name}") for name, fact in profile.variables.items()}
    secrets = {**settings.secrets, **profile.secrets}
    substitutions = {command: fact.value for command, fact in profile.substitutions.items()}
    files = {name: fact.value for name, fact in profile.files.items()}
    context = Context(hidden_variables(values, secrets), substitutions, values.get("PWD"), files)
    return Known(context, origins)


def reading(read: Callable[[Context], T], context: Context) -> tuple[T | None, tuple[Missing, ...]]:
    """What `read` makes of the launch, with every unknown name listed and standing for itself in the result.

    None where a name cannot stand for itself (a port must be a number): what is missing comes first. Raises
    LaunchRefused for a launch of which nothing is missing.
    """
    missing: dict[str, Missing] = {}
    for _ in range(ROUNDS):
        try:
            return _shown(read(context)), tuple(missing.values())
        except UnknownVariable as error:
            found = [_secret(name) if is_secret(name) else _variable(name) for name in error.details["missing"]]
            names = {name: f"{_STAND_IN}{name}" for name in error.details["missing"]}
            context = replace(context, variables={**context.variables, **names})
        except UnknownSubstitution as error:
            found = [_substitution(command) for command in error.details["missing"]]
            prints = {command: f"{_STAND_IN}({command})" for command in error.details["missing"]}
            context = replace(context, substitutions={**context.substitutions, **prints})
        except UnknownDirectory as error:
            found = [_variable("PWD", f"{error.details['word']} is relative to a folder that the recipe does not name")]
            context = replace(context, cwd=f"{_STAND_IN}PWD")
        except FileUnread as error:
            found = [_file(error.details["path"], error.details["flag"])]
            context = replace(context, env_files={**context.env_files, error.details["path"]: ""})
        except LaunchRefused:
            if not missing:
                raise
            break
        missing |= {entry.key: entry for entry in found}
    return None, tuple(missing.values())


def variables_in(texts: Sequence[str]) -> tuple[str, ...]:
    """The names that a launch takes from its author's machine."""
    return tuple(dict.fromkeys(name for text in texts for name in _VARIABLE.findall(text)))


def words_of(profile: Profile) -> Iterator[str]:
    """Every word that a profile adds to a launch."""
    for part in (*profile.launch.line, *profile.launch.docker, *profile.launch.arguments):
        yield from part.argv


def _variable(name: str, why: str = "") -> Missing:
    how = f"variables: {{{name}: …}} in agent.yaml, or --set variables.{name}=…"
    return Missing(f"variables.{name}", why or f"the launch uses ${name}", how)


def _file(path: str, flag: str) -> Missing:
    how = f"state its text in the site profile: files: {{{path}: …}}"
    return Missing(f"files.{path}", f"the launch reads {path} ({flag}), a file of its author's", how)


def _secret(name: str) -> Missing:
    return Missing(f"secrets.{name}", f"the launch uses ${name}", f"secrets: {{{name}: /path/of/a/file}} in agent.yaml")


def _substitution(command: str) -> Missing:
    if command == "pwd":
        return _variable("PWD", "the launch uses $(pwd), the folder that its author was in")
    how = f"--set 'substitutions.{command}=…'; nothing is run to find out"
    return Missing(f"substitutions.{command}", f"the launch uses what $({command}) prints on its author's machine", how)


def _shown(value: T) -> T:
    """Stand-ins as what they stand for: `$GRAFT`, `$(id -u)`."""
    shown: T = replace_texts(value, _named)
    return shown


def _named(text: str) -> str:
    return text.replace(f"{_STAND_IN}(", "$(").replace(_STAND_IN, "$") if _STAND_IN in text else text


def replace_texts(value: Any, change: Callable[[str], str]) -> Any:
    """The same value with every text in it changed; dataclasses, tuples, lists and mappings are walked."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {key: replace_texts(item, change) for key, item in value.items()}
    if isinstance(value, list):
        return [replace_texts(item, change) for item in value]
    if isinstance(value, tuple):
        return tuple(replace_texts(item, change) for item in value)
    if isinstance(value, ContainerLaunch):
        return replace(value, body=replace_texts(value.body, change), name=value.name and change(value.name))
    if isinstance(value, CommandLaunch):
        env = {name: change(text) for name, text in value.env.items()}
        return replace(value, argv=replace_texts(value.argv, change), env=env, cwd=value.cwd and change(value.cwd))
    return value
