"""Recipes for the simulator, and a site's profile whose windows fit its scaled time."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

IMAGE = "recipe-agent-e2e/simulator:1"

# A start of two seconds and 40 tokens a second: enough to see steps, little enough to leave the machine alone.
SIMULATED = {"SIM_SCALE": "0.1", "SIM_START_S": "20", "SIM_BOOT_S": "2", "SIM_DECODE_TOK_S": "4"}

# One second here is what ten to thirty are on a rig.
WINDOWS: dict[str, Any] = {
    "period": 0.5,
    "scrape_timeout": 2,  # what a busy machine does not answer in time looks like an engine that cannot be seen
    "suspect": 2,
    "stall": 5,
    "stall_blind": 8,
    "canary_timeout": 2,
    "canary_idle": 600,
    "canary_idle_timeout": 1,
    "zombie": 4,
    "standing": 300,
    "start_silence": 20,
    "refused": 2,
    "unobservable": 8,
    "jit": 0,
    "jit_limit": 0,
    "jit_after_ready": 0,
    "term": 2,
    "term_clients": 2,
    "kill": 5,
    "release": 20,
    "backoff": [0.5, 1, 1],
}


def recipe(
    slug: str, port: int, image: str = IMAGE, flags: Sequence[str] = (), env: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """A document whose launch starts the simulator on `port`; `env` are variables of its container."""
    variables = [word for name, value in {**SIMULATED, **(env or {})}.items() for word in ("-e", f"{name}={value}")]
    container = ["docker", "run", "-d", "--name", slug, *variables, "-p", f"{port}:{port}", "--entrypoint", "vllm"]
    engine = ["serve", "sim", "--port", str(port), "--max-model-len", "524288", "--max-num-batched-tokens", "8192"]
    return {
        "slug": slug,
        "title": f"The simulator as {slug}",
        "revision": {"no": 1, "content_hash": f"{port:040x}"},
        "config": {"launch": [*container, image, *engine, *flags]},
        "perf_points": [{"id": 1, "context_len": 32768, "concurrency": 1, "prefill_tok_s": 4064, "decode_tok_s": 60}],
    }


def profile(**windows: Any) -> str:
    """A site's profile with these windows changed; YAML holds JSON."""
    return json.dumps({"watch": WINDOWS | windows})
