"""A recipe, its profiles, the site and this host's facts become a plan. Pure: the same inputs give the same plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from agent.engines.model import EngineLaunch
from agent.launch.model import CommandLaunch
from agent.plan import gaps, gpu_body, origins
from agent.plan.advice.advise import advise
from agent.plan.body import Made, Site, made, on_ports, published
from agent.plan.claims import claims_of
from agent.plan.draft import Draft, draft, is_argv, known, variables_in, words_of
from agent.plan.engine import Stated, demand_of, disagreements, engine_in
from agent.plan.fingerprint import Deciding, plan_id
from agent.plan.gpus import Choice, choose
from agent.plan.image import for_cards, image_plan
from agent.plan.image import gaps as image_gaps
from agent.plan.inputs import Inputs
from agent.plan.model import Acceptance, ContainerPlan, ImagePlan, Missing, Plan, RecipeRef, Requirement
from agent.plan.mounts import roots_of
from agent.plan.policy import Asked, check
from agent.plan.requirements import requirements_of
from agent.plan.runtime import DOCKER, env_of, process_body, runtime_of
from agent.plan.secrets import is_secret, mask
from agent.plan.trouble import SecretSet
from agent.plan.unapplied import Launched, quotes_of, unapplied
from agent.plan.watching import overrides
from agent.plan.windows import derive
from agent.profile.document import Profile
from agent.profile.fact import value_of
from agent.profile.layers import OWN, SETS, SHIPPED, SITE, from_sets, layered, validate
from agent.recipe.environment import stated_environment
from agent.recipe.model import SITE_FORMAT, Recipe

_COMMANDS = ("run", "pip", "extension")
"""Kinds of build steps that run what a recipe's sources bring."""


@dataclass(frozen=True, slots=True)
class _Stage:
    """What is known before cards are chosen."""

    profile: Profile
    drafted: Draft
    runtime: str
    why: str
    site: Site
    made: Made
    variables: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Run:
    """What will run, and the cards it runs on."""

    made: Made
    engine: EngineLaunch | None
    needs: tuple[Requirement, ...]
    choice: Choice
    image: ImagePlan | None
    image_why: str
    warnings: tuple[str, ...]


def compile_plan(inputs: Inputs) -> Plan:
    """The plan. Raises BadSet, LaunchRefused, PolicyRefused, UnfitGpus, NotMeant, NoProcess, InvalidInput."""
    stage = _stage(inputs)
    run = _run(inputs, stage)
    roots = roots_of(inputs.settings.policy.mount_roots, _values(inputs, stage.profile))
    _check_policy(inputs, run, roots)
    claims = claims_of(inputs.recipe, stage.profile.claims)
    watch = derive(run.engine, claims, overrides(stage.profile, inputs.settings), inputs.learned)
    places, unknown = gaps.of_secrets(run.made.body, stage.profile, inputs.settings)
    plan = Plan(
        plan_id="",
        recipe=_reference(inputs),
        runtime=stage.runtime,
        engine=run.engine,
        image=run.image,
        container=_container(inputs, run),
        requirements=run.needs,
        watch=watch,
        claims=claims,
        missing=_missing(stage, run, unknown),
        unapplied=_unapplied(inputs, stage, run),
        warnings=(),
        origins=_origins(inputs, stage, run),
        gpus=run.choice.uuids,
        title=inputs.recipe.title,
        acceptance=_acceptance(stage.profile),
        expendable=stage.profile.expendable is not None and stage.profile.expendable.value,
        argv=tuple(run.made.body.get("Cmd") or ()) if stage.runtime != DOCKER else (),
        mount_roots=roots,
        secrets=places,
    )
    plan = replace(plan, plan_id=_identity(inputs, stage, run))
    return replace(plan, warnings=tuple(dict.fromkeys(map(mask, _warnings(inputs, stage, run, plan)))))


def image_references(inputs: Inputs) -> tuple[str, ...]:
    """The references that `Inputs.images` should answer for, so that a plan can say what is here already."""
    body = _stage(inputs).made.body
    return (str(body["Image"]),) if body.get("Image") else ()


def profile_of(inputs: Inputs) -> Profile:
    """All layers of the profile. Raises BadSet, SecretSet."""
    for key in inputs.sets:
        name = key.removeprefix("variables.")
        if is_secret(name) and (key != name or name.isupper()):
            raise SecretSet(name=name)
    own = validate(inputs.recipe.stated, inputs.recipe.source) if inputs.recipe.stated else None
    layers = [(OWN, own), (SHIPPED, inputs.shipped), (SITE, inputs.site), (SETS, from_sets(inputs.sets))]
    return layered((name, profile) for name, profile in layers if profile is not None)


def _stage(inputs: Inputs) -> _Stage:
    profile = profile_of(inputs)
    author = known(inputs.settings, profile)
    drafted = draft(inputs.recipe, profile, author.context)
    runtime, why = runtime_of(drafted.launch, profile, inputs.settings, inputs.runtimes)
    site = Site(inputs.recipe.slug, profile, inputs.settings, author.context)
    return _Stage(profile, drafted, runtime, why, site, made(drafted, runtime, site), author.origins)


def _run(inputs: Inputs, stage: _Stage) -> _Run:
    body, profile = stage.made.body, stage.profile
    local = (inputs.images or {}).get(str(body.get("Image"))) if body else None
    stated = Stated(profile, inputs.recipe.engine)
    engine = engine_in(body or _command(stage.drafted), local, stated)
    needs = requirements_of(inputs.recipe, profile, engine)
    demand = demand_of(engine, _asked(stage), profile, inputs.settings, needs)
    choice = choose(inputs.recipe.slug, demand, inputs.gpus, needs)
    chosen, changed = gpu_body.in_body(body, choice) if stage.runtime == DOCKER else _on_cards(body, choice)
    placed = on_ports(replace(stage.made, body=chosen), stage.runtime, engine.port if engine else None, profile)
    engine = engine if stage.runtime == DOCKER else engine_in(placed.body, None, stated)
    image, why = _image(inputs, profile, body, choice)
    return _Run(placed, engine, needs, choice, image, why, (*choice.warnings, *changed))


