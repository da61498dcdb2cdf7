"""Pinned recipes on disk: `SLUG/pin.json` and the bytes beside it, named by their SHA-256."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import tempfile
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from agent.recipe.source import Pin
from agent.recipe.trouble import PinBroken, SourceTrouble


class DiskPins:
    """Whole or not at all: bytes first, then the pin, each written beside its place and renamed into it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    async def get(self, slug: str) -> tuple[Pin, bytes] | None:
        return await asyncio.to_thread(self._get, slug)

    async def put(self, pin: Pin, data: bytes | None = None) -> None:
        await asyncio.to_thread(self._put, pin, data)

    def _get(self, slug: str) -> tuple[Pin, bytes] | None:
        place = self.folder / slug
        try:
            pin = _pin(json.loads((place / "pin.json").read_bytes()))
            data = (place / f"{pin.sha256}.json").read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise PinBroken(slug=slug, why=error.strerror or str(error)) from error
        except (ValueError, TypeError) as error:
            raise PinBroken(slug=slug, why=f"{place / 'pin.json'}: {error}") from error
        if hashlib.sha256(data).hexdigest() != pin.sha256 or pin.slug != slug:
            raise PinBroken(slug=slug, why=f"{place} holds other bytes than were pinned")
        return pin, data

    def _put(self, pin: Pin, data: bytes | None) -> None:
        place = self.folder / pin.slug
        try:
            place.mkdir(parents=True, exist_ok=True)
            if data is not None:
                _write(place / f"{pin.sha256}.json", data)
            _write(place / "pin.json", json.dumps(asdict(pin), indent=1).encode())
        except OSError as error:
            raise SourceTrouble(what="the cache", source=str(place), why=error.strerror or str(error)) from error


def _pin(value: Any) -> Pin:
    if not isinstance(value, dict) or {field.name for field in fields(Pin)} != set(value):
        raise ValueError("it is no pin")
    return Pin(**value)


def _write(path: Path, data: bytes) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise
