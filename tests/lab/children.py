"""A server of the lab as a child process: started, waited for, ended by its own pid."""

from __future__ import annotations

import http.client
import random
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.lab.place import Unavailable

START_S = 60.0
STOP_S = 10.0
PORTS = range(21_000, 29_000)
"""Below those that the kernel gives to connections and to whoever asks for any (ip_local_port_range, from 32768 on):
one of these might be somebody's before its server listens."""
GIVEN: set[int] = set()


def free_port() -> int:
    """A TCP port that nobody has now, and that was not given to anybody else in this process."""
    while True:
        port = random.SystemRandom().choice(PORTS)
        if port not in GIVEN and _is_free(port):
            GIVEN.add(port)
            return port


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True


@contextmanager
def serving(
    words: Sequence[str | Path], port: int, log: Path, environment: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """A server that accepts connections on 127.0.0.1:`port`, ended after the block; its words go to `log`.

    Raises Unavailable with its last words when it ends before it listens, or does not listen in time.
    """
    with log.open("ab") as output:
        child = subprocess.Popen(words, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    try:
        _wait_until_it_listens(child, port, log)
        yield child
    finally:
        end(child)


def end(child: subprocess.Popen[bytes]) -> None:
    """Ends a child and waits until it is gone."""
    child.terminate()
    try:
        child.wait(STOP_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def served(port: int, path: str = "/") -> tuple[int, bytes]:
    """`get`, once the server answers: a container runs before its server listens, and what publishes its port takes
    connections before that. Raises TimeoutError."""
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        with suppress(OSError, http.client.HTTPException):
            return get(port, path)
        time.sleep(0.05)
    raise TimeoutError(f"nobody answers on port {port}")


def get(port: int, path: str) -> tuple[int, bytes]:
    """Status and body of a GET from 127.0.0.1:`port`."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def _wait_until_it_listens(child: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + START_S
    while not _listens(port):
        if child.poll() is not None or time.monotonic() > deadline:
            last = " | ".join(log.read_text(errors="replace").splitlines()[-4:])
            raise Unavailable(f"cannot start {child.args!r}: {last}")
        time.sleep(0.02)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
