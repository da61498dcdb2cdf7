"""The image: what is here, what a registry has, or what is built from stated steps."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agent.plan.inputs import LocalImage
from agent.plan.model import ImagePlan, Missing
from agent.profile.fact import Fact
from agent.profile.steps import Image, Source, Step
from agent.settings.model import Settings


def reference_of(slug: str, image: Image) -> str | None:
    """What a bare command's image is called: the profile's word, or a name made of what goes into it."""
    if image.reference is not None:
        return image.reference.value
    if image.base is None and not image.steps:
        return None
    return f"recipe-agent/{slug.lower()}:{digest_of(image)}"


def digest_of(image: Image) -> str:
    """Twelve digits that differ as soon as anything that is built from does."""
    parts = {"base": _plain(image.base), "steps": [step_json(step) for step in image.steps]}
    sources = {name: source_json(source) for name, source in image.sources.items()}
    return hashlib.sha256(json.dumps(parts | {"sources": sources}, sort_keys=True).encode()).hexdigest()[:12]


def for_cards(image: Image, archs: Sequence[str], stated: Fact[str] | None) -> Image:
    """The image with compute capabilities where a step compiles for whatever is there: the chosen cards', or, where
    none of them could be asked, the ones that are stated for the recipe."""
    arch = " ".join(sorted(set(archs) or set((stated.value if stated else "").split())))
    if not arch:
        return image
    return image.model_copy(update={"steps": tuple(_for_cards(step, arch) for step in image.steps)})


def _for_cards(step: Step, arch: str) -> Step:
    extension = step.extension
    if extension is None or extension.arch is not None:
        return step
    return step.model_copy(update={"extension": extension.model_copy(update={"arch": arch})})


def image_plan(
    reference: str, image: Image, settings: Settings, local: Mapping[str, LocalImage | None] | None
) -> tuple[ImagePlan, str]:
    """How the image comes to be here, and why so.

    An image of the launch's own name that is here is used, unless the site says `image: build`. With steps and nothing
    here it is built, else pulled. Whether it is here may not be known.
    """
    here = local.get(reference) if local is not None else None
    forced = settings.image == "build" or (image.how is not None and image.how.value == "build")
    base, steps = _plain(image.base), tuple(_build(image))
    digest = reference.partition("@")[2] or None
    if here is not None and not (forced and image.steps):
        return ImagePlan(reference, "local", base, here.digest or digest, steps), "an image of that name is here"
    if image.steps:
        why = "the site says image: build" if forced else "the recipe's image is built, and none of its name is here"
        return ImagePlan(reference, "build", base, digest, steps), why
    return ImagePlan(reference, "pull", base, digest, steps), "its registry has it"


def _build(image: Image) -> Iterator[dict[str, Any]]:
    """Sources first, then the steps: what a build needs, as plain data."""
    for name, source in image.sources.items():
        yield {"source": {"name": name, **source_json(source)}}
    for step in image.steps:
        yield step_json(step)


def step_json(step: Step) -> dict[str, Any]:
    """`{"copy": {…}}` and its like."""
    value = getattr(step, "copy_" if step.kind == "copy" else step.kind)
    return {step.kind: dict(value) if isinstance(value, dict) else value.model_dump(exclude_none=True, mode="json")}


def source_json(source: Source) -> dict[str, Any]:
    """Where it is fetched from and what pins it."""
    stated: dict[str, Any] = {"git": source.git, "archive": source.archive, "license": source.license}
    stated |= {"commit": _plain(source.commit), "tag": _plain(source.tag), "sha256": _plain(source.sha256)}
    return {key: value for key, value in stated.items() if value is not None}


def gaps(image: Image) -> Iterator[Missing]:
    """What a build still needs: a base, something that pins every source, and what extensions are compiled for."""
    if image.base is None:
        yield Missing("image.base", "no base image is stated", "--set image.base=IMAGE")
    for name, source in image.sources.items():
        if not source.pinned:
            key = f"image.sources.{name}.{'sha256' if source.archive else 'commit'}"
            where = source.git or source.archive or "it"
            yield Missing(key, f"nothing says which state of {where} is meant", f"--set {key}=…")
    compiled = [step.extension.source for step in image.steps if step.extension and step.extension.arch is None]
    if compiled:
        why = f"{', '.join(compiled)} is compiled for the cards' architecture, and no card can be asked for it here"
        how = "--set requirements.compute_capability=8.0, or what the cards have that will run it"
        yield Missing("requirements.compute_capability", why, how)


def _plain(fact: Fact[str] | None) -> str | None:
    return None if fact is None else fact.value
