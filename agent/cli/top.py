"""agentctl top: a live view of all deployments; q or Ctrl-C ends it."""

from __future__ import annotations

import select
import sys
import time

from agent.cli.connect import connect
from agent.cli.output import BOLD, DIM, STATE_COLOURS, WARN, coloured, paint
from agent.cli.screen import raw

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterator
    from typing import Any

CLEAR = "\x1b[H\x1b[2J"
COLUMNS = (
    ("requests_running", "RUN", "{:.0f}"),
    ("requests_waiting", "WAIT", "{:.0f}"),
    ("client_connections", "CLIENTS", "{:.0f}"),
    ("decode_tokens_per_second", "TOK/S", "{:.1f}"),
    ("kv_cache_usage_ratio", "KV", "{:.0%}"),
)


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--every", type=float, default=2.0, metavar="SECONDS", help="between two looks (default 2)")
    parser.add_argument(
        "--once", action="store_true", help="one look, then end; the default where there is no terminal"
    )


def run(arguments: Namespace) -> int:
    client, colours = connect(arguments), coloured(arguments)
    if arguments.json:
        from agent.cli.output import print_json

        print_json(client.get("/v1/deployments"))
        return 0
    if arguments.once or not sys.stdout.isatty():
        print("\n".join(screen(client.get("/v1/deployments"), colours)))
        return 0
    with keys():
        while True:
            text = "\n".join(screen(client.get("/v1/deployments"), colours))
            raw(sys.stdout, CLEAR)
            print(f"{text}\n\n{paint('q ends', DIM, colours)}", end="", flush=True)
            if pressed_q(arguments.every):
                print()
                return 0


def screen(deployments: list[dict[str, Any]], colours: bool) -> Iterator[str]:
    """Two lines a deployment under one head; what is not known says so."""
    yield time.strftime("%H:%M:%S") + f"  {len(deployments)} deployments"
    head = "".join(f"{name:>9}" for _, name, _ in COLUMNS)
    yield paint(f"{'STATE':<13}{head}{'RESTARTS':>10}  RECIPE", BOLD, colours)
    for one in deployments:
        state = paint(f"{one['state']:<13}", STATE_COLOURS.get(one["state"], WARN), colours)
        cells = "".join(f"{shown(one['figures'].get(key), form):>9}" for key, _, form in COLUMNS)
        yield f"{state}{cells}{one['restarts']:>10}  {one['slug']}"
        yield paint(f"  {one['why']}", DIM, colours)


def shown(value: Any, form: str) -> str:
    return "?" if value is None else form.format(value)


class keys:  # noqa: N801 - used as a word: `with keys():`
    """Single keys without Enter while it lasts."""

    def __enter__(self) -> None:
        import termios
        import tty

        self._before = termios.tcgetattr(sys.stdin.fileno()) if sys.stdin.isatty() else None
        if self._before is not None:
            tty.setcbreak(sys.stdin.fileno())

    def __exit__(self, *_: object) -> None:
        import termios

        if self._before is not None:
            termios.tcsetattr(sys.stdin.fileno(), termios.TCSADRAIN, self._before)


def pressed_q(seconds: float) -> bool:
    """Whether q was pressed within so many seconds."""
    if not sys.stdin.isatty():
        time.sleep(seconds)
        return False
    ready, _, _ = select.select([sys.stdin], [], [], seconds)
    return bool(ready) and sys.stdin.read(1) in ("q", "Q", "\x03")
