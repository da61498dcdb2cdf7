"""The bundle of `doctor --bundle`: what a bug report needs, without secrets."""

from __future__ import annotations

import io
import json
import os
import platform
import tarfile
import time
from collections.abc import Mapping
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from agent.errors import InvalidInput
from agent.host.model import Host
from agent.incident.redact import redact, redact_text
from agent.preflight.doctor import sentence
from agent.preflight.model import Finding
from agent.preflight.render import as_json, as_text
from agent.quantity import Bytes
from agent.settings.model import Settings
from agent.version import VERSION

FOLDER = "recipe-agent-doctor"
USED = ("aiohttp", "apscheduler", "docker", "nvidia-ml-py", "prometheus-client", "pydantic", "pyyaml", "structlog")


def write(path: str, settings: Settings, findings: tuple[Finding, ...], host: Host) -> Bytes:
    """Write the archive whole or not at all, readable by its owner alone; its size."""
    documents = contents(settings, findings, host)
    target = Path(path)
    fresh = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            pack(file, documents)
        size = fresh.stat().st_size
        fresh.replace(target)
    except OSError as error:
        fresh.unlink(missing_ok=True)
        raise InvalidInput(
            f"cannot write {path}: {error.strerror}", advice="name a file in a folder that is there"
        ) from error
    return Bytes(size)


def contents(settings: Settings, findings: tuple[Finding, ...], host: Host) -> dict[str, str]:
    """File name → text, secrets removed."""
    return {
        "doctor.txt": redact_text(as_text(findings, last=sentence(findings))) + "\n",
        "doctor.json": as_document(as_json(findings)),
        "host.json": as_document(host.to_json()),
        "settings.json": as_document(settings.model_dump(mode="json")),
        "versions.json": as_document(versions()),
    }


def as_document(value: Mapping[str, Any]) -> str:
    return json.dumps(redact(value), indent=2, ensure_ascii=False, default=str) + "\n"


def versions() -> dict[str, Any]:
    """The agent's, Python's and those of the packages that it stands on."""
    found = {one.name.lower(): one.version for one in distributions() if one.name.lower() in USED}
    return {"recipe-agent": VERSION, "python": platform.python_version(), "system": platform.platform(), **found}


def pack(file: io.BufferedWriter, documents: Mapping[str, str]) -> None:
    with tarfile.open(fileobj=file, mode="w:gz") as archive:
        for name, text in documents.items():
            data = text.encode()
            entry = tarfile.TarInfo(f"{FOLDER}/{name}")
            entry.size, entry.mode, entry.mtime = len(data), 0o600, int(time.time())
            archive.addfile(entry, io.BytesIO(data))
