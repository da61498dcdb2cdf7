"""Records and operations as JSON and back. Unknown keys of a later version are an error, never dropped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from agent.action.operation import Operation
from agent.action.record import Deployment, Desired, Fault, Held, Reason, State, Supervision, Takedown, Wear, Wearing
from agent.errors import InvalidInput
from agent.verdict.model import Remedy


def record_to_json(record: Deployment) -> dict[str, Any]:
    """All fields; enums as their words."""
    return asdict(record)


def record_from_json(data: Mapping[str, Any]) -> Deployment:
    """Raises InvalidInput where a field is missing its form."""
    values = known(Deployment, data)
    try:
        values["desired"] = Desired(values["desired"])
        values["supervision"] = Supervision(values["supervision"])
        values["state"] = State(values["state"])
        values["fault"] = fault_from_json(values["fault"]) if values.get("fault") else None
        values["takedown"] = takedown_from_json(values["takedown"]) if values.get("takedown") else None
        values["wearing"] = wearing_from_json(values["wearing"]) if values.get("wearing") else None
        values["restarts"] = tuple(values.get("restarts", ()))
        values["starts"] = tuple(held_from_json(one) for one in values.get("starts", ()))
        values["shared"] = tuple((str(name), int(inode)) for name, inode in values.get("shared", ()))
        values["accepted"] = tuple(values.get("accepted", ()))
        values["served"] = tuple(values.get("served", ()))
        return Deployment(**values)
    except (TypeError, ValueError, KeyError) as error:
        raise InvalidInput(what="a stored deployment", why=error) from error


def fault_from_json(data: Mapping[str, Any]) -> Fault:
    values = known(Fault, data)
    return Fault(**{**values, "remedy": Remedy(values["remedy"])})


def wearing_from_json(data: Mapping[str, Any]) -> Wearing:
    values = known(Wearing, data)
    return Wearing(**{**values, "kind": Wear(values["kind"])})


def takedown_from_json(data: Mapping[str, Any]) -> Takedown:
    values = known(Takedown, data)
    survivors = tuple((int(pid), int(start)) for pid, start in values.get("members", ()))
    return Takedown(**{**values, "reason": Reason(values["reason"]), "members": survivors})


def held_from_json(data: Mapping[str, Any]) -> Held:
    values = known(Held, data)
    files = values.get("files")
    return Held(**{**values, "files": tuple(files) if files is not None else None})


def operation_from_json(data: Mapping[str, Any]) -> Operation:
    try:
        return Operation(**known(Operation, data))
    except TypeError as error:
        raise InvalidInput(what="a stored operation", why=error) from error


def known(kind: type, data: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of `kind` out of `data`; more than those means that a newer agent wrote it."""
    names = {field.name for field in fields(kind)}
    if strange := sorted(set(data) - names):
        raise InvalidInput(
            what="the stored state",
            why=f"it has {', '.join(strange)}, which this version does not know",
            advice="a newer recipe-agent wrote it: install that version again, or move the state folder away",
        )
    return dict(data)
