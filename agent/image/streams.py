"""Streams of what is going on, ended when nobody follows them any more."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar

Item = TypeVar("Item")


@asynccontextmanager
async def closing(steps: AsyncIterator[Item]) -> AsyncIterator[AsyncIterator[Item]]:
    """Closing a generator is what ends its connection, and with it the pull or build; a plain iterator holds none."""
    try:
        yield steps
    finally:
        if isinstance(steps, AsyncGenerator):
            await steps.aclose()
