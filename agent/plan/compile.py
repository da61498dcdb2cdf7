"""A recipe, its profiles, the site and this host's facts become a plan. Pure: the same inputs give the same plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from agent.launch.model import CommandLaunch
from agent.launch.refusal import LaunchRefused
from agent.plan import gaps, gpu_body
from agent.plan.active import active_of
from agent.plan.author import known
from agent.plan.body import Site, made, on_ports
from agent.plan.claims import claims_of
from agent.plan.draft import Draft, draft
from agent.plan.engine import Stated, demand_of, engine_in
from agent.plan.fingerprint import Deciding, plan_id
from agent.plan.gpus import Choice, choose
from agent.plan.hide import mask, masked
from agent.plan.image import for_cards, image_plan
from agent.plan.image import gaps as image_gaps
from agent.plan.inputs import Inputs
from agent.plan.model import Acceptance, ContainerPlan, ImagePlan, Missing, Plan, RecipeRef
from agent.plan.mounts import is_socket, mounts_of, roots_of
from agent.plan.policy import Asked, check
from agent.plan.requirements import requirements_of
from agent.plan.runtime import DOCKER, process_body, runtime_of
from agent.plan.secrets import PREFIX, is_secret
from agent.plan.stages import Run, Stage
from agent.plan.told import left_out, origins_of, warnings_of
from agent.plan.trouble import SecretSet
from agent.plan.watching import overrides
from agent.plan.windows import derive
from agent.profile.document import Profile
from agent.profile.fact import value_of
from agent.profile.layers import OWN, SETS, SHIPPED, SITE, from_sets, layered, validate
from agent.profile.steps import Image

_COMMANDS = ("run", "pip", "extension")
"""Kinds of build steps that run what a recipe's sources bring."""


def compile_plan(inputs: Inputs) -> Plan:
    """The plan. Raises BadSet, LaunchRefused, PolicyRefused, UnfitGpus, NotMeant, NoProcess, InvalidInput."""
    try:
        stage = _stage(inputs)
        run = _run(inputs, stage)
    except LaunchRefused as error:
        raise masked(error) from None  # the cause cites the same words
    roots = roots_of(inputs.settings.policy.mount_roots, _values(inputs, stage.profile))
    _check_policy(inputs, run, roots)
    claims = tuple(replace(one, note=mask(one.note)) for one in claims_of(inputs.recipe, stage.profile.claims))
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
        unapplied=left_out(inputs, stage, run),
        warnings=(),
        origins=origins_of(inputs, stage, run),
        gpus=run.choice.uuids,
        title=mask(inputs.recipe.title),
        acceptance=_acceptance(stage.profile),
        expendable=stage.profile.expendable is not None and stage.profile.expendable.value,
        argv=tuple(run.made.body.get("Cmd") or ()) if stage.runtime != DOCKER else (),
        mount_roots=(*roots, *_sockets(inputs, run)),
        secrets=places,
        active_parameters=active_of(stage.profile, run.engine),
    )
    plan = replace(plan, plan_id=_identity(inputs, stage, run))
    return replace(plan, warnings=tuple(dict.fromkeys(map(mask, warnings_of(inputs, stage, run, plan)))))


def image_references(inputs: Inputs) -> tuple[str, ...]:
    """The references that `Inputs.images` should answer for, so that a plan can say what is here already."""
    body = _stage(inputs).made.body
    return (str(body["Image"]),) if body.get("Image") else ()


def profile_of(inputs: Inputs) -> Profile:
    """All layers of the profile. Raises BadSet, SecretSet."""
    for key, value in inputs.sets.items():
        section, _, name = key.rpartition(".")
        if section in ("", "variables", "env") and is_secret(name) and not value.startswith(PREFIX):
            raise SecretSet(name=name)
    own = validate(inputs.recipe.stated, inputs.recipe.source) if inputs.recipe.stated else None
    layers = [(OWN, own), (SHIPPED, inputs.shipped), (SITE, inputs.site), (SETS, from_sets(inputs.sets))]
    return layered((name, profile) for name, profile in layers if profile is not None)


def _stage(inputs: Inputs) -> Stage:
    profile = profile_of(inputs)
    author = known(inputs.settings, profile)
    drafted = draft(inputs.recipe, profile, author.context)
    runtime, why = runtime_of(drafted.launch, profile, inputs.settings, inputs.runtimes)
    site = Site(inputs.recipe.slug, profile, inputs.settings, author.context)
    return Stage(profile, drafted, runtime, why, site, made(drafted, runtime, site), author.origins)


