"""Names of images: which repository a reference is of, and which digest it states (pure)."""

from __future__ import annotations

from dataclasses import dataclass

HUB = "docker.io"


@dataclass(frozen=True, slots=True)
class Reference:
    """`repository` in full (`docker.io/library/busybox`); tag and digest as stated."""

    repository: str
    tag: str | None = None
    digest: str | None = None

    @property
    def registry(self) -> str:
        return self.repository.partition("/")[0]

    @property
    def path(self) -> str:
        """The repository within its registry."""
        return self.repository.partition("/")[2]


def parse(text: str) -> Reference:
    """A reference that the plan has taken for one already."""
    name, _, digest = text.partition("@")
    # a colon before the last slash belongs to the registry's port
    head, slash, last = name.rpartition("/")
    last, _, tag = last.partition(":")
    return Reference(full(f"{head}{slash}{last}"), tag or None, digest or None)


def full(name: str) -> str:
    """A repository with its registry: `vllm/vllm-openai` is Docker Hub's."""
    head, slash, rest = name.partition("/")
    if slash and ("." in head or ":" in head or head == "localhost"):
        return f"{HUB}/{rest}" if head == "index.docker.io" else name
    return f"{HUB}/{name}" if slash else f"{HUB}/library/{name}"


def by_digest(reference: str, digest: str) -> str:
    """The same repository, spelled as in `reference`, at a digest."""
    name = reference.partition("@")[0]
    head, slash, last = name.rpartition("/")
    return f"{head}{slash}{last.partition(':')[0]}@{digest}"


def digest_of(digests: tuple[str, ...], reference: str) -> str | None:
    """The digest that the repository of `reference` knows an image by; None where it does not know it.

    An image that was pushed or pulled under several names has one entry for each.
    """
    repository = parse(reference).repository
    for entry in digests:
        name, _, digest = entry.partition("@")
        if full(name) == repository:
            return digest or None
    return None
