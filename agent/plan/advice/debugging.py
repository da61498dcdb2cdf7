"""Switches of a debugging session that were left in: every kernel waits, or every message is logged."""

from __future__ import annotations

from collections.abc import Iterator

from agent.plan.advice.rule import Case, Rule

_SLOW = {
    "CUDA_LAUNCH_BLOCKING": (("1",), "every kernel waits for the one before"),
    "NCCL_DEBUG": (("TRACE",), "every collective is logged"),
    "VLLM_TRACE_FUNCTION": (("1",), "every Python call is written down"),
}


def look(case: Case) -> Iterator[tuple[str, str]]:
    for name, (values, what) in _SLOW.items():
        if case.env.get(name) in values:
            yield f"{name}={case.env[name]}: {what}", f"--set env.{name}=0"


RULE = Rule("debugging", "vLLM documentation, Troubleshooting", look)
