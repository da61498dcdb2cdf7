"""A tag that moves: the same plan is another image next week."""

from __future__ import annotations

from collections.abc import Iterator

from agent.plan.advice.rule import Case, Rule

_FLOATING = ("latest", "nightly", "main", "master", "dev", "edge", "stable")


def look(case: Case) -> Iterator[tuple[str, str]]:
    image = case.plan.image
    if image is None or image.how != "pull" or "@" in image.reference:
        return
    tag = image.reference.rpartition("/")[2].partition(":")[2] or "latest"
    if tag in _FLOATING or tag.startswith("nightly"):
        yield f"the tag {tag} of {image.reference} moves", f"--set image.reference={image.reference}@sha256:…"


RULE = Rule("image.floating", "Docker documentation, Image tags and digests", look)
