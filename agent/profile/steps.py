"""How an image is built, as data: sources at a commit, then steps in order."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from agent.profile.fact import Fact, Stated, Strict


def _several(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


Texts = Annotated[tuple[str, ...], BeforeValidator(_several)]


class Source(Stated):
    """What is fetched: a git repository at a commit (a tag is accepted and its commit locked), or an archive."""

    git: str | None = None
    commit: Fact[Annotated[str, Field(strict=True, pattern=r"^[0-9a-f]{7,64}$")]] | None = None
    tag: Fact[str] | None = None
    archive: str | None = None
    sha256: Fact[Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]] | None = None
    license: str | None = None

    @property
    def pinned(self) -> bool:
        """Whether what will be fetched is settled."""
        return self.sha256 is not None if self.archive else self.commit is not None or self.tag is not None


class Apply(Strict):
    """`git apply` of patch files of one source onto another, in order."""

    source: str
    patches: Texts
    onto: str


class Copy(Strict):
    """A folder or file of a source into the image; `{site_packages}` and `{package:NAME}` are those of the base.

    `files` is how many the recipe says there are, to be checked.
    """

    source: str
    path: str
    to: str
    files: int | None = None


class Run(Strict):
    """A script of a source, run within the image being built.

    `before`: only where that source's commit is older than this one.
    """

    source: str
    script: str
    arguments: Texts = ()
    idempotent: bool = False
    before: dict[str, str] | None = None


class Pip(Strict):
    """A package: of a source's tree, or a requirement with its hash."""

    source: str | None = None
    requirement: str | None = None
    no_deps: bool = False


class Extension(Strict):
    """A CUDA extension compiled within the image; `arch` is TORCH_CUDA_ARCH_LIST, else that of the chosen cards."""

    source: str
    arch: str | None = None


class Files(Strict):
    """What must be there afterwards."""

    exist: Texts = ()
    imports: Texts = ()


class Step(Stated):
    """One step: exactly one of the kinds."""

    apply: Apply | None = None
    copy_: Copy | None = Field(None, alias="copy")
    run: Run | None = None
    pip: Pip | None = None
    extension: Extension | None = None
    env: dict[str, str] | None = None
    files: Files | None = None

    @model_validator(mode="after")
    def _one(self) -> Step:
        kinds = [name for name in KINDS if getattr(self, name) is not None]
        if len(kinds) != 1:
            raise ValueError(f"a step is exactly one of {', '.join(name.rstrip('_') for name in KINDS)}")
        return self

    @property
    def kind(self) -> str:
        return next(name for name in KINDS if getattr(self, name) is not None).rstrip("_")


KINDS = ("apply", "copy_", "run", "pip", "extension", "env", "files")


class Image(Strict):
    """The image: a reference to use, or how one is built from `base`."""

    reference: Fact[str] | None = None
    base: Fact[str] | None = None
    how: Fact[Literal["auto", "build"]] | None = None
    sources: dict[str, Source] = Field(default_factory=dict)
    steps: tuple[Step, ...] = ()
