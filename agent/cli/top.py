"""agentctl top: a live view of all deployments and cards; q or Ctrl-C ends it."""

from __future__ import annotations

import os
import select
import shutil
import signal
import sys
import time

from agent.cli.connect import connect
from agent.cli.output import BAD, DIM, coloured, paint
from agent.cli.screen import plain, raw
from agent.cli.view import cut, screen
from agent.errors import Unreachable
from agent.quantity import counted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from typing import Any

    from agent.adapters.agent_client import Client

ENTER, LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
HOME, TO_LINE_END, TO_SCREEN_END = "\x1b[H", "\x1b[K", "\x1b[J"
LEAST_S = 0.2
WIDTH_OF_A_PIPE = 120
ENDS = frozenset({b"q", b"Q", b"\x03", b"\x04", b""})


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
    if arguments.once or not (sys.stdout.isatty() and sys.stdin.isatty()):
        width = shutil.get_terminal_size((WIDTH_OF_A_PIPE, 0)).columns
        print("\n".join(screen(client.get("/v1/deployments"), client.get("/v1/host"), width, None, colours)))
        return 0
    client.get("/v1/deployments")  # an agent that cannot be reached at all is an error, not a view
    with Terminal() as terminal:
        while True:
            terminal.draw(look(client, colours))
            if terminal.ended(max(LEAST_S, arguments.every)):
                return 0


def look(client: Client, colours: bool) -> list[str]:
    """The whole picture for the terminal as large as it is now; an agent that has gone is waited for."""
    width, height = shutil.get_terminal_size()
    clock = time.strftime("%H:%M:%S")
    try:
        deployments: list[dict[str, Any]] = client.get("/v1/deployments")
        host: dict[str, Any] = client.get("/v1/host")
    except Unreachable as error:
        return [paint(cut(f"{clock}  {error.text}", width), BAD, colours), cut("q ends", width)]
    head = cut(f"{clock}  {counted(len(deployments), 'deployment')}    q ends", width)
    return [paint(head, DIM, colours), *screen(deployments, host, width, height - 1, colours)]


def control(text: str) -> None:
    """What moves the cursor goes to the terminal as it is."""
    raw(sys.stdout, text)
    sys.stdout.flush()


class Terminal:
    """A screen of its own, single keys without Enter, and everything as it was afterwards."""

    def __enter__(self) -> Terminal:
        import termios
        import tty

        self._before = termios.tcgetattr(sys.stdin.fileno())
        tty.setcbreak(sys.stdin.fileno())
        self._woken, self._wake = os.pipe()
        os.set_blocking(self._wake, False)
        self._handler = signal.signal(signal.SIGWINCH, lambda *_: None)
        self._old = signal.set_wakeup_fd(self._wake)
        control(ENTER)
        return self

    def __exit__(self, *_: object) -> None:
        import termios

        control(LEAVE)
        signal.set_wakeup_fd(self._old)
        signal.signal(signal.SIGWINCH, self._handler)
        os.close(self._woken)
        os.close(self._wake)
        termios.tcsetattr(sys.stdin.fileno(), termios.TCSADRAIN, self._before)

    def draw(self, lines: list[str]) -> None:
        """In place, each line to its end: a screen that is cleared first flickers."""
        rows = (plain(line, colours=True) + TO_LINE_END for line in lines)
        control(HOME + "\n".join(rows) + TO_SCREEN_END)

    def ended(self, seconds: float) -> bool:
        """Whether the view is to end; comes back early when the terminal has got another size."""
        ready, _, _ = select.select([sys.stdin, self._woken], [], [], seconds)
        if self._woken in ready:
            os.read(self._woken, 64)
        return sys.stdin in ready and os.read(sys.stdin.fileno(), 1) in ENDS
