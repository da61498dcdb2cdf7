"""The wheel holds what the checkout's package holds."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.lab.place import REPOSITORY

SOURCES = ("pyproject.toml", "README.md", "LICENSE", "agent", "config/profiles")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, so that the checkout stays clean and nothing of an earlier build gets in."""
    # Asked for by its metadata: imported after another test took the interpreter's own distutils, it refuses to load.
    if int(version("setuptools").partition(".")[0]) < 77:
        pytest.skip("building without a package index needs setuptools >= 77 here")
    folder = tmp_path_factory.mktemp("wheel")
    for name in SOURCES:
        source, target = REPOSITORY / name, folder / "checkout" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)
    words = ("wheel", "--quiet", "--no-deps", "--no-build-isolation", "--disable-pip-version-check")
    build = [sys.executable, "-m", "pip", *words, "--wheel-dir", str(folder), str(folder / "checkout")]
    done = subprocess.run(build, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (found,) = folder.glob("*.whl")
    return found


def test_every_file_of_the_package_is_in_it(wheel: Path) -> None:
    """Modules, the status page's parts, and the shipped profiles, which are a link in the checkout; not its notes."""
    package = REPOSITORY / "agent"
    files = {path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    files = {path for path in files if path.suffix != ".md"}
    files |= set((package / "profile" / "shipped").glob("*.yaml"))
    wanted = {str(path.relative_to(REPOSITORY)) for path in files}
    assert len([name for name in wanted if "/shipped/" in name]) >= 5
    assert wanted - set(zipfile.ZipFile(wheel).namelist()) == set()


def test_nothing_else_is_in_it(wheel: Path) -> None:
    """No tests, no settings of this machine."""
    tops = {name.partition("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"agent"}


def test_its_programs_are_named(wheel: Path) -> None:
    """What an installation puts on PATH; the last is systemd's to run."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("entry_points.txt"))
        text = archive.read(name).decode()
    assert "agentctl = agent.cli.main:main" in text
    assert "recipe-agent = agent.daemon.main:main" in text
    assert "recipe-agent-engine = agent.adapters.process_launcher:main" in text
