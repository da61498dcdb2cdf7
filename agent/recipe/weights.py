"""The weights that a document names: a repository of the Hugging Face Hub, and the commit of it (pure)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from agent.recipe.model import Recipe

_ADDRESS = re.compile(r"https?://(?:www\.)?(?:huggingface\.co|hf\.co)/([\w.-]+/[\w.-]+)/?")
_COMMIT = re.compile(r"[0-9a-f]{40}\b")


@dataclass(frozen=True, slots=True)
class Published:
    """`artifacts[N]`: the repository, the commit where it is pinned, and the author's words about it."""

    repository: str
    commit: str | None
    words: str
    place: str

    def __str__(self) -> str:
        return f"{self.repository}@{self.commit}" if self.commit else self.repository


def published(recipe: Recipe) -> Published | None:
    """The one artifact that is model weights of the Hub; None where there is none, or several to choose from."""
    artifacts = recipe.document.get("artifacts")
    found = [one for at, entry in enumerate(artifacts if isinstance(artifacts, list) else ()) if (one := of(at, entry))]
    return found[0] if len(found) == 1 else None


def of(at: int, entry: object) -> Published | None:
    if not isinstance(entry, dict) or (entry.get("kind"), entry.get("pointer_type")) != ("model_weights", "hf_model"):
        return None
    address = _ADDRESS.fullmatch(str(entry.get("pointer") or "").strip())
    if address is None:
        return None
    pin = str(entry.get("pin") or "")
    commit = _COMMIT.match(pin)
    return Published(address[1], commit[0] if commit else None, pin, f"artifacts[{at}]")
