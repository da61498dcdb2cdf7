"""Weights by the name of a repository, and no folder for them: every new container fetches them again."""

from __future__ import annotations

from collections.abc import Iterator

from agent.plan.advice.rule import Case, Rule

_HOMES = ("HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE")
_DEFAULT = "/root/.cache/huggingface"


def look(case: Case) -> Iterator[tuple[str, str]]:
    model = case.engine.model if case.engine else None
    if model is None or not case.contained or model.startswith(("/", ".")) or model.count("/") != 1:
        return
    place = next((case.env[name] for name in _HOMES if case.env.get(name)), _DEFAULT)
    if not case.mounted(place, f"{place}/hub"):
        yield f"{model} is fetched anew into every container", f"mounts: [/path/huggingface:{place}]"


RULE = Rule("weights.folder", "vLLM documentation, Using Docker", look)
