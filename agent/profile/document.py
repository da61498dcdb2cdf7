"""The profile: what a recipe says only in prose, in typed form, and what an operator says about it for this host."""

from __future__ import annotations

import shlex
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from agent.profile.fact import Fact, Stated, Strict
from agent.profile.steps import Image
from agent.settings.words import Parameters, Seconds, Size


def _comma(value: Any) -> Any:
    """`0,1,2,3` of a command line is a list."""
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    return [value] if isinstance(value, int) else value


def _line(value: Any) -> Any:
    """A command line as text, or as a flat list of words, is one part of words."""
    if isinstance(value, str):
        return [{"argv": shlex.split(value)}]
    flat = isinstance(value, list) and bool(value) and all(isinstance(word, str | int | float) for word in value)
    return [{"argv": value}] if flat else value


Names = Annotated[tuple[str, ...], BeforeValidator(_comma)]


class Identity(Strict):
    """Which recipe, and which state of it the profile was written for."""

    slug: str
    content_hash: Annotated[str, Field(strict=True)] | None = None
    revision: int | None = None


class Requirements(Strict):
    """What the host must have. Sizes in prose are GiB for memory and nominal for cards and hosts."""

    hosts: Fact[int] | None = None
    gpu_count: Fact[int] | None = None
    gpu_memory: Fact[Size] | None = None
    """One card's, nominal."""
    gpu_name: Fact[str] | None = None
    compute_capability: Fact[str] | None = None
    gpu_memory_in_use_max: Fact[Size] | None = None
    """Over all chosen cards before a start."""
    memory_total: Fact[Size] | None = None
    """The host's, nominal."""
    memory_available: Fact[Size] | None = None
    driver: Fact[Annotated[str, Field(strict=True)]] | None = None
    """A floor. Text: as a number 580.10 would lose its last digit."""
    disk: Fact[Size] | None = None
    """Image, weights and caches together, nominal."""
    weights: Fact[str] | None = None
    """Repository of the Hugging Face Hub, `owner/name[@revision]`."""


class Words(Stated):
    """Some words of a command line, with their source."""

    argv: tuple[str, ...]


Line = Annotated[tuple[Words, ...], BeforeValidator(_line)]


class Launch(Strict):
    """`line` is a whole command line, composed from stated facts where the recipe has none; `docker` the flags that
    a bare line needs to run in a container; `arguments` are added at the end of the engine's own."""

    line: Line = ()
    service: Fact[str] | None = None
    """Of several containers in one file, the one that is meant, by its name."""
    docker: Line = ()
    arguments: Line = ()


class Engine(Strict):
    """What cannot be read off the launch."""

    kind: Fact[Literal["vllm", "sglang", "llamacpp", "trtllm", "tabbyapi", "openai"]] | None = None
    port: Fact[int] | None = None
    health: Fact[str] | None = None
    metrics: Fact[str] | None = None
    served_model: Fact[str] | None = None


class Serving(Strict):
    """Sizes that the recipe states in words; the launch's own flags are held against them."""

    tensor_parallel: Fact[int] | None = None
    pipeline_parallel: Fact[int] | None = None
    max_context: Fact[int] | None = None
    speculative_tokens: Fact[int] | None = None
    kv_pool_tokens: Fact[int] | None = None
    active_parameters: Fact[Parameters] | None = None
    """Parameters that one token passes (`37B`): of a mixture of experts the chosen and shared ones, else all. A result
    above what the cards can compute or read with them is a measuring error."""
    drafter_predicts: Fact[int] | None = None
    """Tokens that the drafter predicts at a time; speculative tokens come in multiples of it."""


class Acceptance(Strict):
    """What must be seen before a start counts as ready."""

    stream_tokens: Fact[int] | None = None
    log_lines: Fact[tuple[str, ...]] | None = None
    counters: Fact[tuple[str, ...]] | None = None


class ClaimPoint(Stated):
    """A figure that stands in prose only."""

    metric: Literal["decode_tok_s", "prefill_tok_s", "ttft_ms"]
    value: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    concurrency: Annotated[int, Field(ge=1)] | None = None
    context: Annotated[int, Field(ge=1)] | None = None
    note: str = ""


class Claims(Strict):
    """Figures from prose, and a note on all of the recipe's."""

    note: Fact[str] | None = None
    points: tuple[ClaimPoint, ...] = ()


class Gap(Strict):
    """Something that the document does not state. It stays missing until its key has a value."""

    key: str
    why: str
    how: str = ""
    only_for: Literal["build", "start"] = "start"
    """`build`: not needed where the image is there already."""


class Note(Stated):
    """A sentence that a person should read before saying yes."""

    text: str


class Acted(Stated):
    """Words of the recipe that the agent acts on without a value of its own here, and by what."""

    by: str


class Profile(Strict):
    """All of it; every key may be absent. A later layer wins key by key, lists as a whole."""

    recipe: Identity | None = None
    runtime: Fact[Literal["auto", "docker", "process"]] | None = None
    gpus: Fact[Names] | None = None
    variables: dict[str, Fact[str]] = Field(default_factory=dict)
    substitutions: dict[str, Fact[str]] = Field(default_factory=dict)
    """A command within the launch (`id -u`) → what it would print on the author's machine; none is ever run."""
    files: dict[str, Fact[str]] = Field(default_factory=dict)
    """A file that the launch reads (`--env-file`), as the launch calls it → its text."""
    secrets: dict[str, Fact[str]] = Field(default_factory=dict)
    """Name of a secret → the file that holds it."""
    env: dict[str, Fact[str]] = Field(default_factory=dict)
    name: Fact[str] | None = None
    port: Fact[Annotated[int, Field(ge=1, le=65535)]] | None = None
    """The host's port for the engine; the one within the container stays."""
    address: Fact[str] | None = None
    """The host's address that the engine's port is published on; 127.0.0.1 keeps it to this host."""
    ports: dict[int, Fact[Annotated[int, Field(ge=1, le=65535)]]] = Field(default_factory=dict)
    """The same for any published port of the container."""
    mounts: Fact[tuple[str, ...]] | None = None
    """More mounts of the container, as `-v` takes them."""
    shm_size: Fact[Size] | None = None
    """The container's /dev/shm."""
    launch: Launch = Launch()
    engine: Engine = Engine()
    serving: Serving = Serving()
    requirements: Requirements = Requirements()
    watch: dict[str, Fact[Seconds | tuple[Seconds, ...] | None]] = Field(default_factory=dict)
    """Windows by their names in the plan; null switches one off."""
    image: Image = Image()
    acceptance: Acceptance = Acceptance()
    claims: Claims = Claims()
    expendable: Fact[bool] | None = None
    missing: tuple[Gap, ...] = ()
    notes: tuple[Note, ...] = ()
    acted: tuple[Acted, ...] = ()
