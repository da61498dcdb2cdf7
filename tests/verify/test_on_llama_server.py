"""`agentctl verify` on llama.cpp's own server: a recipe that claims what was measured, and twice that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.rig import Rig, running
from tests.lab.children import free_port
from tests.real.engines import llamacpp

pytestmark = [pytest.mark.llamacpp, pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(240)]

CONTEXT = 16_000
"""So long that the tiny model decodes for most of a second."""
PLACEHOLDER = 1.0


def measured(rig: Rig, shared: Path, slug: str, *claims: float) -> list[dict[str, Any]]:
    """Deploys a fresh server whose recipe makes these claims of (all but) the same work, verifies it; a row each."""
    engine = llamacpp(shared, free_port())
    points = [
        {"id": number, "context_len": CONTEXT + number, "concurrency": 1, "decode_tok_s": claim}
        for number, claim in enumerate(claims)
    ]
    rig.publish(
        {
            "slug": slug,
            "title": slug,
            "revision": {"no": 1, "content_hash": "0" * 8},
            "config": {"launch": list(engine.command)},
            "perf_points": points,
        }
    )
    rig.ok("deploy", slug, "--yes", "-q", "--wait=60")
    report = rig.ok("verify", slug, "-o", "json", timeout=180).json
    rig.ok("remove", slug)
    by_name = {row["point"]: row for row in report["rows"]}
    return [by_name[f"decode c1 @{CONTEXT + number}"] for number in range(len(claims))]


def test_claims_that_were_measured_are_kept_and_doubled_ones_by_half(
    llama_server: Path, shared: Path, tmp_path: Path
) -> None:
    """Both claims stand in one report, so that what else the machine does meets both."""
    with running(tmp_path) as rig:
        (first,) = measured(rig, shared, "measured", PLACEHOLDER)
        rate = first["measured"]
        assert rate > PLACEHOLDER, first
        kept, doubled = measured(rig, shared, "claimed", rate, 2 * rate)
    print(f"{rate:.0f} tok/s on {llama_server}: kept {kept['ratio']:.2f}, doubled {doubled['ratio']:.2f}")
    assert 0.5 <= kept["ratio"] <= 2.0
    assert 0.25 <= doubled["ratio"] / kept["ratio"] <= 0.85
    assert kept["low"] <= kept["measured"] <= kept["high"]
