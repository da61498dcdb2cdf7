"""The published launch, read with what the site knows; what it does not know is listed, never guessed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from agent.engines.model import Command
from agent.engines.registry import engine_of
from agent.launch.model import CommandLaunch, ContainerLaunch, Context, Piece, SetupStep, StepKind
from agent.launch.read import read_argv, read_compose, read_shell
from agent.launch.refusal import NoLaunch
from agent.plan.author import reading
from agent.plan.model import Missing
from agent.profile.document import Profile
from agent.recipe.model import Recipe

Launch = ContainerLaunch | CommandLaunch


@dataclass(frozen=True, slots=True)
class Draft:
    """A launch as far as it can be read. `launch` None: there is none; `origin` says whose word it is."""

    launch: Launch | None
    origin: str
    steps: tuple[SetupStep, ...] = ()
    missing: tuple[Missing, ...] = ()
    warnings: tuple[str, ...] = ()


def draft(recipe: Recipe, profile: Profile, context: Context) -> Draft:
    """The profile's own line where it has one, else the recipe's launch. Raises LaunchRefused."""
    if profile.launch.line:
        words = tuple(word for part in profile.launch.line for word in part.argv)
        launch, missing = reading(lambda known: read_argv(words, known), context)
        return _drafted(launch, "launch.line", missing)
    if not recipe.launch:
        return Draft(None, "", missing=(_no_launch(f"{recipe.source} states none"),))
    try:
        return replace(_published(recipe, profile, context), origin=_place(recipe))
    except NoLaunch as error:
        return Draft(None, _place(recipe), missing=(_no_launch(str(error.details.get("why", error))),))


def _published(recipe: Recipe, profile: Profile, context: Context) -> Draft:
    """The recipe's own launch, in whichever form it has. Raises LaunchRefused."""
    if is_argv(recipe.launch):
        launch, missing = reading(lambda known: read_argv(recipe.launch, known), context)
        return _drafted(launch, "", missing)
    text, read = "\n".join(recipe.launch), read_shell
    if recipe.format == "compose":
        context, read = _beside(recipe, context), _services
    pieces, missing = reading(lambda known: read(text, known), context)
    if pieces is None:
        return Draft(None, "", missing=missing)
    wanted = profile.launch.service.value if profile.launch.service else None
    return _one_of(pieces, missing, wanted)


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
