"""The file of what the cards' links have been seen to do (`<state>/links.json`), there whole or not at all."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

from agent.clock import Clock
from agent.host.links import Links, from_json, to_json
from agent.host.reading import Known, Reading, Unknown

NOT_YET = "no agent has watched this host's cards yet"


class LinkFile:
    """Read by the checks, written by the daemon's look at the host."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock

    async def read(self) -> Reading[Links]:
        return await asyncio.to_thread(self._read)

    async def write(self, links: Links) -> None:
        """Raises OSError."""
        await asyncio.to_thread(_write, self._path, json.dumps(to_json(links), indent=1))

    def _read(self) -> Reading[Links]:
        try:
            return Known(from_json(json.loads(self._path.read_text())), self._clock.now())
        except FileNotFoundError:
            return Unknown(NOT_YET)
        except OSError as error:
            return Unknown(f"cannot read {self._path}: {error.strerror}")
        except (ValueError, TypeError, AttributeError):
            return Unknown(f"{self._path} cannot be read as links of cards")


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(text)
    draft.rename(path)
