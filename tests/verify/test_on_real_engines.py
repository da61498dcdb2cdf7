"""`agentctl verify` on real engines: a recipe that claims what was measured, and twice that."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.rig import Rig, running
from tests.lab.children import free_port
from tests.lab.fixtures import without
from tests.lab.place import Unavailable
from tests.real.engines import RealEngine, llamacpp, vllm

pytestmark = [pytest.mark.llamacpp, pytest.mark.slow, pytest.mark.long]

PLACEHOLDER = 1.0
VERIFY_S = 900


@dataclass(frozen=True)
class Trial:
    """An engine, and a context so long that its tiny model decodes for most of a second."""

    engine: RealEngine
    context: int


def tried(kind: str, shared: Path) -> Trial:
    try:
        if kind == "llama.cpp":
            return Trial(llamacpp(shared, free_port()), 16_000)
        return Trial(vllm(shared, free_port(), "--max-num-batched-tokens", "2048"), 1500)
    except Unavailable as gap:
        without(gap)


def measured(rig: Rig, trial: Trial, slug: str, *claims: float) -> list[dict[str, Any]]:
    """Deploys a fresh server whose recipe makes these claims of (all but) the same work, verifies it; a row each."""
    engine = trial.engine
    variables = [f"{name}={value}" for name, value in engine.env.items()]
    points = [
        {"id": number, "context_len": trial.context + number, "concurrency": 1, "decode_tok_s": claim}
        for number, claim in enumerate(claims)
    ]
    rig.publish(
        {
            "slug": slug,
            "title": slug,
            "revision": {"no": 1, "content_hash": "0" * 8},
            "config": {"launch": [*(["env", *variables] if variables else []), *engine.command]},
            "perf_points": points,
        }
    )
    rig.ok("deploy", slug, "--yes", "-q", f"--wait={engine.ready_s:.0f}", timeout=engine.ready_s + 30)
    report = rig.ok("verify", slug, "-o", "json", timeout=VERIFY_S).json
    rig.ok("remove", slug)
    by_name = {row["point"]: row for row in report["rows"]}
    return [by_name[f"decode c1 @{trial.context + number}"] for number in range(len(claims))]


@pytest.mark.timeout(2 * VERIFY_S)
@pytest.mark.parametrize("kind", ["llama.cpp", "vLLM"])
def test_claims_that_were_measured_are_kept_and_doubled_ones_by_half(kind: str, shared: Path, tmp_path: Path) -> None:
    """Both claims stand in one report, so that what else the machine does meets both."""
    with running(tmp_path) as rig:
        (first,) = measured(rig, tried(kind, shared), "measured", PLACEHOLDER)
        rate = first["measured"]
        assert rate > PLACEHOLDER, first
        kept, doubled = measured(rig, tried(kind, shared), "claimed", rate, 2 * rate)
    print(f"{kind} {rate:.0f} tok/s: kept {kept['ratio']:.2f}, doubled {doubled['ratio']:.2f}")
    assert 0.5 <= kept["ratio"] <= 2.0
    assert 0.25 <= doubled["ratio"] / kept["ratio"] <= 0.85
    assert kept["low"] <= kept["measured"] <= kept["high"]
