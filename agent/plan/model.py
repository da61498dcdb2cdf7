"""The plan: everything resolved, each value with its origin. What `agentctl plan -o json` prints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agent.engines.model import EngineLaunch
from agent.plan.watch import Watch
from agent.quantity import Bytes


@dataclass(frozen=True, slots=True)
class RecipeRef:
    """Which document: slug, revision and the SHA-256 of its bytes (None for a mere listing entry)."""

    slug: str
    revision: int | None
    content_hash: str | None
    sha256: str | None
    source: str


@dataclass(frozen=True, slots=True)
class ImagePlan:
    """`how`: `pull`, `build` or `local` (an image of the launch's own name that is there is used as it is)."""

    reference: str
    how: str
    base: str | None = None
    digest: str | None = None
    steps: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class ContainerPlan:
    """The body of Docker's POST /containers/create. Secret values stand as `secret:NAME` until create.

    For the process runtime it has `Cmd`, `Env` and `WorkingDir` alone.
    """

    name: str
    platform: str | None
    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Requirement:
    """One need of the recipe. `id` names the preflight check that answers it (`memory.available`, `gpu.count`, …)."""

    id: str
    need: Bytes | int | float | str
    origin: str
    words: str = ""
    """The need as its author wrote it."""


@dataclass(frozen=True, slots=True)
class Claim:
    """One claimed figure. `metric`: `decode_tok_s`, `prefill_tok_s` or `ttft_ms`; `context` in tokens, None unknown."""

    metric: str
    value: float
    concurrency: int | None
    context: int | None
    aggregate: bool
    origin: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class ActiveParameters:
    """How many parameters one token passes: of a mixture of experts fewer than the model has."""

    count: float
    origin: str


@dataclass(frozen=True, slots=True)
class Missing:
    """What the operator must supply before this can be deployed."""

    key: str
    why: str
    how: str


@dataclass(frozen=True, slots=True)
class Unapplied:
    """A statement of the document that nothing acts on."""

    text: str
    why: str
    where: str = ""


@dataclass(frozen=True, slots=True)
class Acceptance:
    """What must be seen before a start counts as `ready` (profile `acceptance`)."""

    stream_tokens: int | None = None
    log_lines: tuple[str, ...] = ()
    counters: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """A recipe resolved for this host. `plan_id` is the hash of everything here that decides what will run."""

    plan_id: str
    recipe: RecipeRef
    runtime: str
    engine: EngineLaunch | None
    image: ImagePlan | None
    container: ContainerPlan | None
    requirements: tuple[Requirement, ...]
    watch: Watch
    claims: tuple[Claim, ...]
    missing: tuple[Missing, ...]
    unapplied: tuple[Unapplied, ...]
    warnings: tuple[str, ...]
    origins: Mapping[str, str]
    gpus: tuple[str, ...] = ()
    """UUIDs of the chosen cards; empty where the engine uses none or the host shows none."""
    title: str = ""
    acceptance: Acceptance = field(default_factory=Acceptance)
    expendable: bool = False
    """Marked as fit for drills."""
    argv: tuple[str, ...] = ()
    """For the process runtime: the whole command line. Its environment and folder are those of `container.body`."""
    mount_roots: tuple[str, ...] = ()
    """Folders below which its mounts are allowed; asked again with real paths just before a start."""
    secrets: Mapping[str, str] = field(default_factory=dict)
    """NAME of each `secret:NAME` → the file that holds it, or `variables` where the site's variable is it."""
    active_parameters: ActiveParameters | None = None
    """What the profile or the model's name states; None: neither does."""
