"""Image references, as the CLI takes or refuses them (the grammar of distribution/reference)."""

from __future__ import annotations

import re

from agent.launch.golang import Malformed

_COMPONENT = r"[a-z0-9]+(?:(?:[._]|__|[-]+)[a-z0-9]+)*"
_HOST_PART = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_DOMAIN = rf"(?:{_HOST_PART}(?:\.{_HOST_PART})*|\[(?:[a-fA-F0-9:]+)\])(?::[0-9]+)?"
_TAG = r"[\w][\w.-]{0,127}"
_DIGEST = r"[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}"
_REFERENCE = re.compile(
    rf"(?P<name>(?:{_DOMAIN}/)?{_COMPONENT}(?:/{_COMPONENT})*)(?::(?P<tag>{_TAG}))?(?:@(?P<digest>{_DIGEST}))?",
    re.ASCII,
)
_IDENTIFIER = re.compile(r"[a-f0-9]{64}")
_DIGESTS = {"sha256": 64, "sha384": 96, "sha512": 128}


def check_reference(text: str) -> None:
    """Nothing where the CLI takes `text` for an image. Raises Malformed with its reason."""
    if _IDENTIFIER.fullmatch(text) or _is_digest(text):
        return
    domain, remainder = _split_domain(text)
    name = re.split(r"[:@]", remainder, maxsplit=1)[0] if not remainder.startswith("@") else remainder
    before_tag = remainder.split(":", 1)[0]
    if before_tag.lower() != before_tag:
        raise Malformed(f"invalid reference format: repository name ({before_tag}) must be lowercase")
    found = _REFERENCE.fullmatch(f"{domain}/{remainder}") if len(text) < 4096 else None
    if not found or not name:
        raise Malformed("invalid reference format")
    if len(found["name"].removeprefix(f"{domain}/")) > 255:
        raise Malformed("repository name must not be more than 255 characters")
    if found["digest"] and not _is_digest(found["digest"]):
        raise Malformed("invalid reference format")


def is_identifier(text: str) -> bool:
    """Whether `text` is an image's id of 64 digits, which no registry serves."""
    return _IDENTIFIER.fullmatch(text) is not None


def _split_domain(text: str) -> tuple[str, str]:
    """Docker Hub's short names get its domain, and `library/` where no owner is named."""
    head, slash, rest = text.partition("/")
    if not slash or (not re.search(r"[.:]", head) and head != "localhost" and head.lower() == head):
        domain, remainder = "docker.io", text
    else:
        domain, remainder = head, rest
    if domain == "index.docker.io":
        domain = "docker.io"
    if domain == "docker.io" and "/" not in remainder:
        remainder = "library/" + remainder
    return domain, remainder


def _is_digest(text: str) -> bool:
    algorithm, colon, value = text.partition(":")
    return (
        bool(colon)
        and re.fullmatch(rf"[a-f0-9]{{{_DIGESTS.get(algorithm, 0) or 1}}}", value) is not None
        and (algorithm in _DIGESTS)
    )
