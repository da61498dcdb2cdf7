"""Every task is guarded: its failure is logged with its reason, and it begins again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import structlog

from agent.errors import AgentError

log = structlog.get_logger()
T = TypeVar("T")

FIRST_WAIT_S = 1.0
LONGEST_WAIT_S = 60.0


async def forever(name: str, work: Callable[[], Awaitable[None]]) -> None:
    """Run `work` again whenever it fails, with growing waits; its own normal end is the end.

    One deployment's trouble must not end another's loop, so this is one of the three places that catch everything.
    """
    wait = FIRST_WAIT_S
    while True:
        started = asyncio.get_running_loop().time()
        try:
            await work()
            return
        except asyncio.CancelledError:
            raise
        except AgentError as error:
            log.warning("task_failed", task=name, reason=error.text)
        except Exception as error:
            log.exception("task_failed", task=name, reason=str(error) or type(error).__name__)
        if asyncio.get_running_loop().time() - started > LONGEST_WAIT_S:
            wait = FIRST_WAIT_S
        await asyncio.sleep(wait)
        wait = min(wait * 2, LONGEST_WAIT_S)


async def attempt(name: str, work: Awaitable[T]) -> T | str:
    """Run `work` once; its failure is logged and comes back as the sentence that says why."""
    try:
        return await work
    except AgentError as error:
        log.warning("task_failed", task=name, reason=error.text)
        return error.text
    except Exception as error:
        reason = str(error) or type(error).__name__
        log.exception("task_failed", task=name, reason=reason)
        return reason


async def cancelled(*tasks: asyncio.Task[None] | None) -> None:
    """Cancel tasks and wait for their end."""
    live = [task for task in tasks if task is not None]
    for task in live:
        task.cancel()
    await asyncio.gather(*live, return_exceptions=True)
