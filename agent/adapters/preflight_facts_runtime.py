"""What the checks ask of the runtime, in their words."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import fields
from typing import Any, TypeVar

from agent.clock import Clock
from agent.container.port import LABEL_RECIPE, ContainerView, ImageFacts, Runtime, RuntimeFacts
from agent.errors import AgentError
from agent.host.reading import Known, Reading, Unknown
from agent.preflight.facts import ContainerEngine, Image, Neighbour
from agent.quantity import Bytes

T = TypeVar("T")
U = TypeVar("U")


class RuntimeQuestions:
    """Asks the runtime and turns its errors into reasons."""

    def __init__(self, runtime: Runtime, clock: Clock) -> None:
        self._runtime = runtime
        self._clock = clock

    async def engine(self) -> Reading[ContainerEngine]:
        return await self._ask(self._runtime.facts(), engine_of)

    async def image(self, reference: str) -> Reading[Image | None]:
        return await self._ask(self._runtime.image(reference), lambda facts: image_of(facts) if facts else None)

    async def named(self, name: str) -> Reading[Neighbour | None]:
        holder = await self._ask(self._runtime.name_holder(name), lambda found: found)
        if isinstance(holder, Unknown):
            return holder
        if isinstance(holder.value, str):
            return await self._foreign(holder.value, name)
        return Known(view_of(holder.value) if holder.value else None, holder.at)

    async def these(self, ids: Collection[str]) -> Reading[tuple[Neighbour, ...]]:
        """The containers of these ids, foreign ones too; those that this runtime does not know are left out."""
        looks = await asyncio.gather(*(self._ask(self._runtime.inspect(one), neighbour_of) for one in ids))
        if failed := [look for look in looks if isinstance(look, Unknown)]:
            return failed[0]
        found = [look.value for look in looks if isinstance(look, Known) and look.value is not None]
        return Known(tuple(found), self._clock.now())

    async def _foreign(self, container: str, name: str) -> Reading[Neighbour | None]:
        seen = await self._ask(self._runtime.inspect(container), neighbour_of)
        if isinstance(seen, Known) and seen.value is None:
            return Known(Neighbour(container, name, running=False), seen.at)
        return seen

    async def _ask(self, question: Awaitable[T], into: Callable[[T], U]) -> Reading[U]:
        try:
            return Known(into(await question), self._clock.now())
        except AgentError as error:
            return Unknown(error.text)


def engine_of(facts: RuntimeFacts) -> ContainerEngine:
    names = (field.name for field in fields(ContainerEngine) if field.name in RuntimeFacts.__dataclass_fields__)
    return ContainerEngine(**{name: getattr(facts, name) for name in names})


def image_of(facts: ImageFacts) -> Image:
    return Image(
        id=facts.id,
        size=Bytes(facts.size) if facts.size is not None else None,
        entrypoint=facts.entrypoint,
        env=facts.env or {},
        user=facts.user,
        architecture=facts.architecture,
    )


def view_of(view: ContainerView) -> Neighbour:
    return Neighbour(id=view.id, name=view.name, running=view.running, slug=view.slug)


def neighbour_of(inspected: Mapping[str, Any] | None) -> Neighbour | None:
    """From Docker's GET /containers/ID/json; None for a container that is gone."""
    if inspected is None:
        return None
    labels = (inspected.get("Config") or {}).get("Labels") or {}
    bindings = ((inspected.get("NetworkSettings") or {}).get("Ports") or {}).items()
    return Neighbour(
        id=str(inspected.get("Id", "")),
        name=str(inspected.get("Name", "")).lstrip("/"),
        running=bool((inspected.get("State") or {}).get("Running")),
        slug=labels.get(LABEL_RECIPE),
        ports=frozenset(
            int(binding["HostPort"])
            for inside, published in bindings
            for binding in published or ()
            if str(inside).endswith("/tcp") and str(binding.get("HostPort", "")).isdigit()
        ),
        host_network=(inspected.get("HostConfig") or {}).get("NetworkMode") == "host",
    )
