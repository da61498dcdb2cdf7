"""The published document, read tolerantly: nulls, numbers as text and new keys are normal; a part of the wrong kind is
noted and left out, and never costs the rest."""

from __future__ import annotations

import math
from typing import Annotated, Any, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)
from pydantic import ValidationInfo as Info

T = TypeVar("T")

LARGEST = 1e12
"""Beyond every figure of a recipe: tokens, tokens a second, cards, gigabytes, milliseconds."""


def _forgive(value: Any, validate: ValidatorFunctionWrapHandler, info: Info) -> Any:
    """What does not fit is None, and said in the notes of the reading."""
    try:
        return validate(value)
    except ValidationError as error:
        if info.context is not None:
            first = error.errors(include_url=False)[0]
            info.context.append(f"{info.field_name} is not what it should be and is left out: {first['msg']}")
        return None


def _number(value: Any) -> Any:
    """`"1,048,576"`, `"57.5"`, 57.5; NaN and infinities say nothing."""
    if isinstance(value, str):
        value = value.replace(",", "").replace("_", "").strip() or None
    if isinstance(value, bool):
        raise ValueError("a switch is no number")  # noqa: TRY004 (pydantic takes ValueError for a refusal)
    if value is None:
        return None
    if not isinstance(value, int | float | str):
        raise ValueError(f"a {type(value).__name__} is no number")  # noqa: TRY004
    try:
        number = float(value)
    except OverflowError:
        raise ValueError("it counts nothing that there is") from None
    if math.isfinite(number) and not 0 <= number <= LARGEST:
        raise ValueError(f"{number:g} counts nothing that there is")
    return number if math.isfinite(number) else None


def _whole(value: Any) -> Any:
    number = _number(value)
    return None if number is None else int(number)


def _text(value: Any) -> Any:
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def _several(value: Any) -> Any:
    """A list, where one thing alone may stand without brackets and null for none."""
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


Soft = Annotated[T | None, WrapValidator(_forgive)]
Text = Annotated[Soft[Annotated[str, BeforeValidator(_text)]], Field(default=None)]
Number = Annotated[Soft[Annotated[float | None, BeforeValidator(_number)]], Field(default=None)]
Whole = Annotated[Soft[Annotated[int | None, BeforeValidator(_whole)]], Field(default=None)]
Several = Annotated[list[Soft[T]], BeforeValidator(_several)]


class Part(BaseModel):
    """Any object of the document: keys that are not named here are kept."""

    model_config = ConfigDict(extra="allow", frozen=True)


class RevisionPart(Part):
    no: Whole
    content_hash: Text
    commit_sha: Text
    created_at: Text


class EnginePart(Part):
    base_engine: Text
    image_digest: Text


class StoragePart(Part):
    ram_gb: Number


class ConfigPart(Part):
    launch: Soft[Annotated[list[Annotated[str, BeforeValidator(_text)]], BeforeValidator(_several)]] = None
    max_context_len: Whole
    storage_requirements: Soft[StoragePart] = None


class ModelPart(Part):
    name: Text
    hf_repo: Text
    quant: Text


class HardwarePart(Part):
    vendor: Text
    card: Text
    vram_gb: Number
    device_count: Whole


class PointPart(Part):
    context_len: Whole
    concurrency: Whole
    decode_tok_s: Number
    prefill_tok_s: Number
    ttft_ms: Number
    claimed_by: Text
    notes: Text


class PerformancePart(Part):
    claimed_by: Text
    metrics: Any = None
    """Published as JSON in a text; an object is taken as well."""


class MetricsPart(Part):
    points: Several[PointPart] = Field(default_factory=list)


class Document(Part):
    """A recipe's document, or an entry of a listing: the same keys, most of them absent there."""

    slug: Annotated[str, BeforeValidator(_text)]
    title: Text
    summary: Text
    tier: Text
    updated_at: Text
    generation: Text
    content_hash: Text
    commit_sha: Text
    tags: Several[Annotated[str, BeforeValidator(_text)]] = Field(default_factory=list)
    revision: Soft[RevisionPart] = None
    engine_source: Soft[EnginePart] = None
    config: Soft[ConfigPart] = None
    models: Several[ModelPart] = Field(default_factory=list)
    hardware: Several[HardwarePart] = Field(default_factory=list)
    performance: Several[PerformancePart] = Field(default_factory=list)
    perf_points: Several[PointPart] = Field(default_factory=list)
