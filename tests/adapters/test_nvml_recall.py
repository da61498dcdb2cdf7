"""Who a card is that does not say it any more."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent.adapters.nvml_recall import identities, recall
from agent.host.gpu import Gpu, Identity


def card(index: int, uuid: str, lost: str | None = None) -> Gpu:
    return replace(Gpu.gone(Identity(index, uuid), "not read"), lost=lost)


KNOWN = {uuid: Identity(index, uuid, f"pci-{uuid}", "card") for index, uuid in enumerate("abcd")}
SILENT = "no answer"


@pytest.mark.parametrize(
    ("cards", "expect"),
    [
        pytest.param((card(0, "a"), card(1, "b"), card(2, "c"), card(3, "d")), "a b c d", id="all answer"),
        pytest.param((card(0, "a"), card(1, "", SILENT), card(2, "c"), card(3, "d")), "a b! c d", id="one is silent"),
        pytest.param((card(0, "a"), card(1, "c"), card(2, "d")), "a c d b!", id="one vanished, the others move up"),
        pytest.param((card(0, "b"), card(1, "c"), card(2, "d")), "b c d a!", id="the first vanished"),
        pytest.param(
            (card(0, "a"), card(1, "c"), card(2, "", SILENT)), "a c ?! b! d!", id="the index names one that answers"
        ),
        pytest.param((card(0, "e"),), "e a! b! c! d!", id="another host's worth of cards"),
    ],
)
def test_a_card_keeps_its_name_only_where_no_other_can_be_meant(cards: tuple[Gpu, ...], expect: str) -> None:
    found = recall(cards, KNOWN)
    assert " ".join((card.uuid or "?") + ("!" if card.lost else "") for card in found) == expect


def test_a_recalled_card_has_its_whole_identity() -> None:
    (found,) = recall((card(1, "", SILENT),), {"b": KNOWN["b"]})
    assert (found.uuid, found.pci, found.name, found.lost) == ("b", "pci-b", "card", SILENT)


def test_a_card_without_a_name_is_not_remembered() -> None:
    assert list(identities((card(0, "a"), card(1, "", SILENT)))) == ["a"]
