"""One deployment in full, as `agentctl status SLUG` shows it: figures with their units, and what cannot be seen."""

from __future__ import annotations

from agent.metrics.words import unseen, words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

FORMS = {
    "requests_running": "{:,.0f}",
    "requests_waiting": "{:,.0f}",
    "client_connections": "{:,.0f}",
    "zombie_requests": "{:,.0f}",
    "zombie_kv_tokens": "{:,.0f}",
    "prompt_tokens": "{:,.0f}",
    "generation_tokens": "{:,.0f}",
    "kv_cache_usage_ratio": "{:.1%}",
    "decode_tokens_per_second": "{:,.1f}",
    "startup_left_seconds": "{:,.0f} s",
    "spec_decode_acceptance_ratio": "{:.0%}",
}
"""Figure → its form; another one stands as it came."""


def detail(one: Mapping[str, Any]) -> list[str]:
    """A line a fact, in two columns."""
    rows = dict(facts(one))
    rows |= dict(figure(name, value) for name, value in one["figures"].items())
    width = max(map(len, rows))
    return [f"  {name:<{width}}  {value}" for name, value in rows.items()]


def facts(one: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if one["step"] and one["step"] != one["why"]:
        yield "last step", one["step"]
    thing = "process" if one["runtime"] == "process" else "container"
    yield "generation", f"{one['generation']}, {thing} {(one['container'] or 'none')[:12]}"
    yield "plan", one["plan_id"]
    yield "restarts", f"{one['restarts']} since it was last proven healthy, {one['restart_budget']} left"
    if waits := one.get("restart_waits"):
        yield "restart waits", f"{waits['why']} ({waits['reason']})"
    verification = one.get("verification") or {}
    if verification.get("at"):
        yield "verified", f"{verification['at']}: {verification['text']}"
    if verification.get("next"):
        yield "verified next", f"{verification['next']}, if nobody uses it then"
    if one["incident"]:
        yield "evidence", f"agentctl incidents show {one['incident']}"
    if one["accepted"]:
        yield "accepted", ", ".join(one["accepted"])
    if one["blind"]:
        yield "cannot see", "; ".join(map(unseen, one["blind"]))


def figure(name: str, value: Any) -> tuple[str, str]:
    """Its words and its text; what is not known is not a number."""
    if name == "seconds_since_progress":
        return "silent for", silences(value)
    return words(name), "unknown" if value is None else FORMS.get(name, "{}").format(value)


def silences(value: Any) -> str:
    """Of each rank, or of the only one."""
    if not isinstance(value, dict):
        return "unknown"
    if len(value) == 1:
        return f"{next(iter(value.values())):.0f} s"
    return ", ".join(f"{seconds:.0f} s (engine {rank})" for rank, seconds in value.items())
