"""The lab's parts as fixtures; `tests/conftest.py` registers them.

A part that this machine cannot have makes its tests skip with the reason; under CI=true they fail instead.
"""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import NoReturn, TypeVar

import pytest

from tests.lab import engine, gitserver, packages, prometheus, recipesite, registry
from tests.lab.place import Unavailable, session_folder

Part = TypeVar("Part")
NUMBERS = itertools.count(1)


def without(gap: Unavailable) -> NoReturn:
    """Ends a test whose part cannot be had: a skip, and a failure under CI."""
    if os.environ.get("CI") == "true":
        pytest.fail(str(gap))
    pytest.skip(str(gap))


def entered(stack: ExitStack, part: AbstractContextManager[Part]) -> Part:
    """The part, entered; only what stands in the way of having it skips, not what a test does with it."""
    try:
        return stack.enter_context(part)
    except Unavailable as gap:
        without(gap)


@pytest.fixture(scope="session")
def lab_session() -> Path:
    """The folder of this run, for what runs in the lab's namespaces only but needs no Engine."""
    try:
        return session_folder()
    except Unavailable as gap:
        without(gap)


@pytest.fixture(scope="session")
def llama_server(shared: Path) -> Path:
    """A real llama.cpp server, from the shared documents or from PATH."""
    found = shutil.which("llama-server", path=f"{shared / 'bin'}:{os.environ.get('PATH', '')}")
    if found is None:
        without(Unavailable("cannot start llama.cpp: no llama-server on PATH"))
    return Path(found)


@pytest.fixture(scope="session")
def docker_client() -> Path:
    """A docker client to ask what it would do; the machine's own, else the unpacked one."""
    try:
        own = shutil.which("docker")
        return Path(own) if own else packages.fetch(packages.ENGINE) / "usr/bin/docker"
    except Unavailable as gap:
        without(gap)


@pytest.fixture(scope="session")
def lab_engine() -> Iterator[engine.Engine]:
    """One Docker Engine for the whole run. A test names its containers itself and removes them."""
    with ExitStack() as stack:
        yield entered(stack, engine.running("engine"))


@pytest.fixture
def own_engine(request: pytest.FixtureRequest) -> Iterator[engine.Engine]:
    """An Engine for one test alone, which may stop, freeze or kill it; indirect parameters are dockerd's options."""
    with ExitStack() as stack:
        name = f"own-{next(NUMBERS)}"
        yield entered(stack, engine.running(name, getattr(request, "param", ())))


@pytest.fixture
def lab_registry(tmp_path: Path) -> Iterator[str]:
    """`127.0.0.1:PORT` of an empty registry of images that the lab's Engine can reach."""
    with ExitStack() as stack:
        yield entered(stack, registry.running(tmp_path))


@pytest.fixture(scope="session")
def prometheus_tools() -> prometheus.Tools:
    """prometheus, promtool, alertmanager and amtool."""
    try:
        return prometheus.tools()
    except Unavailable as gap:
        without(gap)


@pytest.fixture(scope="session")
def systemd_tools() -> None:
    """systemd's programs and units are unpacked; see `tests/lab/systemd.py` for what they do."""
    try:
        packages.fetch(packages.SYSTEMD)
    except Unavailable as gap:
        without(gap)


@pytest.fixture
def git_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[gitserver.GitServer]:
    """A git server on loopback with no repositories yet; `git` is on PATH for what the test starts."""
    try:
        for name, value in gitserver.needed_environment().items():
            monkeypatch.setenv(name, value)
    except Unavailable as gap:
        without(gap)
    with ExitStack() as stack:
        yield entered(stack, gitserver.running(tmp_path))


@pytest.fixture
def recipe_site() -> Iterator[recipesite.RecipeSite]:
    """A recipe site on loopback that publishes nothing yet."""
    with recipesite.running() as site:
        yield site
