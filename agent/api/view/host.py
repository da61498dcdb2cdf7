"""The host on the page: its cards, its memory, and which readings fail."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from agent.api.view.html import Html, joined, tag
from agent.api.view.words import UNKNOWN, count, gibibytes, percent
from agent.metrics.snapshot import CardFigures, Snapshot

HEAD = ("Card", "Used by", "Memory", "Busy", "Power", "Temperature", "Xid")


def host(snapshot: Snapshot) -> Html:
    holders = {uuid: board.record.slug for board in snapshot.boards for uuid in board.plan.gpus}
    return tag(
        "section",
        tag("h2", "Host", id="host-h"),
        table(snapshot.cards, holders) if snapshot.cards else tag("p", "No card was read.", class_="quiet"),
        tag("p", f"Memory available: {gibibytes(snapshot.memory_available)} GiB", class_="quiet")
        if snapshot.memory_available is not None
        else tag("p", "Memory available: unknown", class_="quiet"),
        joined(failures(snapshot)),
        id="host",
        aria_labelledby="host-h",
    )


def table(cards: tuple[CardFigures, ...], holders: Mapping[str, str]) -> Html:
    """A row a card. On a narrow screen each cell carries its column's name itself."""
    head = tag("thead", tag("tr", *(tag("th", name, scope="col") for name in HEAD)))
    return tag("table", head, tag("tbody", *(row(card, holders.get(card.uuid, "")) for card in cards)))


def row(card: CardFigures, holder: str) -> Html:
    xids = ", ".join(f"{number} ({times}×)" for number, times in sorted(card.xids.items())) or "none"
    cells = (
        holder or "nobody",
        memory(card),
        percent(card.utilization),
        UNKNOWN if card.power_w is None else f"{card.power_w:.0f} W",
        UNKNOWN if card.temperature_c is None else f"{count(card.temperature_c)} °C",
        xids,
    )
    named = [tag("td", cell, data_name=name) for name, cell in zip(HEAD[1:], cells, strict=True)]
    return tag("tr", tag("th", f"GPU {card.gpu}", scope="row", title=card.uuid), *named)


def memory(card: CardFigures) -> Html:
    if card.memory_used is None or not card.memory_total:
        return tag("span", UNKNOWN)
    said = f"{gibibytes(card.memory_used)} of {gibibytes(card.memory_total)} GiB"
    ratio = min(1.0, card.memory_used / card.memory_total)
    return joined([tag("meter", min="0", max="1", value=f"{ratio:.3f}", aria_label=said), tag("span", said)])


def failures(snapshot: Snapshot) -> Iterator[Html]:
    """A reading that fails is not a quiet one."""
    for name, one in sorted(snapshot.collectors.items()):
        if not one.success:
            yield tag("p", f"Cannot read {name}: agentctl doctor says why.", class_="notice")
