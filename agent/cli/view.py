"""The text of `agentctl top`: as wide as the terminal, most important first, and plain where there is none (pure)."""

from __future__ import annotations

from agent.cli.output import BAD, BOLD, DIM, STATE_COLOURS, WARN, bar, paint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

COLUMNS = (
    ("requests_running", "RUN", "{:.0f}", 0),
    ("requests_waiting", "WAIT", "{:.0f}", 3),
    ("client_connections", "CLIENTS", "{:.0f}", 4),
    ("decode_tokens_per_second", "TOK/S", "{:,.0f}", 1),
    ("kv_cache_usage_ratio", "KV", "{:.0%}", 2),
)
"""Figure, head, form, and the order in which columns are given room: the highest goes first on a narrow screen."""
CELL, STATE = 9, 14
LEAST_NAME = 24
ON_ITS_WAY = frozenset({"pending", "planning", "preflight", "image", "starting"})
GIB = 2**30


def screen(
    deployments: list[dict[str, Any]], host: dict[str, Any], width: int, height: int | None, colours: bool
) -> list[str]:
    """At most `height` lines (None: all) of at most `width` cells."""
    cards = list(card_lines(host, width, colours))
    body = [line for one in deployments for line in entry(one, width, colours)]
    head = [paint(cut(heading(width), width), BOLD, colours)]
    if not deployments:
        body = [paint(cut("nothing is deployed: agentctl deploy SLUG", width), DIM, colours)]
    if height is not None:
        body, cards = fitted(body, cards, height - 1, colours)
    return head + body + cards


def fitted(body: list[str], cards: list[str], room: int, colours: bool) -> tuple[list[str], list[str]]:
    """Cards give way to deployments, and what is left out is said."""
    if len(body) + len(cards) > room:
        cards = []
    if len(body) > room:
        shown = max(0, (room - 1) // 2 * 2)
        body = [*body[:shown], paint(f"… {(len(body) - shown + 1) // 2} more do not fit", DIM, colours)]
    return body, cards


def columns(width: int) -> list[tuple[str, str, str]]:
    """Those that fit beside the state and a readable name."""
    room = max(0, (width - STATE - LEAST_NAME) // CELL)
    return [(key, name, form) for key, name, form, order in COLUMNS if order < room]


def heading(width: int) -> str:
    cells = "".join(f"{name:>{CELL}}" for _, name, _ in columns(width))
    return f"{'STATE':<{STATE}}{'RECIPE':<{name_width(width)}}{cells}"


def name_width(width: int) -> int:
    return max(1, width - STATE - CELL * len(columns(width)))


def entry(one: dict[str, Any], width: int, colours: bool) -> Iterator[str]:
    """Two lines a deployment: what it does and how much, then why."""
    wide = name_width(width)
    cells = "".join(f"{shown(one['figures'].get(key), form):>{CELL}}" for key, _, form in columns(width))
    state = paint(f"{one['state']:<{STATE}}"[:width], STATE_COLOURS.get(one["state"], WARN), colours)
    yield f"{state}{middle(one['slug'], wide - 1):<{wide}}{cells}" if width > STATE else state
    yield paint(cut(f"  {reason(one)}", width), DIM, colours)


def reason(one: dict[str, Any]) -> str:
    """Why it is in its state, after what a glance must not miss."""
    parts = []
    if one["supervision"] != "active":
        parts.append(f"[{one['supervision']}]")
    if one["restarts"]:
        parts.append(f"[{one['restarts']} of {one['restarts'] + one['restart_budget']} restarts spent]")
    ratio = one["progress"].get("ratio", one["startup"]["ratio"])
    if one["state"] in ON_ITS_WAY and ratio is not None:
        parts.append(bar(ratio, 12))
    return " ".join([*parts, one["progress"].get("text") or one["why"], f"(since {one['since']})"])


def card_lines(host: dict[str, Any], width: int, colours: bool) -> Iterator[str]:
    """One line a card; what it does not say is left out with a question mark."""
    for card in host.get("gpus") or []:
        name = f"GPU {card['index']}"
        if card["lost"]:
            yield paint(cut(f"{name:<8}lost: {card['lost']}", width), BAD, colours)
            continue
        used, total = card["memory_used"], card["memory_total"]
        ratio = used / total if used is not None and total else None
        memory = f"{bar(ratio, 16)} {used / GIB:.1f} of {total / GIB:.1f} GiB" if ratio is not None else "memory ?"
        words = [
            memory,
            f"{shown(card['utilization'], '{:.0%}'):>4} busy",
            f"{shown(card['power_w'], '{:.0f}'):>4} W",
            f"{shown(card['temperature_c'], '{:.0f}'):>3} °C",
        ]
        yield cut(f"{name:<8}{'  '.join(words)}", width)


def shown(value: Any, form: str) -> str:
    return "?" if value is None else form.format(value)


def cut(text: str, width: int) -> str:
    """One line of at most `width` cells, with a sign where it was cut."""
    text = " ".join(text.splitlines())
    return text if len(text) <= width else text[: max(0, width - 1)] + "…"


def middle(text: str, width: int) -> str:
    """Cut out of the middle: recipes differ at their ends."""
    if len(text) <= width:
        return text
    left = max(0, width - 1) // 2
    right = max(0, width - 1) - left
    return f"{text[:left]}…{text[len(text) - right :]}"[: max(0, width)]
