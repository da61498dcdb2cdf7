"""The host as it was when a plan was carried out, kept beside its lock."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import structlog

log = structlog.get_logger()


async def keep_host(folder: Path, plan_id: str, host: Mapping[str, Any]) -> None:
    """`<folder>/<plan_id>.json`, whole or not at all. A disk that is full must not keep an engine from its start."""
    try:
        await asyncio.to_thread(write, folder / f"{plan_id}.json", json.dumps(host, indent=1))
    except OSError as error:
        log.warning("host_not_kept", plan=plan_id, reason=str(error))


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".new")
    draft.write_text(text)
    draft.rename(path)
