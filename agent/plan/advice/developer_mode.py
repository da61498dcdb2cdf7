"""vLLM's developer endpoints on an open port: anybody can pause, reset or run code in the workers."""

from __future__ import annotations

from collections.abc import Iterator

from agent.plan.advice.rule import Case, Rule


def look(case: Case) -> Iterator[tuple[str, str]]:
    if case.engine is not None and case.engine.dev_mode and case.open_port:
        yield (
            "developer endpoints (pause, collective_rpc, reset) are on a port that other hosts reach",
            "--set env.VLLM_SERVER_DEV_MODE=0, or --set address=127.0.0.1",
        )


RULE = Rule("developer.mode", "vLLM documentation, Security: development mode endpoints", look)
