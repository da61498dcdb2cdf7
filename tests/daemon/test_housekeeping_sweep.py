"""What belongs to plans that are gone goes too."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agent.daemon import housekeeping
from agent.daemon.housekeeping import sweep


def test_files_of_plans_that_are_gone_go_and_fresh_ones_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(housekeeping, "FRESH", 2)
    for age, name in enumerate(("new-b", "new-a", "old-c", "old-b", "old-a")):
        file = tmp_path / f"{name}.json"
        file.write_text("{}")
        os.utime(file, (1_800_000_000 - age, 1_800_000_000 - age))
    (tmp_path / "notes.txt").write_text("not ours")
    sweep(tmp_path, {"old-b"})
    assert sorted(file.name for file in tmp_path.iterdir()) == ["new-a.json", "new-b.json", "notes.txt", "old-b.json"]
    sweep(tmp_path / "none", set())
