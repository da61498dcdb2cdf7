"""What the contract's engines do: small programs that every runtime can run, as sh and in memory."""

from __future__ import annotations

import shlex
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Program:
    """Writes `output`, then ends with `code`, or runs on (None) until TERM, which it may ignore, or KILL."""

    output: str = ""
    code: int | None = None
    ignores_term: bool = False

    def argv(self) -> list[str]:
        """As a command line of any POSIX shell."""
        trap = "trap '' TERM" if self.ignores_term else "trap 'exit 0' TERM"
        run = f"exit {self.code}" if self.code is not None else "while :; do sleep 0.1; done"
        return ["/bin/sh", "-c", f"{trap}\nprintf %s {shlex.quote(self.output)}\n{run}"]


RUNS = Program()
