"""One piece of work for all who ask for the same at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Generic, TypeVar

from agent.image.port import Say

Result = TypeVar("Result")


class Piece(Generic[Result]):
    """Work that runs, with those who wait for it."""

    def __init__(self, work: Callable[[Say], Awaitable[Result]]) -> None:
        self.says: list[Say] = []
        self.last: Mapping[str, Any] | None = None
        self.task: asyncio.Future[Result] = asyncio.ensure_future(work(self.tell))

    def tell(self, progress: Mapping[str, Any]) -> None:
        self.last = progress
        for say in tuple(self.says):
            say(progress)


class Shared(Generic[Result]):
    """Work by key: whoever asks while it runs gets the same result, its progress and its error.

    It is cancelled when the last who waits for it has gone.
    """

    def __init__(self) -> None:
        self._pieces: dict[str, Piece[Result]] = {}

    async def run(self, key: str, work: Callable[[Say], Awaitable[Result]], say: Say) -> Result:
        """The result of `work`, started only if nothing of that key runs."""
        piece = self._pieces.get(key)
        if piece is None:
            piece = self._pieces[key] = Piece(work)
        elif piece.last is not None:
            say(piece.last)
        piece.says.append(say)
        try:
            # shielded: one who gives up must not take it away from the others
            return await asyncio.shield(piece.task)
        finally:
            piece.says.remove(say)
            if self._pieces.get(key) is piece and (piece.task.done() or not piece.says):
                del self._pieces[key]
            if not piece.says and not piece.task.done():
                piece.task.cancel()
                await asyncio.gather(piece.task, return_exceptions=True)
