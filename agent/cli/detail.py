"""One deployment in full, as `agentctl status SLUG` shows it: figures with their units, and what cannot be seen."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

FIGURES = {
    "requests_running": ("requests running", "{:,.0f}"),
    "requests_waiting": ("requests waiting", "{:,.0f}"),
    "client_connections": ("client connections", "{:,.0f}"),
    "zombie_requests": ("requests for nobody", "{:,.0f}"),
    "zombie_kv_tokens": ("KV tokens for nobody", "{:,.0f}"),
    "prompt_tokens": ("prompt tokens, since its start", "{:,.0f}"),
    "generation_tokens": ("generation tokens, since its start", "{:,.0f}"),
    "kv_cache_usage_ratio": ("KV cache in use", "{:.1%}"),
    "decode_tokens_per_second": ("tokens/s, a minute", "{:,.1f}"),
    "startup_left_seconds": ("start-up left, about", "{:,.0f} s"),
    "spec_decode_acceptance_ratio": ("drafts accepted", "{:.0%}"),
}
"""Figure → its words and its form; another one stands as it came."""
BLIND = {
    "metrics": "its metrics",
    "step_counter": "single steps (it counts tokens, and a prefill shows none until its end)",
    "kv_usage": "how full the KV cache is",
    "process_start": "when its process began",
    "connections": "its clients' connections",
    "log": "its log",
}


def detail(one: Mapping[str, Any]) -> list[str]:
    """A line a fact, in two columns."""
    rows = dict(facts(one))
    rows |= dict(figure(name, value) for name, value in one["figures"].items())
    width = max(map(len, rows))
    return [f"  {name:<{width}}  {value}" for name, value in rows.items()]


def facts(one: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if one["step"] != one["why"]:
        yield "last step", one["step"]
    thing = "process" if one["runtime"] == "process" else "container"
    yield "generation", f"{one['generation']}, {thing} {(one['container'] or 'none')[:12]}"
    yield "plan", one["plan_id"]
    yield "restarts", f"{one['restarts']} since it was last proven healthy, {one['restart_budget']} left"
    if waits := one.get("restart_waits"):
        yield "restart waits", f"{waits['why']} ({waits['reason']})"
    if one["incident"]:
        yield "evidence", f"agentctl incidents show {one['incident']}"
    if one["accepted"]:
        yield "accepted", ", ".join(one["accepted"])
    if one["blind"]:
        yield "cannot see", "; ".join(BLIND.get(name, name.replace("_", " ")) for name in one["blind"])


def figure(name: str, value: Any) -> tuple[str, str]:
    """Its words and its text; what is not known is not a number."""
    if name == "seconds_since_progress":
        return "silent for", silences(value)
    words, form = FIGURES.get(name, (name.replace("_", " "), "{}"))
    return words, "unknown" if value is None else form.format(value)


def silences(value: Any) -> str:
    """Of each rank, or of the only one."""
    if not isinstance(value, dict):
        return "unknown"
    if len(value) == 1:
        return f"{next(iter(value.values())):.0f} s"
    return ", ".join(f"{seconds:.0f} s (engine {rank})" for rank, seconds in value.items())
