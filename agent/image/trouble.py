"""Why an image cannot be had, each with what helps."""

from __future__ import annotations

from agent.errors import AgentError, Refused


class ImageError(AgentError):
    """An image is not here and cannot be brought here."""

    code = "image.failed"
    message = "cannot prepare {reference}: {why}"
    http_status = 502


class ImageNotFound(ImageError):
    """Neither this host nor its registry has it."""

    code = "image.not_found"
    message = "cannot find the image {reference}: {why}"
    http_status = 404


class PullFailed(ImageError):
    """A registry did not hand it over."""

    code = "image.pull_failed"
    message = "cannot pull {reference}: {why}"
    retryable = True


class PullRefused(PullFailed):
    """Pulling again gives the same answer until somebody changes something."""

    retryable = False
    http_status = 422


class PullStalled(PullFailed):
    """The connection stands and nothing comes."""

    code = "image.pull_stalled"
    message = "cannot pull {reference}: nothing came for {seconds:g} s ({done} were there)"
    hint = "what came stays and the next pull goes on from there; look at the network and at the registry"
    http_status = 504


class DigestMismatch(ImageError):
    """What is here under a name is not what the plan names."""

    code = "image.digest_mismatch"
    message = "cannot use {reference}: the plan names {wanted}, what is here is {found}"
    hint = "a tag was moved: name the image by digest, or plan again and look at what changed"
    http_status = 409


class DigestRequired(Refused):
    """The site takes images by digest only."""

    code = "policy.require_digest"
    message = "cannot use {reference}: the site's policy takes only images that are named by digest"
    hint = "name it {example}, or set policy.require_digest to false"
