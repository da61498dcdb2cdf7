"""A live daemon for the tests of its API: its TCP side open with a token, its rate out of the way."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import recipes
from tests.e2e.rig import Rig
from tests.lab.children import free_port

TOKEN = "a-token-of-the-tests-0123456789"
OTHER_TOKEN = "another-token-of-the-tests-98765"


def open_rig(folder: Path, **listen: Any) -> Rig:
    """A rig on plain processes that is not started yet; `listen` are keys of the site file."""
    folder.mkdir(exist_ok=True)
    rig = Rig(folder)
    tokens = folder / "tokens"
    tokens.write_text(f"# of the tests\n{TOKEN}\n\n{OTHER_TOKEN}\n")
    tokens.chmod(0o600)
    wide = {"token_file": str(tokens), "rate_per_s": 5000, "burst": 5000}
    rig.site["listen"] |= wide | listen
    return rig


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """One daemon for all tests of a file, with one deployment that is ready: `sim`."""
    found = open_rig(tmp_path_factory.mktemp("api"))
    try:
        found.start()
        found.publish(recipes.recipe("sim", free_port()), recipes.profile())
        found.ok("deploy", "sim", "--yes", "-q", "--wait=60")
        yield found
    finally:
        found.close()
