"""What the end-to-end tests share: rigs, and what a rig shows when a test on it fails."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e import recipes
from tests.e2e.rig import Rig, running
from tests.lab import images
from tests.lab.engine import Engine


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """A failed test shows the daemon's log, its events and the containers."""
    outcome = yield
    report = outcome.get_result()  # type: ignore[attr-defined]
    if report.when == "call" and report.failed:
        rigs = [value for value in getattr(item, "funcargs", {}).values() if isinstance(value, Rig)]
        report.sections += [("rig", rig.report()) for rig in rigs]


@pytest.fixture(scope="session")
def simulated(lab_engine: Engine) -> Engine:
    """The lab's Engine with the simulator's image."""
    images.simulator(lab_engine, recipes.IMAGE)
    return lab_engine


@pytest.fixture(scope="module")
def shared_rig(simulated: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """A rig on Docker for all tests of a file: each deploys slugs of its own."""
    with running(tmp_path_factory.mktemp("rig"), simulated) as rig:
        yield rig


@pytest.fixture
def rig(simulated: Engine, tmp_path: Path) -> Iterator[Rig]:
    """A rig on Docker for one test alone."""
    with running(tmp_path, simulated) as found:
        yield found


@pytest.fixture
def process_rig(tmp_path: Path) -> Iterator[Rig]:
    """A rig on plain processes for one test alone."""
    with running(tmp_path) as found:
        yield found
