"""The process that owns NVML: `python -m agent.adapters.nvml_owner FD`.

A line on the socket FD asks for a reading (`read`) or for who computes (`shares`), a JSON line there answers; events
come as lines of their own.

Why a process of its own and not a thread of the agent: a call that hangs in the driver waits where no signal reaches
it. A process with such a thread does not end, `os._exit` or SIGKILL notwithstanding, and keeps its listening sockets
and file locks, so that the agent's successor could not start. A process apart can be left behind: all that it holds
is its end of one socket. A crash inside the library ends it alone, and a new one sees a driver that was upgraded or
a card that was reset. The price, measured: 12 MB of private memory, of which a thread would need 4 for pynvml as well;
the library's own 19 MB come with either.

Three threads: the main one asks NVML, one waits for its events, one reads requests until the input ends, which means
that the agent is gone. It leaves by `os._exit`, with no farewell to NVML that could hang.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any

import pynvml as nvml

from agent.adapters.nvml_cards import read_cards
from agent.adapters.nvml_events import Events
from agent.adapters.nvml_shares import shares_json
from agent.adapters.nvml_words import said
from agent.clock import Instant, SystemClock
from agent.host.reading import Known, Reading, Unknown, to_json

_MAPPED = re.compile(r"(/\S*/libnvidia-ml\.so\.[\d.]+)( \(deleted\))?$", re.MULTILINE)
_FILE_VERSION = re.compile(r"libnvidia-ml\.so\.(\d+(?:\.\d+)+)")

SHARES = b"shares\n"
Send = Callable[[Mapping[str, Any]], None]


def main() -> None:
    """Serves until the other end of the socket is closed."""
    # A ^C at the terminal or a `systemctl stop` reaches the whole group; the agent may still need its readings then.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    threading.excepthook = die
    end = socket.socket(fileno=int(sys.argv[1]))
    requests: SimpleQueue[bytes] = SimpleQueue()
    Thread(target=read_requests, args=(end, requests), daemon=True).start()
    serve(requests, sender(end))


def die(failure: threading.ExceptHookArgs) -> None:
    """A thread that breaks ends the process, so that the agent sees it and reads why."""
    threading.__excepthook__(failure)
    os._exit(1)


def read_requests(end: socket.socket, requests: SimpleQueue[bytes]) -> None:
    """Hands each line on; the end of the lines is the end of this process, whatever NVML does."""
    with end.makefile("rb") as lines:
        for line in lines:
            requests.put(line)
    os._exit(0)


def sender(end: socket.socket) -> Send:
    """Writes whole lines, from either thread."""
    lock = Lock()

    def send(document: Mapping[str, Any]) -> None:
        with lock:
            end.sendall(json.dumps(document).encode() + b"\n")

    return send


def serve(requests: SimpleQueue[bytes], send: Send) -> None:
    """Answers one request after the other. Without NVML it says why and ends: a later process tries afresh."""
    clock = SystemClock()
    try:
        nvml.nvmlInit()
        events = Events(clock.now())
        Thread(target=events.forward, args=(lambda event: send({"event": event}),), daemon=True).start()
        while request := requests.get():
            at = clock.now()
            if request == SHARES:
                send({"shares": shares_json(at)})
                continue
            cards = [card.to_json() for card in read_cards(at, events.delivered)]
            send({"cards": cards, "driver": driver_json(at)})
    except nvml.NVMLError as error:
        send({"failed": said(error), "driver": driver_json(clock.now())})
        os._exit(0)


def driver_json(at: Instant) -> dict[str, Any]:
    """The parts of `agent.host.model.Driver` that NVML and its library know."""
    readings: dict[str, Reading[str]] = {
        "version": _ask(nvml.nvmlSystemGetDriverVersion, at),
        "userland": library_version(Path("/proc/self/maps").read_text(), _ask(nvml.nvmlSystemGetNVMLVersion, at)),
        "cuda": _ask(nvml.nvmlSystemGetCudaDriverVersion_v2, at),
    }
    return to_json(readings)


def library_version(maps: str, loaded: Reading[str]) -> Reading[str]:
    """The version of the library on disk, which the next program will load; `loaded` is this process's own.

    The loader's choice stands in `maps`; beside it, the name libnvidia-ml.so.1 leads to what is installed by now.
    A library whose file name carries no version is known by its own word (`13.610.57.04`: CUDA's major first).
    """
    mapped = _MAPPED.search(maps)
    if mapped is not None and isinstance(loaded, Known):
        installed = Path(mapped[1]).with_name("libnvidia-ml.so.1").resolve()
        if named := _FILE_VERSION.fullmatch(installed.name):
            return Known(named[1], loaded.at)
    if isinstance(loaded, Known):
        return Known(loaded.value.partition(".")[2], loaded.at)
    return loaded


def _ask(call: Callable[[], Any], at: Instant) -> Reading[str]:
    try:
        answer = call()
    except nvml.NVMLError as error:
        return Unknown(said(error))
    if isinstance(answer, int):
        return Known(f"{answer // 1000}.{answer % 1000 // 10}", at)
    return Known(answer.decode() if isinstance(answer, bytes) else answer, at)


if __name__ == "__main__":
    main()
