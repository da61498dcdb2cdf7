"""The command that brings a missing model."""

from __future__ import annotations

import pytest

from agent.preflight.download import advice, fetch
from tests.preflight.build import need, plan


@pytest.mark.parametrize(
    ("repository", "command"),
    [
        ("acme/tiny", "hf download acme/tiny --local-dir /m/tiny"),
        ("acme/tiny@2cba9e4", "hf download acme/tiny --revision 2cba9e4 --local-dir /m/tiny"),
        ("https://huggingface.co/acme/tiny", "hf download acme/tiny --local-dir /m/tiny"),
        ("a sentence about weights", None),
        ("acme/tiny; rm -rf /", None),
    ],
)
def test_fetch(repository: str, command: str | None) -> None:
    assert fetch(repository, "/m/tiny") == command


def test_a_folder_with_blanks_is_quoted() -> None:
    assert (fetch("a/b", "/m/my models") or "").endswith("--local-dir '/m/my models'")


def test_the_authors_words_stand_beside_the_command() -> None:
    """A repository may be what the served weights were made from, not those weights."""
    said = advice(plan(need("weights", "acme/tiny", "original fp8 release; the pack is converted from it")), "/m")
    assert said.startswith("`hf download acme/tiny --local-dir /m`")
    assert "the pack is converted from it" in said
    assert advice(plan(), "/m") == ""
