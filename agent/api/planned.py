"""A plan and a host as the API gives them: what the contract names is typed, what comes beside it is passed on."""

from __future__ import annotations

from pydantic import JsonValue

from agent.api.answers import Answer, Number, Stored, Time


class RecipeRef(Stored):
    """Which document: revision and hashes are null for a mere listing entry."""

    slug: str
    revision: int | None
    content_hash: str | None
    sha256: str | None
    source: str


class Engine(Stored):
    """What serves tokens; everything is null where no engine is known."""

    kind: str | None
    port: int | None
    health: str | None
    metrics: str | None
    served_model: str | None


class Image(Stored):
    """`how`: pull, build or local."""

    reference: str
    how: str
    base: str | None
    digest: str | None
    steps: list[dict[str, JsonValue]]


class Container(Stored):
    """The body of Docker's POST /containers/create; secrets stand as `secret:NAME`."""

    name: str
    platform: str | None
    body: dict[str, JsonValue]


class Requirement(Stored):
    """One need of the recipe; sizes are bytes, with the words that people read in `shown`."""

    id: str
    need: JsonValue
    origin: str


class Window(Stored):
    """One window of the supervision; `seconds` is null where it is none, or cannot be derived."""

    seconds: Number | None
    how: str


class Claim(Stored):
    """One claimed figure."""

    metric: str
    value: Number
    concurrency: int | None
    context: int | None
    aggregate: bool
    origin: str
    note: str


class Missing(Stored):
    """What the operator must supply."""

    key: str
    why: str
    how: str


class Unapplied(Stored):
    """A statement of the document that nothing acts on."""

    text: str
    why: str


class Plan(Stored):
    """What `agentctl plan -o json` prints."""

    plan_id: str
    recipe: RecipeRef
    runtime: str
    engine: Engine
    image: Image | None
    container: Container | None
    requirements: list[Requirement]
    watch: dict[str, Window]
    claims: list[Claim]
    missing: list[Missing]
    unapplied: list[Unapplied]
    warnings: list[str]
    origins: dict[str, str]


class Readings(Stored):
    """Values by name, null where unknown: `unknown` has the reason of each null."""

    unknown: dict[str, str]
    unsupported: list[str]


class SiteFile(Answer):
    """The settings in force. `refused`: why a newer site file is not, null when the files are what is in force."""

    files: list[str]
    loaded: Time
    refused: str | None
    needs_restart: list[str]
    """Keys that the files change and that only a restart of the agent takes up."""


class Host(Stored):
    """What this host is; a part that could not be read is null, with its reason in `unknown`."""

    at: Time
    facts: Readings
    driver: Readings
    memory: Readings | None
    gpus: list[dict[str, JsonValue]] | None
    unknown: dict[str, str]
    unsupported: list[str]
    settings: SiteFile
    version: str
