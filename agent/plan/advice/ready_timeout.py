"""vLLM's own limit on its start (600 s unless the launch says otherwise) below what the start takes."""

from __future__ import annotations

from collections.abc import Iterator

from agent.engines.model import EngineKind
from agent.plan.advice.rule import Case, Rule

DEFAULT_S = 600.0
"""vLLM 0.14 and newer."""


def look(case: Case) -> Iterator[tuple[str, str]]:
    engine, expected = case.serves(EngineKind.VLLM), case.plan.watch.start_expected.seconds
    if engine is None or expected is None:
        return
    limit = engine.ready_timeout_s or DEFAULT_S
    if limit < expected:
        line = f"--set env.VLLM_ENGINE_READY_TIMEOUT_S={round(3 * expected)}"
        yield f"the engine gives its start up after {limit:g} s, and {expected:g} s are expected", line


RULE = Rule("ready.timeout", "vLLM 0.14, VLLM_ENGINE_READY_TIMEOUT_S", look)
