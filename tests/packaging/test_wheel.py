"""The wheel holds what the checkout's package holds."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.lab import wheels
from tests.lab.fixtures import without
from tests.lab.place import REPOSITORY, Unavailable

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


def apart() -> dict[str, str]:
    """The environment without the lab's PYTHONPATH, which would show the checkout to whatever is run."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def environment(folder: Path, wheel: Path, *options: str) -> Path:
    """The programs of a new environment that the wheel was installed into, and nothing else of this checkout."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    pip = (sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "--disable-pip-version-check")
    done = subprocess.run(
        [*pip, "install", "--no-index", *options, wheel], env=apart(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return folder / "bin"


def said(program: Path, *words: str) -> str:
    """What it prints, run from a folder that is not the checkout's."""
    done = subprocess.run(
        [program, *words], env=apart(), capture_output=True, text=True, check=False, cwd=program.parent
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def both_run(programs: Path) -> None:
    """Both say who they are, and a command that needs the shipped profiles and every layer below it works."""
    assert said(programs / "recipe-agent", "--version").startswith("recipe-agent ")
    assert said(programs / "agentctl", "version") == said(programs / "recipe-agent", "--version")
    recipe = REPOSITORY / "config" / "demo" / "demo.json"
    values = {"DEMO_NAME": "demo", "DEMO_PORT": "18095", "DEMO_LISTEN": "127.0.0.1"}
    sets = [word for name, value in values.items() for word in ("--set", f"variables.{name}={value}")]
    plan = json.loads(said(programs / "agentctl", "plan", str(recipe), *sets, "-o", "json"))
    assert plan["engine"]["kind"] == "vllm"


def test_its_programs_run_without_the_checkout(wheel: Path, tmp_path: Path) -> None:
    """With the packages of this environment, which are the ones that it asks for."""
    programs = environment(tmp_path / "new", wheel, "--no-deps")
    (found,) = (tmp_path / "new").glob("lib/python*/site-packages")
    (found / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    both_run(programs)


@pytest.mark.long
def test_it_names_all_that_it_needs(wheel: Path, tmp_path: Path) -> None:
    """In a clean environment, as pipx makes them, with what the wheel asks for and nothing else."""
    try:
        folder = wheels.fetch()
    except Unavailable as gap:
        without(gap)
    programs = environment(tmp_path / "clean", wheel, "--find-links", str(folder))
    both_run(programs)
    assert "apprise" not in said(
        programs / "python", "-c", "import sys, importlib.util as u; print(u.find_spec('apprise'))"
    )