def _command(drafted: Draft) -> dict[str, Any]:
    """A bare command that has no container yet, since no image is known for it."""
    return process_body(drafted.launch) if isinstance(drafted.launch, CommandLaunch) else {}


def _asked(stage: _Stage) -> int | None:
    """The number of cards that the launch itself names; 0 where it is a container that asks for none."""
    if stage.runtime != DOCKER or not stage.made.body:
        return None
    return gpu_body.asked_count(stage.made.body) if gpu_body.asks(stage.made.body) else 0


def _on_cards(body: dict[str, Any], choice: Choice) -> tuple[dict[str, Any], tuple[str, ...]]:
    """A process sees all cards of the host unless its environment names some."""
    if not body or not choice.ids or choice.whole:
        return body, ()
    env = [word for word in body.get("Env") or () if not word.startswith(f"{gpu_body.CUDA}=")]
    return {**body, "Env": [*env, f"{gpu_body.CUDA}={','.join(choice.ids)}"]}, ()


def _image(inputs: Inputs, profile: Profile, body: Mapping[str, Any], choice: Choice) -> tuple[ImagePlan | None, str]:
    reference = body.get("Image")
    if not reference:
        return None, ""
    return image_plan(str(reference), for_cards(profile.image, choice.archs), inputs.settings, inputs.images)


def _check_policy(inputs: Inputs, run: _Run, roots: tuple[str, ...]) -> None:
    image, images, commands = run.image, [], []
    if image is not None and image.how == "pull":
        images = [image.reference]
    if image is not None and image.how == "build":
        images = [image.base] if image.base else []
        commands = [kind for step in image.steps for kind in step if kind in _COMMANDS]
    check(inputs.recipe.slug, Asked(run.made.body, images, commands), inputs.settings.policy, roots)


def _values(inputs: Inputs, profile: Profile) -> dict[str, str]:
    stated = {name: fact.value for name, fact in profile.variables.items()}
    return {**inputs.settings.variables, **stated}


def _reference(inputs: Inputs) -> RecipeRef:
    recipe = inputs.recipe
    revision = recipe.revision
    return RecipeRef(recipe.slug, revision.number, revision.content_hash, recipe.sha256, recipe.source)


def _container(inputs: Inputs, run: _Run) -> ContainerPlan | None:
    if not run.made.body:
        return None
    return ContainerPlan(run.made.name or inputs.recipe.slug, run.made.platform, run.made.body)


def _missing(stage: _Stage, run: _Run, secrets: list[Missing]) -> tuple[Missing, ...]:
    found = [*stage.drafted.missing, *run.made.missing, *run.choice.missing, *gaps.of_engine(run.engine)]
    if run.image is not None and run.image.how == "build":
        found.extend(image_gaps(stage.profile))
    declared = gaps.still_missing([*found, *secrets], stage.profile, run.image)
    return (*declared, *gaps.of_hosts(stage.profile))


def _unapplied(inputs: Inputs, stage: _Stage, run: _Run) -> Any:
    return unapplied(inputs.recipe, stage.profile, _launched(inputs.recipe, stage), env_of(run.made.body))


def _launched(recipe: Recipe, stage: _Stage) -> Launched:
    drafted = stage.drafted
    if drafted.launch is None or stage.profile.launch.line:
        return Launched()
    if is_argv(recipe.launch) or recipe.format != SITE_FORMAT:
        return Launched(recipe.launch_places)
    exports = tuple(step.text for step in drafted.steps if step.facts.get("exported"))
    return Launched(texts=(drafted.launch.text, *exports))


def _acceptance(profile: Profile) -> Acceptance:
    stated = profile.acceptance
    return Acceptance(value_of(stated.stream_tokens), value_of(stated.log_lines) or (), value_of(stated.counters) or ())


def _origins(inputs: Inputs, stage: _Stage, run: _Run) -> dict[str, str]:
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


def _identity(inputs: Inputs, stage: _Stage, run: _Run) -> str:
    settings = inputs.settings
    container = {"name": run.made.name, "platform": run.made.platform, "body": run.made.body} if run.made.body else None
    site = {"gpus": settings.gpus, "image": settings.image, "budget": settings.budget.model_dump(mode="json")}
    steps = run.image.steps if run.image is not None else ()
    return plan_id(Deciding(inputs.recipe, stage.profile, stage.runtime, run.choice.uuids, container, steps, site))


def _warnings(inputs: Inputs, stage: _Stage, run: _Run, plan: Plan) -> Iterator[str]:
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
    if run.made.body and stage.runtime == DOCKER and run.engine and not published(run.made.body, run.engine.port):
        yield f"no port of this host leads to the engine's {run.engine.port}: --set port=N publishes it"
    yield from map(str, advise(plan, stage.profile))


def _environment(inputs: Inputs, run: _Run) -> Iterator[str]:
    """Variables that the document lists beside the launch and that the launch does not set so."""
    env = env_of(run.made.body)
    for name, value in stated_environment(inputs.recipe).items():
        if run.made.body and env.get(name) != value:
            how = f"the launch sets {env[name]!r}" if name in env else "the launch does not set it"
            yield f"config.runtime.env lists {name}={value} and {how}: --set env.{name}={value} would"
