"""`--trust-remote-code`: Python of the model's repository runs with everything that the container may do."""

from __future__ import annotations

from collections.abc import Iterator

from agent.plan.advice.rule import Case, Rule


def look(case: Case) -> Iterator[tuple[str, str]]:
    if case.flag("--trust-remote-code") is None:
        return
    model = case.engine.model if case.engine else None
    pinned = case.flag("--revision", "--code-revision") is not None
    if not pinned and model is not None and not model.startswith(("/", ".")):
        yield (
            f"code of {model} runs in the container, whatever it is by then",
            "pin it: --revision COMMIT --code-revision COMMIT",
        )


RULE = Rule("foreign.code", "Transformers documentation, trust_remote_code", look)
