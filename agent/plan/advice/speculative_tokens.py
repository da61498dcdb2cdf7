"""Speculative tokens that are no multiple of what the drafter predicts at a time: the engine refuses to start."""

from __future__ import annotations

from collections.abc import Iterator

from agent.plan.advice.rule import Case, Rule


def look(case: Case) -> Iterator[tuple[str, str]]:
    predicts = case.profile.serving.drafter_predicts
    asked = case.engine.speculative_tokens if case.engine else None
    if predicts is not None and asked and asked % predicts.value:
        text = f"{asked} speculative tokens, and the drafter predicts {predicts.value} at a time"
        yield text, f"num_speculative_tokens: {max(1, asked // predicts.value) * predicts.value}"


RULE = Rule("speculative.tokens", "vLLM, SpeculativeConfig: must be divisible by n_predict", look)
