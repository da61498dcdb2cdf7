"""What a plan tells beside what it does: whose word each value is, what to mind, and what nothing acts on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import get_close_matches

from agent.plan import origins
from agent.plan.advice.advise import advise
from agent.plan.author import variables_in, words_of
from agent.plan.body import published
from agent.plan.draft import is_argv
from agent.plan.engine import disagreements
from agent.plan.inputs import Inputs
from agent.plan.model import Plan, Unapplied
from agent.plan.runtime import DOCKER, env_of
from agent.plan.stages import Run, Stage
from agent.plan.unapplied import Launched, quotes_of, unapplied
from agent.profile.document import Profile
from agent.recipe.environment import stated_environment
from agent.recipe.model import SITE_FORMAT, Recipe

_VARIABLE = re.compile(r"variables\..+|[A-Z_][A-Z0-9_]*")


def left_out(inputs: Inputs, stage: Stage, run: Run) -> tuple[Unapplied, ...]:
    """The statements of the document that nothing acts on."""
    return unapplied(inputs.recipe, stage.profile, _launched(inputs.recipe, stage), env_of(run.made.body))


def _launched(recipe: Recipe, stage: Stage) -> Launched:
    drafted = stage.drafted
    if drafted.launch is None or stage.profile.launch.line:
        return Launched()
    if is_argv(recipe.launch) or recipe.format != SITE_FORMAT:
        return Launched(recipe.launch_places)
    exports = tuple(step.text for step in drafted.steps if step.facts.get("exported"))
    return Launched(texts=(drafted.launch.text, *exports))


def origins_of(inputs: Inputs, stage: Stage, run: Run) -> dict[str, str]:
    """Whose word each value is: the profile's facts, the variables that are used, and what was decided here."""
    used = variables_in([*inputs.recipe.launch, *words_of(stage.profile)])
    found = {f"variables.{name}": stage.variables[name] for name in used if name in stage.variables}
    found |= origins.of_profile(stage.profile)
    found["runtime"] = stage.why
    if stage.drafted.origin:
        found["launch"] = stage.drafted.origin
    if run.image is not None:
        found["image.how"] = run.image_why
    return dict(sorted(found.items()))


def warnings_of(inputs: Inputs, stage: Stage, run: Run, plan: Plan) -> Iterator[str]:
    """What a person should read before saying yes, the recipe's own matters first and advice last."""
    yield from _slips(inputs)
    yield from inputs.notes
    yield from inputs.recipe.notes
    yield from origins.stale(inputs.recipe, stage.profile, quotes_of(stage.profile))
    yield from (note.text for note in stage.profile.notes)
    yield from stage.drafted.warnings
    yield from run.made.warnings
    yield from run.warnings
    yield from disagreements(run.engine if run.made.body else None, stage.profile)
    yield from _environment(inputs, run)
    yield from plan.watch.warnings
    if run.made.body and stage.runtime != DOCKER and stage.profile.image.steps:
        yield "the recipe's image is built, and a process has none: it runs what is installed on this host, unpatched"
    if run.made.body and stage.runtime == DOCKER and run.engine and not published(run.made.body, run.engine.port):
        yield f"no port of this host leads to the engine's {run.engine.port}: --set port=N publishes it"
    yield from map(str, advise(plan, stage.profile))


def _slips(inputs: Inputs) -> Iterator[str]:
    """Variables of the command line that the launch does not know; those of a site file are for all recipes."""
    texts = [*inputs.recipe.launch, *(word for profile in _profiles(inputs) for word in words_of(profile))]
    used = variables_in(texts)
    for key in inputs.sets:
        name = key.removeprefix("variables.")
        if _VARIABLE.fullmatch(key) and not any(name in text for text in texts):
            near = get_close_matches(name, used, 1)
            yield f"{key} is set, and the launch uses no {name}" + (f": did you mean {near[0]}?" if near else "")


def _profiles(inputs: Inputs) -> Iterator[Profile]:
    yield from (profile for profile in (inputs.shipped, inputs.site) if profile is not None)


def _environment(inputs: Inputs, run: Run) -> Iterator[str]:
    """Variables that the document lists beside the launch and that the launch does not set so."""
    env = env_of(run.made.body)
    for name, value in stated_environment(inputs.recipe).items():
        if run.made.body and env.get(name) != value:
            how = f"the launch sets {env[name]!r}" if name in env else "the launch does not set it"
            yield f"config.runtime.env lists {name}={value} and {how}: --set env.{name}={value} would"
