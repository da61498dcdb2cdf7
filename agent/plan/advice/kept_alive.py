"""An API server that outlives its engine: the container runs on and answers 503 for ever."""

from __future__ import annotations

from collections.abc import Iterator

from agent.engines.model import EngineKind
from agent.plan.advice.rule import Case, Rule


def look(case: Case) -> Iterator[tuple[str, str]]:
    if case.serves(EngineKind.VLLM) and case.env.get("VLLM_KEEP_ALIVE_ON_ENGINE_DEATH") in ("1", "true"):
        yield (
            "when the engine dies its container goes on and answers 503; found a little later than an exit",
            "--set env.VLLM_KEEP_ALIVE_ON_ENGINE_DEATH=0",
        )


RULE = Rule("kept.alive", "vLLM, VLLM_KEEP_ALIVE_ON_ENGINE_DEATH", look)
