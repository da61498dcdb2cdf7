"""A container's memory limit below what the recipe says it needs: the kernel ends the engine."""

from __future__ import annotations

from collections.abc import Iterator

from agent.plan.advice.rule import Case, Rule
from agent.quantity import Bytes


def look(case: Case) -> Iterator[tuple[str, str]]:
    limit = case.host.get("Memory") or 0
    need = next((need.need for need in case.plan.requirements if need.id == "memory.available"), None)
    if limit and isinstance(need, Bytes) and limit < need:
        yield (
            f"the container may use {Bytes(limit)} of memory, and {need} are needed",
            "leave --memory out of launch.line",
        )


RULE = Rule("memory.limit", "Docker documentation, Resource constraints", look)
