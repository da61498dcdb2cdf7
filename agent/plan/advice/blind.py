"""Metrics that are switched off, or never switched on: a stall cannot be told from a long prefill."""

from __future__ import annotations

from collections.abc import Iterator

from agent.engines.model import EngineKind
from agent.plan.advice.rule import Case, Rule

_FLAGS = {
    EngineKind.VLLM: "take --disable-log-stats out of the launch",
    EngineKind.SGLANG: "launch: {arguments: [{argv: [--enable-metrics]}]}",
    EngineKind.LLAMACPP: "launch: {arguments: [{argv: [--metrics]}]}",
}


def look(case: Case) -> Iterator[tuple[str, str]]:
    engine = case.serves(*_FLAGS)
    if engine is not None and engine.metrics is None:
        yield (
            f"{engine.kind.value} exports no metrics: progress cannot be seen, and silence is judged late",
            _FLAGS[engine.kind],
        )


RULE = Rule("metrics.off", "SGLang, vLLM and llama.cpp documentation: metrics", look)
