"""SGLang waits on TERM for its last request without a limit; one that hangs makes every stop end in KILL."""

from __future__ import annotations

from collections.abc import Iterator

from agent.engines.model import EngineKind
from agent.plan.advice.rule import Case, Rule


def look(case: Case) -> Iterator[tuple[str, str]]:
    if case.serves(EngineKind.SGLANG) and case.env.get("SGL_FORCE_SHUTDOWN") not in ("1", "true"):
        yield (
            "a stop waits for the last request for ever, hung ones too, until it is killed",
            "--set env.SGL_FORCE_SHUTDOWN=1",
        )


RULE = Rule("drain.endless", "SGLang 0.5.23, TokenizerManager.sigterm_watchdog", look)
