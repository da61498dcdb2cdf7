"""The labels that make a container ours (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from agent.container.port import LABEL_GENERATION, LABEL_PLAN, LABEL_PORT, LABEL_RECIPE, LABEL_SECRETS

PREFIX = "recipe-agent."


@dataclass(frozen=True, slots=True)
class Identity:
    """Whose container it is. `port` is the engine's own port, where it is known."""

    slug: str
    plan_id: str
    generation: int
    port: int | None = None


def labels_for(identity: Identity, secrets: Iterable[str] = ()) -> dict[str, str]:
    """The labels to create with; `secrets` are the places of secrets (`agent.container.secrets`)."""
    labels = {
        LABEL_RECIPE: identity.slug,
        LABEL_PLAN: identity.plan_id,
        LABEL_GENERATION: str(identity.generation),
    }
    if identity.port is not None:
        labels[LABEL_PORT] = str(identity.port)
    if places := sorted(set(secrets)):
        labels[LABEL_SECRETS] = ",".join(places)
    return labels


def identity_of(labels: Mapping[str, str] | None) -> Identity | None:
    """Whose container has these labels; None where they are not all there and well formed: then it is not ours."""
    labels = labels or {}
    slug, plan_id, generation = (labels.get(name, "") for name in (LABEL_RECIPE, LABEL_PLAN, LABEL_GENERATION))
    if not slug or not plan_id or not _number(generation):
        return None
    port = labels.get(LABEL_PORT, "")
    return Identity(slug, plan_id, int(generation), int(port) if _number(port) else None)


def _number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10
