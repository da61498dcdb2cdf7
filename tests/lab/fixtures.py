"""The lab's parts as fixtures; `tests/conftest.py` registers them.

A part that this machine cannot have makes its tests skip with the reason; under CI=true they fail instead.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.lab import engine
from tests.lab.place import Unavailable, session_folder


@contextmanager
def or_skip() -> Iterator[None]:
    """Turns a part that cannot be had into a skip, or under CI into a failure."""
    try:
        yield
    except Unavailable as gap:
        if os.environ.get("CI") == "true":
            pytest.fail(str(gap))
        pytest.skip(str(gap))


@pytest.fixture(scope="session")
def lab_engine() -> Iterator[engine.Engine]:
    """One Docker Engine for the whole run. A test names its containers itself and removes them."""
    with or_skip():
        docker_engine = engine.Engine(session_folder() / "engine")
        docker_engine.start()
    yield docker_engine
    docker_engine.stop()


@pytest.fixture
def own_engine(request: pytest.FixtureRequest) -> Iterator[engine.Engine]:
    """An Engine for one test alone, which may stop, freeze or kill it. Options: `indirect=True` with a list of them."""
    with or_skip():
        docker_engine = engine.Engine(session_folder() / "own", getattr(request, "param", ()))
        docker_engine.start()
    yield docker_engine
    docker_engine.stop()
