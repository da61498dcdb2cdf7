"""Builds the stand-in library and shows hosts with it."""

from __future__ import annotations

import json
import os
import threading
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.lab import compiler
from tests.lab.fixtures import without
from tests.lab.nvml.hosts import Document
from tests.lab.place import Unavailable

SOURCE = Path(__file__).with_name("standin.c")


def build(folder: Path) -> Path:
    """Compiles the library into `folder`, which takes about a second; raises Unavailable without a compiler."""
    library = folder / "libnvidia-ml.so.1"
    compiler.shared_library(SOURCE, library)
    return library


@dataclass(frozen=True)
class StandIn:
    """The library, and the file that tells it what to show."""

    library: Path
    file: Path

    @property
    def environment(self) -> dict[str, str]:
        """What a program needs in its environment from its start on."""
        return {"LD_LIBRARY_PATH": str(self.library.parent), "RECIPE_AGENT_LAB_NVML": str(self.file)}

    def show(self, host: Document) -> None:
        """Shows `host` from the next call of the library on, in all programs that use it."""
        fresh = self.file.with_suffix(f".{threading.get_ident()}")
        fresh.write_text(json.dumps(host))
        os.replace(fresh, self.file)


@pytest.fixture(scope="session")
def nvml_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stand-in for libnvidia-ml.so.1, built once."""
    try:
        return build(tmp_path_factory.mktemp("nvml"))
    except Unavailable as gap:
        without(gap)


@pytest.fixture
def nvml(nvml_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StandIn:
    """A host with GPUs for every program that this test starts; none is shown before `show`."""
    standin = StandIn(nvml_library, tmp_path / "nvml.json")
    for name, value in standin.environment.items():
        monkeypatch.setenv(name, value)
    return standin
