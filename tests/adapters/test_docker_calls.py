"""The connections to an Engine that are used again."""

from __future__ import annotations

import socket
from typing import Any

from agent.adapters.docker_calls import Pool


def test_a_connection_whose_socket_was_closed_is_thrown_away() -> None:
    """As a cancelled stream may leave it: the next call asked a closed socket, and broke with an error of nobody's."""
    pool = Pool("/nowhere", "/nowhere", maxsize=2)
    for _ in range(2):
        left: Any = pool._new_conn()
        left.sock = socket.socket(socket.AF_UNIX)
        left.sock.close()
        pool._put_conn(left)
    fresh = pool._get_conn()
    assert fresh.sock is None
