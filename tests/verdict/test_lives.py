"""Healthy lives that look like a fault, and that the fault beside each is still found."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agent.engines.model import EngineKind
from agent.verdict.model import Judged, Remedy
from tests.verdict import lives
from tests.verdict import scenarios as s
from tests.verdict.rows import STARTUP, SUSPECT, Loud, Quiet, must_fire, must_not_fire

BUSY, READY = frozenset({Judged.BUSY}), frozenset({Judged.READY})
SGLANG: dict[str, Any] = {"engine": s.SGLANG}
TRTLLM: dict[str, Any] = {"engine": s.TRTLLM}
LLAMA: dict[str, Any] = {"engine": s.LLAMA}
LLAMA_BLIND: dict[str, Any] = {"engine": replace(s.LLAMA, metrics=None)}
OPENAI: dict[str, Any] = {"engine": replace(s.TABBY, kind=EngineKind.OPENAI)}
UNLEARNED: dict[str, Any] = {**OPENAI, "learned": {}}
UNCHUNKED: dict[str, Any] = {"engine": replace(s.PP4, chunk_tokens=None, chunked=False)}

QUIET = [
    Quiet("TensorRT-LLM idle after its work", lives.iterations_end_with_the_work(), 3600, Judged.READY, BUSY | SUSPECT,
          how=TRTLLM),
    Quiet("a canary whose kernels are compiled first", lives.canary_of_a_new_shape(), 1800, Judged.READY, SUSPECT),
    Quiet("a model that comes back to the cards", lives.model_comes_back(lives.onto_the_cards), 1800, Judged.READY,
          SUSPECT, how=OPENAI),
    Quiet("a model that comes back from the disk", lives.model_comes_back(lives.from_the_disk), 1800, Judged.READY,
          SUSPECT, how=OPENAI),
    Quiet("data-parallel ranks are added", lives.ranks_are_added(600), 1200, Judged.BUSY,
          frozenset({Judged.UNOBSERVABLE})),
    Quiet("SGLang's soft watchdog", lives.soft_watchdog, 600, Judged.BUSY, SUSPECT, how=SGLANG),
    Quiet("tokens of a session", lives.tokens_of_a_session, 3600, Judged.BUSY, SUSPECT | READY, how=SGLANG),
    Quiet("tokens of a session, no canary", lives.refused(lives.tokens_of_a_session), 3600, Judged.SUSPECT,
          BUSY | READY, how=SGLANG),
    Quiet("one slot without metrics", lives.one_slot(3600), 3600, Judged.BUSY, SUSPECT, how=LLAMA_BLIND),
    Quiet("a full batch without metrics", lives.full_batch, 3600, Judged.SUSPECT, BUSY | READY, how=UNLEARNED),
    Quiet("a prompt in one step", lives.whole_prompt_at_once, 900, Judged.BUSY, SUSPECT, how=UNCHUNKED),
    Quiet("a page that was closed", lives.page_was_closed(1800), 1800, Judged.SUSPECT, BUSY, how=LLAMA),
    Quiet("one rank prefills without a step to be seen", lives.rank_prefills_beside_another, 1200, Judged.SUSPECT, BUSY,
          how={"world": s.two_ranks}),
    *(Quiet(f"started, and its health path says {status}", lives.started_behind_a_key(status), 3600, Judged.READY,
            frozenset({Judged.STARTING}), how={**OPENAI, **STARTUP}) for status in (401, 403, 404, 307)),
    Quiet("SGLang paused in place", lives.weights_are_updated(), 1300, Judged.BUSY, frozenset({Judged.ASLEEP}),
          how=SGLANG),
    Quiet("SGLang paused and never told to go on", lives.weights_are_updated(""), 3600, Judged.ASLEEP, BUSY,
          how=SGLANG),
    Quiet("a response in the background", lives.background(60, 1e9), 3600, Judged.SUSPECT, BUSY | READY, how=SGLANG),
    Quiet("one that ran before the agent", s.f7, 3600, Judged.SUSPECT, BUSY, how=SGLANG),
    Quiet("fewer ranks after a restart", lives.fewer_ranks_after_a_restart, 1200, Judged.BUSY,
          SUSPECT, how={"world": s.two_ranks}),
]  # fmt: skip

LOUD = [
    Loud("one rank hangs, the others answer every canary", lives.rank_hangs_beside_another, 264, Judged.STALLED,
         kind="busy", how={"world": s.two_ranks}),
    Loud("TensorRT-LLM hangs with a request", s.then(s.f15, before=s.trt_works), 264, Judged.STALLED, kind="busy",
         how=TRTLLM),
    Loud("the HTTP side turns everybody away for ever", lives.ranks_are_added(9999), 900 + 20, Judged.DEAD,
         kind="engine_dead", fault=100.0),
    Loud("the core is dead and was never scraped", s.then(s.f5), 30, Judged.DEAD, kind="engine_dead",
         how={"engine": replace(s.PP4, metrics=None)}),
    Loud("started, and its health path says 503 for ever", lives.started_behind_a_key(503), 320, Judged.STALLED,
         kind="start", fault=60.0, how={**OPENAI, **STARTUP}),
    Loud("SGLang hangs, the word to go on was missed", lives.weights_are_updated("missed"), 264, Judged.STALLED,
         kind="busy", fault=1300.0, how=SGLANG),
    Loud("SGLang hangs after it was told to go on", lives.weights_are_updated(), 264, Judged.STALLED, kind="busy",
         fault=1300.0, how=SGLANG),
    Loud("one slot hangs without metrics", lives.one_slot(600), 447 + 20, Judged.STALLED, kind="busy",
         how=LLAMA_BLIND),
    Loud("a prompt in one step never ends", s.then(s.hang), 447 + 20, Judged.STALLED, kind="busy", how=UNCHUNKED),
    Loud("a client goes long after a response in the background", s.then(s.f7, before=lives.background(60, 200)), 140,
         Judged.ZOMBIE, Remedy.ABORT, "zombie_burning", how=SGLANG),
    Loud("a response in the background makes no more steps", lives.background(60, 1e9, stuck=s.FAULT), 264,
         Judged.ZOMBIE, Remedy.ABORT, "zombie_held", how=SGLANG),
    Loud("a slot is wedged after its page was closed", lives.page_was_closed(300), 300, Judged.ZOMBIE,
         Remedy.ABORT, "zombie_held",
         fault=300.0, how=LLAMA),
]  # fmt: skip


@pytest.mark.parametrize("case", QUIET, ids=lambda case: case.row)
def test_must_not_fire(case: Quiet) -> None:
    must_not_fire(case)


@pytest.mark.parametrize("case", LOUD, ids=lambda case: case.row)
def test_must_fire(case: Loud) -> None:
    must_fire(case)
