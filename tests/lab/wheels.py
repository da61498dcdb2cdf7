"""Wheels of what the project needs, for this machine's Python: a package index for the lab, which has no network.

pip install --no-index --find-links FOLDER …
"""

from __future__ import annotations

import hashlib
import shutil
import sys
import tempfile
from pathlib import Path

from tests.lab import packages
from tests.lab.place import REPOSITORY, Unavailable, is_inside, lab_folder


def fetch() -> Path:
    """The folder with the wheels of the project's dependencies, the ones for its extras and its build; downloaded when
    it is not there. Raises Unavailable inside the lab, and where it cannot be."""
    metadata = (REPOSITORY / "pyproject.toml").read_bytes()
    home = lab_folder() / "wheels"
    key = hashlib.sha256(sys.version.encode() + metadata).hexdigest()[:12]
    folder = home / key
    with packages.locked(home / "lock"):
        if folder.is_dir():
            return folder
        if is_inside():
            raise Unavailable("cannot fetch wheels: no network inside the lab; run `make test-long` outside of it")
        for older in home.glob("????????????"):
            shutil.rmtree(older)
        with tempfile.TemporaryDirectory(dir=home) as draft:
            _download(Path(draft, "source"), Path(draft, "wheels"), metadata)
            Path(draft, "wheels").rename(folder)
    return folder


def _download(source: Path, into: Path, metadata: bytes) -> None:
    """The dependencies of a project of this metadata that has nothing in it."""
    for file in ("agent/__init__.py", "README.md", "LICENSE"):
        (source / file).parent.mkdir(parents=True, exist_ok=True)
        (source / file).touch()
    (source / "agent/version.py").write_text('VERSION = "0"\n')
    (source / "pyproject.toml").write_bytes(metadata)
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
    packages.run((*pip, "download", "--dest", str(into), "setuptools>=77", "wheel", f"{source}[notify]"))
    for own in into.glob("recipe_agent-*"):
        own.unlink()
