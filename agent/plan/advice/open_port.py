"""A port that others reach, and no API key: whoever finds it uses the cards."""

from __future__ import annotations

from collections.abc import Iterator

from agent.plan.advice.rule import Case, Rule


def look(case: Case) -> Iterator[tuple[str, str]]:
    if case.engine is not None and case.open_port and not case.engine.guarded:
        yield (
            f"port {case.engine.port} is open to every host that reaches this one, and asks for no key",
            "--set address=127.0.0.1, or give the engine --api-key by a secret",
        )


RULE = Rule("port.open", "vLLM documentation, Security", look)