def _run(inputs: Inputs, stage: Stage) -> Run:
    body, profile = stage.made.body, stage.profile
    local = (inputs.images or {}).get(str(body.get("Image"))) if body else None
    stated = Stated(profile, inputs.recipe.engine)
    engine = engine_in(body or _command(stage.drafted), local, stated)
    needs = requirements_of(inputs.recipe, profile, engine)
    demand = demand_of(engine, _asked(stage), profile, inputs.settings, needs)
    choice = choose(inputs.recipe.slug, demand, inputs.gpus, needs)
    chosen, changed = gpu_body.in_body(body, choice) if stage.runtime == DOCKER else _on_cards(body, choice)
    placed = on_ports(replace(stage.made, body=chosen), stage.runtime, engine.port if engine else None, profile)
    engine = engine_in(placed.body, local, stated) if placed.body else engine
    image, why = _image(inputs, profile, body, choice)
    return Run(placed, engine, needs, choice, image, why, (*choice.warnings, *changed))


def _command(drafted: Draft) -> dict[str, Any]:
    """A bare command that has no container yet, since no image is known for it."""
    return process_body(drafted.launch) if isinstance(drafted.launch, CommandLaunch) else {}


def _asked(stage: Stage) -> int | None:
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
    return image_plan(str(reference), _for_cards(profile, choice), inputs.settings, inputs.images)


def _for_cards(profile: Profile, choice: Choice) -> Image:
    return for_cards(profile.image, choice.archs, profile.requirements.compute_capability)


def _check_policy(inputs: Inputs, run: Run, roots: tuple[str, ...]) -> None:
    image, images, commands = run.image, [], []
    if image is not None and image.how == "pull":
        images = [image.reference]
    if image is not None and image.how == "build":
        images = [image.base] if image.base else []
        commands = [kind for step in image.steps for kind in step if kind in _COMMANDS]
    asked = Asked(run.made.body, images, commands, _engine_sockets(inputs))
    check(inputs.recipe.slug, asked, inputs.settings.policy, roots)


def _engine_sockets(inputs: Inputs) -> tuple[str, ...]:
    return (inputs.settings.docker.host.removeprefix("unix://"),)


def _sockets(inputs: Inputs, run: Run) -> tuple[str, ...]:
    """Sockets of a container engine that the launch mounts and the policy lets it."""
    own = _engine_sockets(inputs)
    return tuple(mount.source for mount in mounts_of(run.made.body) if is_socket(mount.source, own))


def _values(inputs: Inputs, profile: Profile) -> dict[str, str]:
    stated = {name: fact.value for name, fact in profile.variables.items()}
    return {**inputs.settings.variables, **stated}


def _reference(inputs: Inputs) -> RecipeRef:
    recipe = inputs.recipe
    revision = recipe.revision
    return RecipeRef(recipe.slug, revision.number, revision.content_hash, recipe.sha256, mask(recipe.source))


def _container(inputs: Inputs, run: Run) -> ContainerPlan | None:
    if not run.made.body:
        return None
    return ContainerPlan(run.made.name or inputs.recipe.slug, run.made.platform, run.made.body)


def _missing(stage: Stage, run: Run, secrets: list[Missing]) -> tuple[Missing, ...]:
    found = [*stage.drafted.missing, *run.made.missing, *run.choice.missing, *gaps.of_engine(run.engine, stage.drafted)]
    if run.image is not None and run.image.how == "build":
        found.extend(image_gaps(_for_cards(stage.profile, run.choice)))
    declared = gaps.still_missing([*found, *secrets], stage.profile, run.image)
    return (*declared, *gaps.of_hosts(stage.profile))


def _acceptance(profile: Profile) -> Acceptance:
    stated = profile.acceptance
    return Acceptance(value_of(stated.stream_tokens), value_of(stated.log_lines) or (), value_of(stated.counters) or ())


def _identity(inputs: Inputs, stage: Stage, run: Run) -> str:
    settings = inputs.settings
    container = {"name": run.made.name, "platform": run.made.platform, "body": run.made.body} if run.made.body else None
    budget = settings.budget.model_dump(mode="json", include={"restarts", "backoff_s"})
    site = {"gpus": settings.gpus, "image": settings.image, "budget": budget}
    steps = run.image.steps if run.image is not None else ()
    return plan_id(Deciding(inputs.recipe, stage.profile, stage.runtime, run.choice.uuids, container, steps, site))
