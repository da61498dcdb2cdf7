"""What a build is made of: the base image, and every source in the states that the steps want."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agent.image.buildplan import BuildPlan
from agent.image.dockerfile import Base, Known, PathFact, places_in
from agent.image.ensure import fetch
from agent.image.place import is_folder
from agent.image.port import Builder, ImageReady, ImageRuntime, Patch, Say, Sources, Tree
from agent.image.pull import Means
from agent.image.reference import by_digest
from agent.image.trouble import NotInSource
from agent.plan.model import ImagePlan
from agent.profile.steps import Apply, Run, Step

SITE_PACKAGES = "{site_packages}"


@dataclass(frozen=True, slots=True)
class Materials:
    """`image` is the base as it is here, and `how` says whether it was `found` or `pulled`.

    `trees`: by source and number of patches applied to it.
    """

    image: ImageReady
    how: str
    base: Base
    known: Known
    trees: Mapping[tuple[str, int], Tree]


class Gathering:
    """Gathers once; nothing is built yet."""

    def __init__(self, runtime: ImageRuntime, builder: Builder, sources: Sources, means: Means) -> None:
        self._runtime = runtime
        self._builder = builder
        self._sources = sources
        self._means = means
        self._trees: dict[tuple[str, int], Tree] = {}
        self._now: dict[str, int] = {}
        """How many times each source was patched so far."""
        self._paths: dict[tuple[str, str], PathFact] = {}
        self._left_out: dict[int, str] = {}

    async def gather(self, plan: BuildPlan, locked: ImageReady | None, say: Say) -> Materials:
        """Raises what fetching and patching raise, BaseLacks and NotInSource."""
        for name in used(plan):
            self._trees[name, 0] = await self._sources.fetch(plan.sources[name], say)
            self._now[name] = 0
        for number, step in enumerate(plan.steps, 1):
            await self._walk(plan, number, step, say)
        image, how = await self._base(plan, locked, say)
        commits = {name: tree.commit for (name, _), tree in self._trees.items()}
        known = Known(commits, self._paths, self._left_out)
        return Materials(image, how, await self._told(plan, image, say), known, self._trees)

    async def _base(self, plan: BuildPlan, locked: ImageReady | None, say: Say) -> tuple[ImageReady, str]:
        """By the digest that this plan was built on before, where there is one."""
        reference = plan.base
        if locked is not None and locked.digest is not None and await self._moved(locked):
            reference = by_digest(plan.base, locked.digest)
        how = "pulled" if await self._runtime.image(reference) is None else "found"
        return await fetch(ImagePlan(reference, "pull"), self._runtime, say, self._means), how

    async def _moved(self, locked: ImageReady) -> bool:
        here = await self._runtime.image(locked.reference)
        return here is None or here.id != locked.id

    async def _told(self, plan: BuildPlan, image: ImageReady, say: Say) -> Base:
        """What the base says of itself."""
        places: Mapping[str, str] = {}
        if wanted := places_in(plan):
            say({"text": f"looking into {plan.base}", "ratio": None})
            packages = [place[len("{package:") : -1] for place in wanted if place != SITE_PACKAGES]
            places = await self._builder.places(image.id, packages)
        user = await self._builder.user(image.id)
        word = by_digest(image.reference, image.digest) if image.digest else image.id
        return Base(plan.base, word, "" if user in ("root", "0", "0:0") else user, places)

    async def _walk(self, plan: BuildPlan, number: int, step: Step, say: Say) -> None:
        if step.apply is not None:
            await self._apply(step.apply)
        elif step.copy_ is not None:
            self._note(step.copy_.source, step.copy_.path)
        elif step.run is not None:
            if why := await self._unneeded(plan, step.run, say):
                self._left_out[number] = why
            else:
                await self._script(step.run)

    async def _apply(self, apply: Apply) -> None:
        """Onto a source: a new state of it. Onto the image: the patches only have to be there."""
        patches = [await self._patch(apply.source, path) for path in apply.patches]
        if apply.onto in self._now:
            before = self._now[apply.onto]
            tree = await self._tree(apply.onto).patched(patches)
            self._now[apply.onto] = before + 1
            self._trees[apply.onto, before + 1] = tree

    async def _patch(self, source: str, path: str) -> Patch:
        self._note(source, path)
        return Patch(path, source, await self._tree(source).read(path.strip("/")))

    async def _unneeded(self, plan: BuildPlan, run: Run, say: Say) -> str:
        """Why a script is left out: a source has the commit already that made it needless."""
        for name, commit in (run.before or {}).items():
            tree = self._tree(name)
            if await self._sources.contains(plan.sources[name], tree.commit, commit, say):
                return f"{name} at {tree.commit[:12]} has {commit}"
        return ""

    async def _script(self, run: Run) -> None:
        self._note(run.source, run.script)
        start = await self._tree(run.source).read(run.script.strip("/"))
        self._paths[run.source, run.script] = PathFact(folder=False, shebang=start.startswith(b"#!"))

    def _note(self, source: str, path: str) -> None:
        tree = self._tree(source)
        folder = is_folder(tree.entries, path)
        if folder is None:
            raise NotInSource(path=path, source=tree.origin)
        self._paths[source, path] = PathFact(folder=folder)

    def _tree(self, source: str) -> Tree:
        return self._trees[source, self._now[source]]


def used(plan: BuildPlan) -> tuple[str, ...]:
    """The sources that some step takes from, in the order in which they are stated."""
    wanted: set[str] = set()
    for step in plan.steps:
        one = step.apply or step.copy_ or step.run or step.pip or step.extension
        if one is not None and one.source is not None:
            wanted.add(one.source)
        if step.apply is not None:
            wanted.add(step.apply.onto)
        if step.run is not None:
            wanted |= set(step.run.before or ())
    return tuple(name for name in plan.sources if name in wanted)
