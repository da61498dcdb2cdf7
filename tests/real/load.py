"""Clients of a real engine: streams that can be cut, and a mixed load that goes on until it is told to end."""

from __future__ import annotations

import http.client
import json
import random
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from agent.engines.dialect import RANK_HEADER


class Stream:
    """One streamed completion in a thread of its own."""

    def __init__(
        self, port: int, model: str, prompt: list[int], tokens: int, *, endless: bool = True, rank: str = ""
    ) -> None:
        """`rank`: the data-parallel rank that is to answer."""
        self.chunks = 0
        self.first_s: float | None = None
        """Seconds to the first token."""
        self.ended = threading.Event()
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
        body: dict[str, Any] = {"model": model, "prompt": prompt, "max_tokens": tokens, "stream": True}
        self._body = json.dumps(body | ({"ignore_eos": True} if endless else {}))
        self._headers = {"Content-Type": "application/json"} | ({RANK_HEADER: rank} if rank else {})
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._read(time.monotonic())
        except (OSError, http.client.HTTPException, ValueError):
            return  # the engine has gone, or this client was cut
        finally:
            self._connection.close()
            self.ended.set()

    def _read(self, began: float) -> None:
        self._connection.request("POST", "/v1/completions", self._body, self._headers)
        with self._connection.getresponse() as answer:
            while line := answer.readline():
                if line.startswith(b"data: {"):
                    self.chunks += 1
                    self.first_s = self.first_s or time.monotonic() - began

    def cut(self) -> None:
        """The client is gone, in the middle of its answer: its socket is closed, as a kill of the client does."""
        sock = self._connection.sock
        if sock is not None:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def join(self, seconds: float) -> bool:
        self._thread.join(seconds)
        return self.ended.is_set()


def words(count: int) -> list[int]:
    """A prompt of so many tokens that no cache has seen, by their numbers (of any vocabulary of 256 and more)."""
    return [random.randrange(10, 250) for _ in range(count)]


@dataclass
class Load:
    """What a mixed load did."""

    requests: int = 0
    cut: int = 0
    chunks: int = 0
    prompts: int = 0
    """Long ones."""
    longest_s: float = 0.0
    """To a first token."""
    stop: threading.Event = field(default_factory=threading.Event)


@contextmanager
def mixed(port: int, model: str, *, longest_prompt: int, longest_answer: int, clients: int = 2) -> Iterator[Load]:
    """Short chats, long answers, long prompts, clients that leave midway, and pauses."""
    load = Load()

    def client(seed: int) -> None:
        dice = random.Random(seed)
        while not load.stop.is_set():
            kind = dice.choice(("short", "short", "answer", "prompt", "cut", "pause"))
            if kind == "pause":
                load.stop.wait(dice.uniform(1.0, 20.0))
                continue
            prompt = words(longest_prompt if kind == "prompt" else 20)
            stream = Stream(port, model, prompt, longest_answer if kind in ("answer", "cut") else 20)
            if kind == "cut":
                stream.join(dice.uniform(0.2, 2.0))
                stream.cut()
                load.cut += 1
            while not stream.join(0.2) and not load.stop.is_set():
                pass
            stream.cut()
            load.requests += 1
            load.prompts += kind == "prompt"
            load.chunks += stream.chunks
            load.longest_s = max(load.longest_s, stream.first_s or 0.0)

    threads = [threading.Thread(target=client, args=(seed,), daemon=True) for seed in range(clients)]
    for thread in threads:
        thread.start()
    try:
        yield load
    finally:
        load.stop.set()
        for thread in threads:
            thread.join(10)


def until(holds: Any, seconds: float) -> bool:
    """Whether it came to hold within so many seconds."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if holds():
            return True
        time.sleep(0.05)
    return bool(holds())
