"""From a plan's container body to the one that is posted (pure): ours to find, its log kept and bounded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from agent.container.labels import PREFIX, Identity, labels_for
from agent.container.port import ContainerSpec
from agent.container.secrets import secret_places
from agent.plan.model import ContainerPlan
from agent.plan.secrets import PREFIX as SECRET
from agent.plan.secrets import references, with_secrets

__all__ = ["SECRET", "LogBounds", "Secrets", "compose", "spec_for"]

Secrets = Callable[[str], str]
"""The value of a secret by its name; raises an `AgentError` that says where it should be."""

_ATTACHED = ("AttachStdin", "AttachStdout", "AttachStderr", "OpenStdin", "StdinOnce", "Tty")


@dataclass(frozen=True, slots=True)
class LogBounds:
    """How much of its output a container keeps: `files` files of `size` (Docker's spelling, such as `50m`)."""

    size: str
    files: int


def spec_for(plan: ContainerPlan, identity: Identity, bounds: LogBounds, secrets: Secrets) -> ContainerSpec:
    """What to create for one generation of a plan."""
    return ContainerSpec(
        slug=identity.slug,
        plan_id=identity.plan_id,
        generation=identity.generation,
        name=plan.name,
        body=compose(plan.body, identity, bounds, secrets),
        platform=plan.platform,
    )


def compose(body: Mapping[str, Any], identity: Identity, bounds: LogBounds, secrets: Secrets) -> dict[str, Any]:
    """The body to post: labels, no restart by Docker, no removal by Docker, no terminal, a bounded log, secrets in.

    The log must outlive the container's end, so whatever would remove it (`--rm`) or send it elsewhere (`-t`, attach)
    is off. Labels under our prefix that the launch wrote itself are dropped: they would make it somebody else's.
    """
    values = {name: secrets(name) for name in dict.fromkeys(references(body))}
    composed: dict[str, Any] = with_secrets(body, values) | dict.fromkeys(_ATTACHED, False)
    host = composed.get("HostConfig") or {}
    host |= {"RestartPolicy": {"Name": "no", "MaximumRetryCount": 0}, "AutoRemove": False}
    host["LogConfig"] = _bounded(host.get("LogConfig"), bounds)
    labels = {key: value for key, value in (composed.get("Labels") or {}).items() if not key.startswith(PREFIX)}
    return composed | {"Labels": labels | labels_for(identity, secret_places(body)), "HostConfig": host}


def _bounded(asked: Mapping[str, Any] | None, bounds: LogBounds) -> dict[str, Any]:
    """The launch's own log driver where it keeps within bounds, else json-file within ours.

    Docker's `local` driver is bounded by itself (5 files of 20 MB), every other one but json-file stores nothing here.
    """
    kind = (asked or {}).get("Type") or ""
    options = dict((asked or {}).get("Config") or {})
    if kind not in ("", "json-file") or options.get("max-size", "-1") not in ("", "-1"):
        return {"Type": kind, "Config": options}
    options["max-size"] = bounds.size
    options.setdefault("max-file", str(bounds.files))
    return {"Type": "json-file", "Config": options}
