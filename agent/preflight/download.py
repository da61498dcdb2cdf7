"""The exact command that brings a missing model folder (pure)."""

from __future__ import annotations

import re
import shlex

from agent.plan.model import Plan

ID = "weights"
MADE = re.compile(r"\b(?:conver(?:sion|ted)|quanti[sz]ed (?:locally|by us)|local pack)\b", re.IGNORECASE)
"""Words by which an author says that the repository is only what the served weights come from."""
ORIGINAL = "ORIGINAL"
"""Stands for a folder of the reader's choice."""
_REPOSITORY = re.compile(r"(?:hf:|https?://(?:www\.)?(?:huggingface\.co|hf\.co)/)?([\w.-]+/[\w.-]+)(?:@([\w.-]+))?/?")


def advice(plan: Plan, folder: str) -> str:
    """How to get the weights into `folder`, with what the recipe's author says of them; empty where it names none.

    The plan's requirement `weights` names a repository of the Hugging Face Hub: `owner/name`, `owner/name@revision`,
    or its address.
    """
    need = next((need for need in plan.requirements if need.id == ID), None)
    command = fetch(str(need.need), folder) if need else None
    if need is None or command is None:
        return ""
    said = f" (its author says: “{need.words}”)" if need.words else ""
    if MADE.search(need.words):
        return (
            f"these weights are made, not fetched: convert them as their author did, or copy {folder} from a host that "
            f"has it; the original is `{fetch(str(need.need), ORIGINAL)}`{said}"
        )
    return f"`{command}`{said}"


def fetch(repository: str, folder: str) -> str | None:
    """`hf download …`; None where `repository` is none."""
    match = _REPOSITORY.fullmatch(repository.strip())
    if match is None:
        return None
    revision = ["--revision", match[2]] if match[2] else []
    return shlex.join(["hf", "download", match[1], *revision, "--local-dir", folder])
