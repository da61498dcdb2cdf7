"""No bound on the context: the engine reserves for the model's whole one, and may find too little memory for it."""

from __future__ import annotations

from collections.abc import Iterator

from agent.engines.model import EngineKind
from agent.plan.advice.rule import Case, Rule


def look(case: Case) -> Iterator[tuple[str, str]]:
    engine = case.serves(EngineKind.VLLM, EngineKind.SGLANG)
    if engine is not None and engine.max_model_len is None:
        flag = "--max-model-len" if engine.kind is EngineKind.VLLM else "--context-length"
        text = "the context is not bounded, so it is the model's own: memory for it may be lacking at the start"
        yield text, f"launch: {{arguments: [{{argv: [{flag}, TOKENS]}}]}}"


RULE = Rule("context.whole", "vLLM documentation, Conserving memory", look)
