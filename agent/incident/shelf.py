"""The kept incidents: list, show, export, and how long they stay."""

from __future__ import annotations

import io
import json
import shutil
import tarfile
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from agent.errors import NotFound
from agent.incident.model import Incident

SUMMARY = "incident.json"
UNFINISHED_S = 3600.0
"""Evidence is gathered in half a minute; what is unfinished for so long is nobody's any more."""


def incidents(shelf: Path, slug: str | None = None) -> list[Incident]:
    """All incidents that can be read, oldest first; of one deployment where `slug` is given."""
    found = [read(folder) for folder in folders(shelf)]
    return [one for one in found if one is not None and slug in (None, one.slug)]


def folders(shelf: Path) -> Iterator[Path]:
    """Folders of whole incidents by name, which is by time."""
    if shelf.is_dir():
        yield from sorted(path for path in shelf.iterdir() if path.is_dir() and not path.name.startswith("."))


def read(folder: Path) -> Incident | None:
    """The summary of one; None where it is damaged."""
    try:
        data = json.loads((folder / SUMMARY).read_text())
        at = datetime.fromisoformat(data["at"]).timestamp()
        return Incident(
            id=data["id"],
            slug=data["slug"],
            kind=data["kind"],
            why=data["why"],
            at=at,
            generation=data["generation"],
            seconds=data["seconds"],
            evidence=data["evidence"],
            missing=data["missing"],
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def folder_of(shelf: Path, incident_id: str) -> Path:
    """Its folder. An id is a name of a folder here and nothing else: no separators, no way up."""
    folder = shelf / incident_id
    if "/" in incident_id or incident_id.startswith(".") or not (folder / SUMMARY).is_file():
        advice = "agentctl incidents lists those that are"
        raise NotFound(what="incident", name=incident_id, why="none of that name is kept", advice=advice)
    return folder


def show(shelf: Path, incident_id: str) -> dict[str, object]:
    """The whole summary, verdict included."""
    data: dict[str, object] = json.loads((folder_of(shelf, incident_id) / SUMMARY).read_text())
    return data


def export(shelf: Path, incident_id: str) -> bytes:
    """One .tar.gz of the incident, fit for a bug report: secrets went out when it was written."""
    folder = folder_of(shelf, incident_id)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for path in sorted(folder.iterdir()):
            info = tarfile.TarInfo(f"{incident_id}/{path.name}")
            info.size, info.mtime, info.mode = path.stat().st_size, int(path.stat().st_mtime), 0o644
            with path.open("rb") as file:
                archive.addfile(info, file)
    return buffer.getvalue()


def sweep(shelf: Path, before: float) -> None:
    """Remove what was begun and never became an incident, since the agent was killed while it wrote."""
    for partial in shelf.glob(".*.partial"):
        if partial.stat().st_mtime < before:
            shutil.rmtree(partial, ignore_errors=True)


def tidy(shelf: Path, keep_days: int, max_bytes: int, now: float | None = None) -> list[str]:
    """Remove what is older than `keep_days`, then the oldest until all fit into `max_bytes`; the ids removed."""
    now = time.time() if now is None else now
    oldest_allowed = now - keep_days * 86_400
    sweep(shelf, now - UNFINISHED_S)
    removed, kept, total = [], [], 0
    for folder in folders(shelf):
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        if folder.stat().st_mtime < oldest_allowed:
            shutil.rmtree(folder, ignore_errors=True)
            removed.append(folder.name)
        else:
            kept.append((folder, size))
            total += size
    for folder, size in kept[:-1]:
        if total <= max_bytes:
            break
        shutil.rmtree(folder, ignore_errors=True)
        removed.append(folder.name)
        total -= size
    return removed
