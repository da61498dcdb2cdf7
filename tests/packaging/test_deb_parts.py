"""The parts of the package that can be looked at without building it; test_deb.py builds and installs it."""

from __future__ import annotations

import runpy
import subprocess
from collections.abc import Callable, Sequence
from importlib.metadata import Distribution, distributions
from pathlib import Path

import pytest

from tests.lab.place import REPOSITORY

DEB = REPOSITORY / "packaging" / "deb"


@pytest.mark.parametrize("name", ["postinst", "prerm", "postrm", "build"])
def test_its_scripts_can_be_read_by_their_shell(name: str) -> None:
    """A mistake in one of them leaves a host with a package that can neither be configured nor removed."""
    script = DEB / name
    shell = "bash" if "bash" in script.read_text().partition("\n")[0] else "sh"
    done = subprocess.run([shell, "-n", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert script.stat().st_mode & 0o111


def test_every_file_of_the_service_is_in_it() -> None:
    """What lies beside the unit is of no use where it is not installed."""
    build = (DEB / "build").read_text()
    files = {path.name for path in (REPOSITORY / "units").iterdir() if path.is_file() and path.suffix != ".md"}
    assert len(files) >= 3
    assert {name for name in files if name not in build} == set()


def dist(folder: Path, name: str, version: str, requires: Sequence[str]) -> None:
    """A package as pip leaves it."""
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir()
    lines = [
        "Metadata-Version: 2.1",
        f"Name: {name}",
        f"Version: {version}",
        *(f"Requires-Dist: {r}" for r in requires),
    ]
    (info / "METADATA").write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize(
    ("requires", "python", "gap"),
    [
        (["old-shim; python_version < '3.12'"], "3.13", False),
        (["old-shim; python_version < '3.12'"], "3.11", True),  # what pip on 3.13 leaves out for 3.11
        (["Some_Thing>=2"], "3.13", False),
        (["some-thing>=3"], "3.13", True),
        (["tests; extra == 'dev'"], "3.13", False),
        (["apprise; extra == 'notify'"], "3.13", True),
    ],
)
def test_what_another_python_would_need_is_missed(tmp_path: Path, requires: list[str], python: str, gap: bool) -> None:
    """By the packages' own words, for the Python that they will run on and not for the one that builds."""
    dist(tmp_path, "recipe_agent", "1", requires)
    dist(tmp_path, "some.thing", "2.1", [])
    names = runpy.run_path(str(DEB / "complete.py"))
    lacking: Callable[[str, dict[str, Distribution], str], list[str]] = names["lacking"]
    found = {names["canonicalize_name"](one.metadata["Name"]): one for one in distributions(path=[str(tmp_path)])}
    assert bool(lacking(python, found, "notify")) is gap
