"""Ready means working: what a profile wants to see of an engine before its start counts as done."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from agent.engines.model import EngineLaunch, EngineReading, Request
from agent.plan.model import Acceptance
from agent.samples.model import Missed
from agent.samples.port import Answer, Endpoint, Probe

LEAST_S = 120.0
SECONDS_A_TOKEN = 2.0
"""No engine worth a card is slower; a first request may compile for a minute besides."""
PROMPT = "Count upwards from one, one number a line, and do not stop: 1\n2\n3\n"


@dataclass(frozen=True, slots=True)
class Accepted:
    """Whether everything was seen, and what was not."""

    ok: bool
    why: str


@dataclass(frozen=True, slots=True)
class Applicant:
    """The engine that is tried."""

    endpoint: Endpoint
    launch: EngineLaunch
    read_metrics: Callable[[str], EngineReading]
    unseen: Callable[[], tuple[str, ...]]
    """Log lines that were wanted and have not come yet."""


async def accept(probe: Probe, applicant: Applicant, wanted: Acceptance, nonce: str) -> Accepted:
    """Stream the tokens, hold the counters against it, look for the lines. The first that is missing is the answer."""
    before = await counters(probe, applicant)
    if wanted.stream_tokens:
        streamed = await stream(probe, applicant, wanted.stream_tokens, nonce)
        if not streamed.ok:
            return streamed
    after = await counters(probe, applicant)
    still = [name for name in wanted.counters if after.get(name, 0.0) <= before.get(name, 0.0)]
    if still:
        return Accepted(False, f"these counters did not move: {', '.join(still)}")
    if lines := applicant.unseen():
        return Accepted(False, f"these lines were not seen in its log: {'; '.join(lines)}")
    return Accepted(True, "everything that its profile wants was seen")


async def counters(probe: Probe, applicant: Applicant) -> dict[str, float]:
    """Progress counters by name, over all ranks."""
    path = applicant.launch.metrics
    text = await probe.metrics(applicant.endpoint, path, 10.0) if path else None
    if text is None or isinstance(text, Missed):
        return {}
    found: dict[str, float] = {}
    for rank in applicant.read_metrics(text).ranks:
        for name, value in rank.progress.items():
            found[name] = found.get(name, 0.0) + value
    return found


async def stream(probe: Probe, applicant: Applicant, tokens: int, nonce: str) -> Accepted:
    """One request for so many tokens, streamed. An end by the model's own will is an end as well."""
    answer = await probe.ask(
        applicant.endpoint, request(applicant.launch, tokens, nonce), max(LEAST_S, tokens * SECONDS_A_TOKEN)
    )
    if isinstance(answer, Missed):
        return Accepted(False, f"a stream of {tokens} tokens did not come: {answer.why}")
    return read_stream(answer, tokens)


def request(launch: EngineLaunch, tokens: int, nonce: str) -> Request:
    named = {} if launch.served_model is None else {"model": launch.served_model}
    asked = {"prompt": f"{nonce}\n{PROMPT}", "max_tokens": tokens, "temperature": 0, "ignore_eos": True}
    return Request(
        "/v1/completions", "POST", {**named, **asked, "stream": True, "stream_options": {"include_usage": True}}
    )


def read_stream(answer: Answer, tokens: int) -> Accepted:
    """A dead engine ends its stream with an error event and `[DONE]` under 200: the tokens count, not the end."""
    if answer.status != 200:
        return Accepted(False, f"a stream of {tokens} tokens was answered with {answer.status}: {answer.text[:200]}")
    pieces, counted, ended, error = 0, None, None, None
    for event in events(answer.text):
        error = event.get("error") or error
        usage = event.get("usage") or {}
        counted = usage.get("completion_tokens", counted)
        for choice in event.get("choices") or ():
            pieces += bool(choice.get("text"))
            ended = choice.get("finish_reason") or ended
    got = counted if counted is not None else pieces
    if error is not None or got == 0:
        return Accepted(False, f"a stream broke off after {got} of {tokens} tokens: {error or 'no reason was given'}")
    if got < tokens and ended != "stop":
        return Accepted(False, f"a stream ended after {got} of {tokens} tokens ({ended or 'no reason given'})")
    return Accepted(True, f"{got} tokens in {answer.seconds:.1f} s")


def events(text: str) -> Iterator[dict[str, Any]]:
    """The JSON of server-sent events; what is none is passed over."""
    for line in text.splitlines():
        if line.startswith("data:") and line[5:].strip() != "[DONE]":
            try:
                event = json.loads(line[5:])
            except (ValueError, RecursionError):
                continue
            if isinstance(event, dict):
                yield event
