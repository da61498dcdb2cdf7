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
    said = advice(plan(need("weights", "acme/tiny", "official FP8 checkpoint")), "/m")
    assert said == "`hf download acme/tiny --local-dir /m` (its author says: “official FP8 checkpoint”)"
    assert advice(plan(), "/m") == ""


@pytest.mark.parametrize("words", ["original release; serving pack = local EXL3 2bpw conversion", "converted from it"])
def test_weights_that_are_made_are_not_called_a_download(words: str) -> None:
    """The repository is what the served weights come from: fetching it into their folder would not bring them."""
    said = advice(plan(need("weights", "acme/tiny", words)), "/m")
    assert said.startswith("these weights are made, not fetched")
    assert "`hf download acme/tiny --local-dir ORIGINAL`" in said
    assert words in said
