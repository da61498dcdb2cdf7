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


class BuildIncomplete(Refused):
    """The plan does not say everything that a build needs."""

    code = "image.incomplete"
    message = "cannot build {reference}: {why}"
    hint = "agentctl plan shows what is missing, and how to supply it"


class UnsafeSource(ImageError):
    """Something of a source would leave the place that it is given."""

    code = "image.unsafe_source"
    message = "cannot use {what} of {source}: {why}"
    http_status = 422


class NotInSource(ImageError):
    """A step names something that its source does not have."""

    code = "image.not_in_source"
    message = "cannot find {path} in {source}"
    hint = "compare the step with the source at that commit; image.steps of a site profile replaces the steps"
    http_status = 422


class CountDiffers(ImageError):
    """A folder has not as many files as the recipe says."""

    code = "image.file_count"
    message = "cannot copy {path} of {source}: the recipe says {stated} files, {found} are there"
    hint = "is it the commit that the recipe means? a site profile may state another `files`"
    http_status = 422


class SourceUnreachable(ImageError):
    """A source's server does not hand it over (now)."""

    code = "image.source_unreachable"
    message = "cannot fetch {source}: {why}"
    hint = "is there a network, and does {url} still exist? what was fetched once is kept and used offline"
    retryable = True


class SourceRefused(ImageError):
    """Fetching a source again gives the same answer."""

    code = "image.source_refused"
    message = "cannot fetch {source}: {why}"
    http_status = 422


class SourceMismatch(ImageError):
    """A source is not what the plan pins."""

    code = "image.source_mismatch"
    message = "cannot use {source}: {why}"
    hint = "it was changed where it comes from: do not build from it before you know why"
    http_status = 422


class PatchFailed(ImageError):
    """A patch does not apply; nothing of it was applied."""

    code = "image.patch_failed"
    message = "cannot apply {patch} of {source} to {onto}: {why}"
    hint = "patches apply in the order of the steps, each to the commit it was made for"
    http_status = 422


class BaseLacks(ImageError):
    """The base image has not what a step refers to."""

    code = "image.base_lacks"
    message = "cannot place {what} in {reference}: {why}"
    hint = "is it the base image that the recipe means?"
    http_status = 422


class BuildFailed(ImageError):
    """A step ended with an error. What was finished before it is kept, and the next build goes on from there."""

    code = "image.build_failed"
    message = "cannot build {reference}: {step} failed: {why}"
    hint = "the last lines of its output are in the details; agentctl build --print shows the step"
    http_status = 422
