"""Cards that were there before and do not answer now keep their place and their name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from agent.host.gpu import Gpu, Identity

_VANISHED = "NVML no longer lists this card: it has fallen off the bus, or was taken out"


def identities(cards: Iterable[Gpu]) -> dict[str, Identity]:
    """UUID → identity of all cards that have one."""
    return {card.uuid: Identity(card.index, card.uuid, card.pci, card.name) for card in cards if card.uuid}


def recall(cards: tuple[Gpu, ...], known: Mapping[str, Identity]) -> tuple[Gpu, ...]:
    """`cards` with the names of silent ones, and with those of `known` that NVML has stopped to list, as lost.

    A silent card is the known one of its index, if that one is not among those that answer: when a card vanishes, the
    cards after it move up, so that an index alone names nobody.
    """
    missing = {uuid: identity for uuid, identity in known.items() if uuid not in identities(cards)}
    by_index = {identity.index: identity for identity in missing.values()}
    named = tuple(card if card.uuid else _named(card, by_index.get(card.index)) for card in cards)
    vanished = [identity for uuid, identity in missing.items() if uuid not in identities(named)]
    return named + tuple(Gpu.gone(identity, _VANISHED) for identity in vanished)


def _named(card: Gpu, identity: Identity | None) -> Gpu:
    if identity is None:
        return card
    return replace(card, uuid=identity.uuid, pci=identity.pci, name=identity.name)
