"""Stacks of Python processes, by py-spy where it is installed: from outside, without the process's help."""

from __future__ import annotations

import asyncio
import shutil
import sys
from contextlib import suppress
from pathlib import Path

from agent.errors import AgentError

DUMP_S = 8.0
LARGEST = 400_000


class NoStack(AgentError):
    """The stacks of a process could not be had."""

    code = "stacks.failed"
    message = "cannot read the stacks of pid {pid}: {why}"


class NoTool(AgentError):
    """Nothing on this host can read them."""

    code = "stacks.no_tool"
    message = "cannot read Python stacks: py-spy is not installed beside the agent or on PATH"
    hint = "pip install py-spy; an engine's own faulthandler cannot be asked from outside"


def tool() -> str | None:
    """py-spy beside the agent's own Python, else on PATH."""
    beside = Path(sys.executable).with_name("py-spy")
    return str(beside) if beside.is_file() else shutil.which("py-spy")


async def stacks(pid: int) -> str:
    """All threads of `pid`. The process is not paused for it, so that a look never makes anything worse.

    Raises NoTool and NoStack.
    """
    program = tool()
    if program is None:
        raise NoTool
    words = (program, "dump", "--nonblocking", "--pid", str(pid))
    child = await asyncio.create_subprocess_exec(
        *words, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        async with asyncio.timeout(DUMP_S):
            out, err = await child.communicate()
    except TimeoutError as error:
        raise NoStack(pid=pid, why=f"py-spy gave no answer within {DUMP_S:.0f} s") from error
    finally:
        if child.returncode is None:
            with suppress(ProcessLookupError):
                child.kill()
            await child.wait()
    if child.returncode:
        raise NoStack(pid=pid, why=err.decode("utf-8", "replace").strip().splitlines()[-1:] or "py-spy failed")
    return out[:LARGEST].decode("utf-8", "replace")
