"""Talking to an engine as its clients do: connections that are held, and faults that are set in the simulator."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any


def get(port: int, path: str) -> tuple[int, str]:
    """Status and body of a GET; status 0 where nobody answers."""
    try:
        with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=10)) as connection:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read().decode()
    except (OSError, http.client.HTTPException):  # also one that goes away in the middle of its answer
        return 0, ""


def fault(port: int, kind: str, arg: str = "", for_s: float | None = None) -> None:
    """Sets a fault in the simulator behind `port` (for so many of its seconds), or heals with `clear`."""
    body = json.dumps({"kind": kind, "arg": arg, "for_s": for_s})
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=10)) as connection:
        connection.request("POST", "/sim/fault", body, {"Content-Type": "application/json"})
        try:
            response = connection.getresponse()
        except ConnectionResetError:
            return  # it ended of this fault
        text = response.read().decode()
        if response.status != 200:
            raise ValueError(text)


def cores(port: int) -> list[int]:
    """Pids of the engine cores, in the numbers of the engine's own namespace."""
    return [core["pid"] for core in json.loads(get(port, "/sim/state")[1])["cores"]]


@contextmanager
def client(port: int, *, rank: str = "", **body: Any) -> Iterator[socket.socket]:
    """A client that has asked for a completion without end and holds its connection for as long as the block lasts;
    of this data-parallel rank, where one is named."""
    asked = {"model": "sim", "ignore_eos": True, "stream": True, "sim_prompt_tokens": 64, "max_tokens": 30_000, **body}
    data = json.dumps(asked).encode()
    lines = ["POST /v1/completions HTTP/1.1", "Host: engine", "Content-Type: application/json"]
    lines += [f"Content-Length: {len(data)}", *([f"X-data-parallel-rank: {rank}"] if rank else [])]
    head = "".join(f"{line}\r\n" for line in (*lines, "")).encode()
    with closing(socket.create_connection(("127.0.0.1", port), timeout=10)) as connection:
        connection.sendall(head + data)
        yield connection


def server(port: int) -> int:
    """The pid of the API server, in the numbers of its own namespace."""
    return int(json.loads(get(port, "/sim/state")[1])["pid"])
