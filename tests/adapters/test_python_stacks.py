"""Python stacks come from py-spy, bounded in time and size, or with the reason why not."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.adapters import python_stacks
from agent.adapters.python_stacks import NoStack, NoTool, stacks


def installed(folder: Path, body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A py-spy of the test's own, first on PATH."""
    program = folder / "py-spy"
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)
    monkeypatch.setattr(python_stacks, "tool", lambda: str(program))


async def test_the_stacks_are_what_the_tool_prints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked without pausing the process."""
    installed(tmp_path, 'echo "$@"; echo "Thread 7 (idle): MainThread"', monkeypatch)
    assert await stacks(7) == "dump --nonblocking --pid 7\nThread 7 (idle): MainThread\n"


async def test_a_refusal_is_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(
        tmp_path, 'echo "Permission Denied: Try running again with elevated permissions" >&2; exit 1', monkeypatch
    )
    with pytest.raises(NoStack, match="elevated permissions"):
        await stacks(7)


async def test_a_tool_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(tmp_path, "exec sleep 60", monkeypatch)
    monkeypatch.setattr(python_stacks, "DUMP_S", 0.2)
    with pytest.raises(NoStack, match="no answer"):
        await stacks(7)


async def test_no_tool_says_what_would_bring_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(python_stacks.sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoTool) as caught:
        await stacks(7)
    assert "pip install py-spy" in caught.value.advice
