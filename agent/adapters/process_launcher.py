"""The program of recipe-agent-engine@.service: one connection of its socket is one engine in a unit of its own.

systemd listens (units/recipe-agent-engine.socket, `Accept=yes`) and starts this for each connection, as the agent's
user but outside of the agent's sandbox and control group. It greets with its pid, takes one request, and becomes the
wrapper of that engine (`process_stub`) by exec, so the unit's main process is the wrapper from first to last.

    launcher → {"form": 1, "pid": 4121}                                or {"refused": "…"}
    agent    → {"form": 1, "folder": "…", "cwd": "/", "max_bytes": 0, "files": 1}
    launcher → {"taken": true}                                         or {"refused": "…"}

The agent asks only once it is greeted: one that gave up waiting has asked for nothing, and no engine starts behind its
back. Command line and environment are in the folder's files, as without a unit; no secret passes here.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NoReturn

STUB = Path(__file__).with_name("process_stub.py")
FORM = 1
"""Of what is said over the socket; both sides come from one package and may differ only while it is upgraded."""
WAIT_S = 30.0
"""How long a connection may stay silent; the agent itself waits no longer for a start."""
LONGEST = 64 * 1024
"""Bytes of one line."""
CREDENTIALS = struct.Struct("3i")
"""`struct ucred` of unix(7): pid, uid, gid."""


class Refused(Exception):
    """Why nothing is started; the text goes to the agent and into the unit's journal."""


@dataclass(frozen=True, slots=True)
class Request:
    """What the wrapper is started with; see `process_stub`."""

    folder: str
    cwd: str
    max_bytes: int
    files: int

    def line(self) -> bytes:
        return encoded({"form": FORM, **asdict(self)})


def stub_command(request: Request, own_group: bool) -> list[str]:
    """The wrapper's command line. `own_group`: its control group is for this engine alone."""
    bounds = [str(request.max_bytes), str(request.files)]
    python = [sys.executable, "-I", "-S", str(STUB)]
    return [*python, request.folder, request.cwd, *bounds, "own" if own_group else "shared"]


def main() -> int:
    """Serve the connection that is this process's standard input."""
    try:
        door = socket.socket(fileno=os.dup(0))
    except OSError:
        say("recipe-agent-engine is started by recipe-agent-engine.socket, not by hand")
        return os.EX_USAGE
    door.settimeout(WAIT_S)
    try:
        request = asked(door)
        if request is None:
            return 0  # the agent gave up, or ended
        log = open_log(request)
        door.sendall(encoded({"taken": True}))
    except Refused as why:
        say(f"refused: {why}")
        tell(door, {"refused": str(why)})
        return 1
    except OSError as error:
        say(f"the agent is gone: {error}")
        return 1
    door.close()
    return become(stub_command(request, own_group=True), log)


def asked(door: socket.socket) -> Request | None:
    """Greet whoever is there and take the request; None where the other side left. Raises Refused."""
    uid = peer_uid(door)
    if uid != os.getuid():
        raise Refused(f"user {uid} may not start engines: only the agent's own user, {os.getuid()}, may")
    door.sendall(encoded({"form": FORM, "pid": os.getpid()}))
    line = read_line(door)
    return request_of(line) if line else None


def peer_uid(door: socket.socket) -> int:
    """Who connected, as the kernel noted it then. Raises Refused."""
    try:
        found = CREDENTIALS.unpack(door.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size))
    except OSError as error:
        raise Refused(f"nobody knows who asks: {error.strerror}") from error
    return int(found[1])


def request_of(line: bytes) -> Request:
    """Raises Refused."""
    document = decoded(line)
    try:
        if document["form"] != FORM:
            raise Refused(f"the agent speaks form {document['form']} and this program {FORM}: restart recipe-agent")
        folder, cwd = str(document["folder"]), str(document["cwd"])
        return Request(folder, cwd, int(document["max_bytes"]), int(document["files"]))
    except (KeyError, TypeError, ValueError) as error:
        raise Refused(f"not a request of the agent's: {error!r}") from error


def open_log(request: Request) -> int:
    """Where the wrapper says what is wrong with itself. Raises Refused."""
    path = Path(request.folder, "wrapper.log")
    try:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise Refused(f"cannot write {path}: {error.strerror}; agent and engines must see one state folder") from error


def become(command: list[str], log: int) -> NoReturn:
    """The wrapper, in this process."""
    nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    for source, target in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    os.execv(command[0], command)  # noqa: S606  (no shell is the point)


def say(text: str) -> None:
    """Into the unit's journal, as an error (sd-daemon(3))."""
    sys.stderr.write(f"<3>{text}\n")


def tell(door: socket.socket, document: dict[str, Any]) -> None:
    """A last word, which nobody may be there to hear."""
    with suppress(OSError):
        door.sendall(encoded(document))


def read_line(side: socket.socket) -> bytes:
    """One line without its end; empty where the other side closed before one. Raises OSError, Refused."""
    found = b""
    while not found.endswith(b"\n"):
        part = side.recv(LONGEST)
        found += part
        if not part:
            return b""
        if len(found) > LONGEST:
            raise Refused("the line is too long")
    return found.rstrip(b"\n")


def encoded(document: dict[str, Any]) -> bytes:
    return json.dumps(document).encode() + b"\n"


def decoded(line: bytes) -> dict[str, Any]:
    """Raises Refused."""
    try:
        document = json.loads(line)
    except ValueError as error:
        raise Refused(f"not JSON: {error}") from error
    if not isinstance(document, dict):
        raise Refused("not an object")
    return document


if __name__ == "__main__":
    sys.exit(main())
