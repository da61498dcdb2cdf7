"""systemd's journal by its own socket (systemd.journal-fields(7), native protocol): fields, and a priority a line."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping
from pathlib import Path

SOCKET = "/run/systemd/journal/socket"
LONGEST = 48 * 1024
"""Bytes of one value: a datagram holds about 200 KiB, and the journal's readers are happier with less."""
PREFIX = "RECIPE_AGENT_"
NOT_IN_NAMES = re.compile(r"[^A-Z0-9_]")


def is_journal(descriptor: int, environ: Mapping[str, str]) -> bool:
    """Whether `descriptor` is the stream that the service manager connected to the journal (JOURNAL_STREAM)."""
    try:
        found = os.fstat(descriptor)
    except OSError:
        return False
    return environ.get("JOURNAL_STREAM") == f"{found.st_dev}:{found.st_ino}"


class Journal:
    """A line is sent or dropped, at once: a journal that hangs must not hang the agent. Drops are counted."""

    def __init__(self, path: str = SOCKET) -> None:
        self._path = path
        self._out: socket.socket | None = None
        self.dropped = 0

    @property
    def there(self) -> bool:
        return Path(self._path).is_socket()

    def send(self, message: str, priority: int, fields: Mapping[str, str]) -> None:
        """`fields` get the agent's prefix: `recipe` is found by `journalctl RECIPE_AGENT_RECIPE=SLUG`."""
        if self._out is None:
            self._out = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
        own = {"MESSAGE": message, "PRIORITY": str(priority), "SYSLOG_IDENTIFIER": "recipe-agent"}
        named = {PREFIX + field_name(name): text for name, text in fields.items()}
        if self.dropped:
            named[f"{PREFIX}DROPPED"] = str(self.dropped)
        try:
            self._out.sendto(b"".join(field(name, text) for name, text in {**own, **named}.items()), self._path)
        except OSError:
            self.dropped += 1
        else:
            self.dropped = 0

    def close(self) -> None:
        if self._out is not None:
            self._out.close()
            self._out = None


def field_name(name: str) -> str:
    return NOT_IN_NAMES.sub("_", name.upper())[:40]


def field(name: str, text: str) -> bytes:
    """`NAME=value`, or with its length in front where the value has lines of its own."""
    value = text.encode("utf-8", "replace")[:LONGEST]
    if b"\n" not in value:
        return name.encode() + b"=" + value + b"\n"
    return name.encode() + b"\n" + len(value).to_bytes(8, "little") + value + b"\n"
