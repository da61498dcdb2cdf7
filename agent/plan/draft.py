"""The published launch, read with what the site knows; what it does not know is listed, never guessed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from agent.engines.model import Command
from agent.engines.registry import engine_of
from agent.launch.model import CommandLaunch, ContainerLaunch, Context, Piece, SetupStep, StepKind
from agent.launch.read import read_argv, read_compose, read_shell
from agent.launch.refusal import FileUnread, NoLaunch, UnknownDirectory, UnknownSubstitution, UnknownVariable
from agent.plan.model import Missing
from agent.plan.secrets import hidden_variables, is_secret
from agent.profile.document import Profile
from agent.recipe.model import Recipe
from agent.settings.model import Settings

T = TypeVar("T")
Launch = ContainerLaunch | CommandLaunch

ROUNDS = 12
"""Variables, then substitutions, then a directory, then each of a few files may be found to be missing."""
_STAND_IN = "/missing-variable/"
_VARIABLE = re.compile(r"\$\{?([A-Za-z_][A-Za-z0-9_]*)")


@dataclass(frozen=True, slots=True)
class Draft:
    """A launch as far as it can be read. `launch` None: there is none; `origin` says whose word it is."""

    launch: Launch | None
    origin: str
    steps: tuple[SetupStep, ...] = ()
    missing: tuple[Missing, ...] = ()
    warnings: tuple[str, ...] = ()


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


def draft(recipe: Recipe, profile: Profile, context: Context) -> Draft:
    """The profile's own line where it has one, else the recipe's launch. Raises LaunchRefused."""
    if profile.launch.line:
        words = tuple(word for part in profile.launch.line for word in part.argv)
        launch, missing = reading(lambda known: read_argv(words, known), context)
        return _drafted(launch, "launch.line", missing)
    if not recipe.launch:
        return Draft(None, "", missing=(_no_launch(f"{recipe.source} states none"),))
    if is_argv(recipe.launch):
        launch, missing = reading(lambda known: read_argv(recipe.launch, known), context)
        return _drafted(launch, _place(recipe), missing)
    text, read = "\n".join(recipe.launch), read_shell
    if recipe.format == "compose":
        context, read = _beside(recipe, context), _services
    try:
        pieces, missing = reading(lambda known: read(text, known), context)
    except NoLaunch as error:
        return Draft(None, _place(recipe), missing=(_no_launch(str(error.details.get("why", error))),))
    wanted = profile.launch.service.value if profile.launch.service else None
    return replace(_one_of(pieces or (), missing, wanted), origin=_place(recipe))


def _place(recipe: Recipe) -> str:
    """The field that the launch stands in; a file that is nothing else has none."""
    return f"recipe {recipe.launch_places[0]}" if recipe.launch_places else f"the {recipe.format} file"


def _services(text: str, context: Context) -> tuple[Piece, ...]:
    return read_compose(text, context)


def _beside(recipe: Recipe, context: Context) -> Context:
    """A compose file's relative paths are meant from the folder that it lies in."""
    folder = recipe.source.rpartition("/")[0]
    return replace(context, cwd=folder) if context.cwd is None and folder.startswith("/") else context


def is_argv(launch: Sequence[str]) -> bool:
    """Whether a launch is published as one command's words; else its entries are lines of shell and prose."""
    return len(launch) > 1 and not re.search(r"\s", launch[0]) and not launch[0].startswith("#")


def reading(read: Callable[[Context], T], context: Context) -> tuple[T | None, tuple[Missing, ...]]:
    """What `read` makes of the launch, with every unknown name listed and standing for itself in the result."""
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
        missing |= {entry.key: entry for entry in found}
    return None, tuple(missing.values())


def variables_in(texts: Sequence[str]) -> tuple[str, ...]:
    """The names that a launch takes from its author's machine."""
    return tuple(dict.fromkeys(name for text in texts for name in _VARIABLE.findall(text)))


def _drafted(launch: Launch | None, origin: str, missing: tuple[Missing, ...]) -> Draft:
    warnings = tuple(str(warning) for warning in launch.warnings) if launch else ()
    return Draft(launch, origin, (), missing, warnings)


def _one_of(pieces: Sequence[Piece], missing: tuple[Missing, ...], wanted: str | None) -> Draft:
    """The one launch among shell lines or services; of several, the named one, else the one that starts an engine."""
    steps = tuple(piece for piece in pieces if isinstance(piece, SetupStep))
    launches = [piece for piece in pieces if not isinstance(piece, SetupStep)]
    named = [launch for launch in launches if wanted is not None and _name(launch) == wanted]
    chosen = named or [launch for launch in launches if starts_engine(launch)] or launches
    if len(chosen) == 1:
        launch = _with_exports(chosen[0], pieces)
        return replace(_drafted(launch, "", missing), steps=steps)
    if not chosen:
        nothing = _no_launch("its lines prepare things and start no engine")
        return Draft(None, "", steps, (*missing, nothing))
    return Draft(None, "", steps, (*missing, _which(chosen)))


def _name(launch: Launch) -> str | None:
    return launch.name if isinstance(launch, ContainerLaunch) else launch.argv[0]


def _which(launches: Sequence[Launch]) -> Missing:
    """Several launches: the operator says which."""
    names = list(dict.fromkeys(name for launch in launches if (name := _name(launch))))
    why = f"the recipe holds {len(launches)} launches" + (f": {', '.join(names)}" if names else "")
    if len(names) == len(launches):
        return Missing("launch.service", why, f"--set launch.service={names[0]} (or another)")
    return Missing("launch.line", why, "state the one that is meant in launch.line of the site profile")


def _with_exports(launch: Launch, pieces: Sequence[Piece]) -> Launch:
    """A bare command with what the lines before it exported; a container sees nothing of the shell's variables."""
    if isinstance(launch, ContainerLaunch):
        return launch
    exported: dict[str, str] = {}
    for piece in pieces[: list(pieces).index(launch)]:
        if isinstance(piece, SetupStep) and piece.kind is StepKind.EXPORT and piece.facts.get("exported"):
            exported |= piece.facts["variables"]
    return replace(launch, env={**exported, **launch.env})


def starts_engine(launch: Launch) -> bool:
    """Whether a known engine is what the launch starts."""
    if isinstance(launch, CommandLaunch):
        return engine_of(Command(launch.argv, launch.env)) is not None
    body = launch.body
    words = (*(body.get("Entrypoint") or ()), *(body.get("Cmd") or ()))
    return engine_of(Command(tuple(words), {}, body.get("Image"))) is not None


def _no_launch(why: str) -> Missing:
    return Missing(
        "launch.line",
        f"the recipe has no launch: {why}",
        "state launch.line in the site profile: the command, or the whole docker run line, as a list of words",
    )


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


def words_of(profile: Profile) -> Iterator[str]:
    """Every word that a profile adds to a launch."""
    for part in (*profile.launch.line, *profile.launch.docker, *profile.launch.arguments):
        yield from part.argv
