"""Is there room for an image? Asked before a pull, of the manifest's sizes and of what is here already."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

from agent.errors import RuntimeTrouble
from agent.image.port import Say
from agent.image.trouble import ImageError
from agent.quantity import Bytes

UNPACKED = 3
"""Layers of engines unpack to two or three times of what travels."""


class NoRoom(ImageError):
    """It cannot fit: unpacked it is no smaller than what travels."""

    code = "image.no_room"
    message = "cannot pull {reference}: {need} have to be fetched, {free} are free in {folder}{kept}"
    hint = "free room there (docker system df, agentctl image prune), or move Docker's data-root"
    http_status = 507


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer of an image in a registry: bytes as they travel; `diff_id` is the engine's name for it unpacked."""

    size: int
    diff_id: str | None = None


@dataclass(frozen=True, slots=True)
class Store:
    """Where the engine keeps its images. `free` None: it cannot be seen from here."""

    folder: str
    free: int | None
    layers: Collection[str] = ()
    """Diff ids of every layer that is here."""
    architecture: str = ""
    """As registries spell it: `amd64`, `arm64`."""


class Registry(Protocol):
    """What a registry says of an image without handing it over."""

    async def layers(self, reference: str, architecture: str) -> tuple[Layer, ...] | None:
        """None where it does not say; the pull will meet the reason."""
        ...


class Engine(Protocol):
    """What the engine says of its store."""

    async def store(self) -> Store: ...


class Room:
    """The check before a pull."""

    def __init__(self, registry: Registry, engine: Engine, reserve: int = 0) -> None:
        self._registry = registry
        self._engine = engine
        self._reserve = reserve
        """Bytes that stay free (`images.disk_reserve`): engines' caches and logs grow in the same place."""

    async def __call__(self, reference: str, say: Say) -> None:
        """Raises NoRoom; says where it will be tight. What is not known stands in no way."""
        try:
            store = await self._engine.store()
        except RuntimeTrouble:
            return
        layers = await self._registry.layers(reference, store.architecture)
        if layers is None or store.free is None:
            return
        need = missing(layers, store)
        free = max(0, store.free - self._reserve)
        if need > free:
            kept = f", {Bytes(self._reserve)} of it are kept free (images.disk_reserve)" if self._reserve else ""
            raise NoRoom(reference=reference, need=need, free=Bytes(store.free), folder=store.folder, kept=kept)
        if need * UNPACKED > free:
            text = f"{reference}: {need} to fetch, {Bytes(store.free)} free in {store.folder}: unpacked it may not fit"
            say({"text": text, "ratio": None})


def missing(layers: Collection[Layer], store: Store) -> Bytes:
    """Bytes of the layers that are not here yet."""
    return Bytes(sum(layer.size for layer in layers if layer.diff_id is None or layer.diff_id not in store.layers))
