"""Which repository a document's weights are in."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agent.recipe.read import read_recipe
from agent.recipe.weights import published

COMMIT = "2cba9e42aa026125f3ed06c6d98c1db82f7ca027"
HUB = {"kind": "model_weights", "pointer_type": "hf_model", "pointer": "https://huggingface.co/acme/tiny"}


@pytest.mark.parametrize(
    ("artifacts", "found"),
    [
        ([{**HUB, "pin": f"{COMMIT} — original release"}], f"acme/tiny@{COMMIT}"),
        ([{"kind": "engine_image"}, {**HUB, "pin": "no revision pinned"}], "acme/tiny"),
        ([HUB], "acme/tiny"),
        ([HUB, {**HUB, "pointer": "https://huggingface.co/acme/draft"}], None),  # which of them is served?
        ([{**HUB, "pointer": "https://example.org/acme/tiny"}], None),
        ([{**HUB, "pointer": None}], None),
        (["text"], None),
        (None, None),
    ],
)
def test_the_repository_of_the_weights(artifacts: Any, found: str | None) -> None:
    document = {"slug": "tiny", "title": "Tiny", "config": {"launch": ["vllm serve x"]}, "artifacts": artifacts}
    weights = published(read_recipe(json.dumps(document).encode(), "test"))
    assert (str(weights) if weights else None) == found
