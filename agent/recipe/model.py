"""A recipe as this agent uses it: what it says, where each statement stands, and what identifies it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

SITE_FORMAT = "localairecipes"
DECIDING = ("config", "engine_source", "hardware", "artifacts", "performance", "perf_points")
"""The parts of a document that decide what runs and what is claimed; votes, `aa` and dates move without a revision."""


@dataclass(frozen=True, slots=True)
class Revision:
    """Which state of the document. Timestamps stay text as published (`2026-10-20 15:34:08.130558-06`)."""

    number: int | None = None
    content_hash: str | None = None
    commit: str | None = None
    created_at: str | None = None


@dataclass(frozen=True, slots=True)
class Hardware:
    """One kind of machine that the author names. `vram_gb` is nominal and for one card; None is "not said"."""

    card: str | None = None
    vendor: str | None = None
    vram_gb: float | None = None
    count: int | None = None
    origin: str = ""


@dataclass(frozen=True, slots=True)
class Model:
    """What is served: the published repository and how it was quantised."""

    name: str | None = None
    repository: str | None = None
    quant: str | None = None


@dataclass(frozen=True, slots=True)
class Point:
    """One measured point as published. None is "not said"; 0 is not a measurement and reads as None."""

    origin: str
    context: int | None = None
    concurrency: int | None = None
    decode_tok_s: float | None = None
    prefill_tok_s: float | None = None
    ttft_ms: float | None = None
    claimed_by: str | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Leaf:
    """One text of the document and its place. JSON within a text is walked too (`performance[0].metrics.notes`)."""

    path: str
    text: str


@dataclass(frozen=True, slots=True)
class Recipe:
    """A published recipe. `sha256` is that of the bytes it was read from, None for a mere entry of a listing."""

    slug: str
    title: str
    source: str
    sha256: str | None
    format: str = SITE_FORMAT
    """`localairecipes`, `sparkrun`, `vllm-recipes`, `compose` or `shell`."""
    summary: str = ""
    tier: str | None = None
    revision: Revision = Revision()
    updated_at: str | None = None
    launch: tuple[str, ...] = ()
    """`config.launch` as published: the words of one command, or lines of shell, comments and prose."""
    launch_places: tuple[str, ...] = ("config.launch",)
    """The fields that the launch was read from, each with all that is below it."""
    engine: str | None = None
    """`engine_source.base_engine`."""
    base_image: str | None = None
    """The image that the engine's source names (`engine_source.image_digest`), with or without a digest."""
    generation: str | None = None
    tags: tuple[str, ...] = ()
    models: tuple[Model, ...] = ()
    hardware: tuple[Hardware, ...] = ()
    max_context: int | None = None
    ram_gb: float | None = None
    """`config.storage_requirements.ram_gb`: the host's memory in all, nominal."""
    points: tuple[Point, ...] = ()
    leaves: tuple[Leaf, ...] = ()
    document: Mapping[str, Any] = field(default_factory=dict)
    """The whole document as it was read, with every key that nothing here knows."""
    stated: Mapping[str, Any] = field(default_factory=dict)
    """Facts that a foreign format states in fields of its own, in the form of a profile."""
    notes: tuple[str, ...] = ()
    """What was odd about the document, in sentences."""

    @property
    def deciding(self) -> dict[str, Any]:
        """The facts that a plan's identity rests on; of a format without votes and dates, the whole document."""
        keys = DECIDING if self.format == SITE_FORMAT else tuple(self.document)
        return {key: self.document[key] for key in keys if key in self.document}
