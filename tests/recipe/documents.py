"""Small documents of our own in the form of a recipe site's."""

from __future__ import annotations

import json
from typing import Any


def document(**changes: Any) -> dict[str, Any]:
    """A whole recipe; keyword arguments replace top-level keys."""
    base: dict[str, Any] = {
        "slug": "small-model-on-2x-card",
        "title": "Small model on 2x card \\x{2014} TP2",
        "summary": "A small model. It needs 20 GB of RAM.",
        "tier": "community",
        "revision": {
            "no": 3,
            "content_hash": "a" * 40,
            "commit_sha": "b" * 40,
            "created_at": "2026-10-20 15:34:08.130558-06",
        },
        "engine_source": {"base_engine": "vllm", "image_digest": None, "pip_package": None},
        "config": {
            "launch": [
                "docker",
                "run",
                "-d",
                "--gpus",
                "all",
                "-p",
                "8000:8000",
                "engine:v1",
                "serve",
                "/models/small",
            ],
            "runtime": {"env": "A=1 | B=2 (as the author has it)", "notes": "Restart after a hang. Keep it cool."},
            "max_context_len": "32,768",
            "storage_requirements": {"ram_gb": 20},
        },
        "models": [{"name": "Small", "hf_repo": "org/small", "quant": "fp8"}],
        "hardware": [{"vendor": "nvidia", "card": "card-1", "vram_gb": 64, "device_count": 2}],
        "tags": ["long-context"],
        "performance": [
            {
                "claimed_by": "submitter",
                "metrics": json.dumps(
                    {
                        "notes": "Measured twice. Warm.",
                        "points": [
                            {"concurrency": 1, "context_len": 32768, "decode_tok_s": 54.7000000000000028421709430404},
                            {"concurrency": 1, "context_len": 32768, "prefill_tok_s": 4061, "ttft_ms": 9000},
                        ],
                    }
                ),
            }
        ],
        "perf_points": [
            {"id": 1, "context_len": 32768, "concurrency": 1, "decode_tok_s": 54.7, "prefill_tok_s": None},
            {"id": 2, "context_len": 1, "concurrency": 8, "decode_tok_s": 200.6, "prefill_tok_s": 0, "ttft_ms": None},
        ],
        "votes": 1,
        "updated_at": "2026-10-20 15:34:08.130558-06",
    }
    return base | changes


def encode(value: Any) -> bytes:
    """A document's bytes."""
    return json.dumps(value, indent=1).encode()


def entry(slug: str, **more: Any) -> dict[str, Any]:
    """An entry of a listing."""
    return {"slug": slug, "title": slug, "summary": "", "content_hash": "c" * 40, "decode_tok_s": 9.5} | more


def listing(*entries: dict[str, Any], page: int = 1, pages: int = 1, **applied: Any) -> dict[str, Any]:
    """A page of a listing."""
    return {"meta": {"page": page, "pages": pages, "applied": applied}, "recipes": list(entries)}
