"""Nearly all of a card's memory asked for: whatever else is on it, a display or an old worker, stops the start."""

from __future__ import annotations

from collections.abc import Iterator

from agent.engines.model import EngineKind
from agent.plan.advice.rule import Case, Rule

MOST = 0.95


def look(case: Case) -> Iterator[tuple[str, str]]:
    stated = case.flag("--gpu-memory-utilization", "--mem-fraction-static")
    if case.serves(EngineKind.VLLM, EngineKind.SGLANG) is None or stated is None:
        return
    share = number(stated)
    if share is not None and MOST < share <= 1:
        text = f"{share:.0%} of each card's memory leaves none for what the driver and other programs hold"
        yield text, f"launch: {{arguments: [{{argv: [--gpu-memory-utilization, '{MOST - 0.03:.2f}']}}]}}"


def number(text: str) -> float | None:
    """A share as the launch writes it; None for what is no number."""
    try:
        return float(text)
    except ValueError:
        return None


RULE = Rule("memory.share", "vllm-project/vllm#20305", look)
