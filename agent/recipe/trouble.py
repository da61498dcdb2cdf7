"""What can be wrong with a recipe or with the place that it comes from."""

from __future__ import annotations

from typing import ClassVar

from agent.errors import AgentError, InvalidInput, NotFound, Refused


class BadRecipe(InvalidInput):
    """Bytes that are no recipe."""

    code = "recipe.invalid"
    message = "cannot read the recipe {what}: {why}"
    hint = "expected is the JSON document of a recipe site (its …/api/v1/recipes/SLUG.json), or a recipe file"


class NoRecipe(NotFound):
    """No source has it."""

    code = "recipe.not_found"
    message = "cannot find the recipe {name!r}: {why}"
    hint = "agentctl recipes search lists what the sources have; a file is given by its path"


class SourceTrouble(AgentError):
    """A source that does not answer as it should. One source's trouble never hides another's recipe."""

    code: ClassVar[str] = "recipe.source"
    message = "cannot read {what} from {source}: {why}"
    hint = "is it the right address in `sources` of agent.yaml? a pinned recipe works without its source"
    retryable = True
    http_status = 502


class ForeignHost(Refused):
    """A URL whose host is not among the sources."""

    code = "recipe.foreign_host"
    message = "cannot fetch {url}: {host} is not among the configured sources"
    hint = "add {site} to `sources` in agent.yaml"


class PinBroken(AgentError):
    """The pinned copy on disk is not what was pinned."""

    code = "recipe.pin_broken"
    message = "cannot use the pinned copy of {slug}: {why}"
    hint = "agentctl recipes fetch {slug} gets it anew"
