"""Does a request wait that this engine will never take?

A prompt that needs more KV cache than there is waits for ever while nothing runs (vllm-project/vllm#39734), and the
engine serves everybody else. Told from a hang by a canary that got its token meanwhile; no restart helps, so it is
named and left alone.
"""

from __future__ import annotations

from agent.engines.model import EngineReading
from agent.quantity import counted
from agent.samples.model import Sample
from agent.verdict.case import Case
from agent.verdict.kinds import Kind
from agent.verdict.model import Judged, Verdict


def judge(case: Case) -> Verdict | None:
    """Waiting and nothing running in every look for as long as makes a suspicion, with a token given in between."""
    span = case.window.tail(case.watch.suspect.value)
    token = case.marks.canaries.token
    if case.now - span[0].at < case.watch.suspect.value * 0.9 or token is None or token.mono < span[0].at.mono:
        return None
    waiting = [alone(sample) for sample in span if not sample.canary_out]
    if not waiting or not all(waiting):
        return None
    return Verdict(
        Judged.SUSPECT,
        f"0 requests run, {counted(waiting[-1], 'waits and is', 'wait and are')} not taken while the engine answers "
        "others: this needs more KV cache than it has; a restart does not help, the clients have to give up",
        kind=Kind.UNADMITTED,
        seconds_since_progress=max(0.0, case.now - token),
    )


def alone(sample: Sample) -> float:
    """Requests that wait while nothing runs; 0 where something runs or it cannot be told."""
    if not isinstance(sample.scrape, EngineReading):
        return 0.0
    ranks = sample.scrape.apart
    if any(rank.running is None or rank.running > 0 for rank in ranks):
        return 0.0
    return sum(rank.waiting or 0.0 for rank in ranks)
