"""What the API, the metrics and the status page show of one deployment: the last tick, frozen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agent.action.record import Deployment
from agent.plan.model import Plan
from agent.preflight.model import Finding
from agent.samples.model import Sample
from agent.verdict.model import Verdict


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a plan was not started: the error object of the API."""

    plan_id: str
    error: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Verified:
    """The last verification of the plan that is deployed, and when the schedule comes by next; epoch seconds."""

    at: float | None = None
    text: str = ""
    following: float | None = None


@dataclass(frozen=True, slots=True)
class Board:
    """One deployment as of its last tick. `endpoint` is the URL that clients use, None while nothing runs."""

    record: Deployment
    plan: Plan
    runtime: str
    at: float
    endpoint: str | None = None
    verdict: Verdict | None = None
    sample: Sample | None = None
    findings: tuple[Finding, ...] = ()
    refused: Refusal | None = None
    progress: Mapping[str, Any] = field(default_factory=dict)
    startup_s: float | None = None
    """How long the last start took until ready."""
    tick_s: float | None = None
    """How long the last whole tick took."""
    verified: Verified = Verified()
