"""A plan as `agentctl plan -o json` prints it and as it is stored; and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from agent.engines.model import EngineKind, EngineLaunch, Task
from agent.errors import InvalidInput
from agent.plan.model import (
    Acceptance,
    ActiveParameters,
    Claim,
    ContainerPlan,
    ImagePlan,
    Missing,
    Plan,
    RecipeRef,
    Requirement,
    Unapplied,
)
from agent.plan.watch import Span, Watch
from agent.quantity import Bytes


class BadPlan(InvalidInput):
    """A stored plan that this version cannot read."""

    code = "plan.stored"
    message = "cannot read the stored plan: {why}"
    hint = "it was written by another version, or changed by hand: deploy the recipe again"


def to_json(plan: Plan) -> dict[str, Any]:
    """Every key of the contract, and beside them what a stored plan needs to be read back whole."""
    return {
        "plan_id": plan.plan_id,
        "title": plan.title,
        "recipe": asdict(plan.recipe),
        "runtime": plan.runtime,
        "engine": _engine_json(plan.engine),
        "image": None if plan.image is None else asdict(plan.image) | {"steps": [dict(s) for s in plan.image.steps]},
        "container": None if plan.container is None else asdict(plan.container),
        "argv": list(plan.argv),
        "gpus": list(plan.gpus),
        "requirements": [_requirement_json(need) for need in plan.requirements],
        "watch": plan.watch.to_json(),
        "watch_derived": plan.watch.derived,
        "watch_warnings": list(plan.watch.warnings),
        "claims": [asdict(claim) for claim in plan.claims],
        "missing": [asdict(entry) for entry in plan.missing],
        "unapplied": [{"text": one.text, "why": one.why, "where": one.where} for one in plan.unapplied],
        "warnings": list(plan.warnings),
        "origins": dict(plan.origins),
        "acceptance": {key: list(v) if isinstance(v, tuple) else v for key, v in asdict(plan.acceptance).items()},
        "expendable": plan.expendable,
        "mount_roots": list(plan.mount_roots),
        "secrets": dict(plan.secrets),
        "active_parameters": None if plan.active_parameters is None else asdict(plan.active_parameters),
    }


def _engine_json(engine: EngineLaunch | None) -> dict[str, Any]:
    """All fields null where no engine is known: a reader finds `engine.kind` in every plan."""
    if engine is None:
        return {field.name: None for field in fields(EngineLaunch)}
    return asdict(engine) | {"kind": engine.kind.value, "task": engine.task.value}


def _requirement_json(need: Requirement) -> dict[str, Any]:
    """Sizes as plain bytes, with the words that people read beside them."""
    size = isinstance(need.need, Bytes)
    shown = {"shown": str(need.need)} if size else {}
    return {
        "id": need.id,
        "need": int(need.need) if size else need.need,
        "origin": need.origin,
        **shown,
        "words": need.words,
    }


def plan_from_json(value: Mapping[str, Any]) -> Plan:
    """The plan that `to_json` wrote. Raises BadPlan; keys that this version does not know are left out."""
    try:
        return _plan(value)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BadPlan(why=f"{type(error).__name__}: {error}") from error


def _plan(value: Mapping[str, Any]) -> Plan:
    image, container = value["image"], value["container"]
    return Plan(
        plan_id=value["plan_id"],
        recipe=RecipeRef(**_known(RecipeRef, value["recipe"])),
        runtime=value["runtime"],
        engine=_engine(value["engine"]),
        image=ImagePlan(**_known(ImagePlan, image) | {"steps": tuple(image["steps"])}) if image else None,
        container=ContainerPlan(**_known(ContainerPlan, container)) if container else None,
        requirements=tuple(_requirement(need) for need in value["requirements"]),
        watch=_watch(value),
        claims=tuple(Claim(**_known(Claim, claim)) for claim in value["claims"]),
        missing=tuple(Missing(**_known(Missing, entry)) for entry in value["missing"]),
        unapplied=tuple(Unapplied(**_known(Unapplied, entry)) for entry in value["unapplied"]),
        warnings=tuple(value["warnings"]),
        origins=value["origins"],
        gpus=tuple(value["gpus"]),
        title=value["title"],
        acceptance=_acceptance(value["acceptance"]),
        expendable=value["expendable"],
        argv=tuple(value["argv"]),
        mount_roots=tuple(value["mount_roots"]),
        secrets=value["secrets"],
        active_parameters=_active(value.get("active_parameters")),
    )


def _known(kind: type, value: Mapping[str, Any]) -> dict[str, Any]:
    names = {field.name for field in fields(kind)}
    return {key: item for key, item in value.items() if key in names}


def _engine(value: Mapping[str, Any]) -> EngineLaunch | None:
    if value["kind"] is None:
        return None
    named = _known(EngineLaunch, value) | {"kind": EngineKind(value["kind"]), "task": Task(value["task"])}
    return EngineLaunch(**named)


def _requirement(value: Mapping[str, Any]) -> Requirement:
    need = Bytes(value["need"]) if "shown" in value else value["need"]
    return Requirement(value["id"], need, value["origin"], value["words"])


def _watch(value: Mapping[str, Any]) -> Watch:
    windows = value["watch"]
    names = {field.name for field in fields(Watch)} - {"backoff", "budget", "derived", "warnings"}
    spans = {name: Span(windows[name]["seconds"], windows[name]["how"]) for name in names if name in windows}
    return Watch(
        **spans,
        backoff=tuple(windows["backoff"]["steps"]),
        budget=windows["budget"]["restarts"],
        derived=value["watch_derived"],
        warnings=tuple(value["watch_warnings"]),
    )


def _active(value: Mapping[str, Any] | None) -> ActiveParameters | None:
    """Plans of earlier versions have none."""
    return None if value is None else ActiveParameters(**_known(ActiveParameters, value))


def _acceptance(value: Mapping[str, Any]) -> Acceptance:
    return Acceptance(value["stream_tokens"], tuple(value["log_lines"]), tuple(value["counters"]))
