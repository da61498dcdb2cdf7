"""What every test may use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytest_plugins = ["tests.lab.fixtures", "tests.lab.nvml.standin", "tests.lab.summary"]

REPOSITORY = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real documents and recordings; without it the test skips, and fails under CI."""
    folder = Path(os.environ.get("RECIPE_AGENT_SHARED") or REPOSITORY.parent / "shared")
    if (folder / "contract.md").is_file():
        return folder
    if os.environ.get("CI") == "true":
        pytest.fail(f"{folder} has no contract.md: CI runs beside the shared documents")
    pytest.skip(f"needs the shared documents (RECIPE_AGENT_SHARED; looked in {folder})")
