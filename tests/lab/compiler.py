"""Shared libraries from C, with the machine's own compiler or one from unpacked packages."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tests.lab import packages

OPTIONS = ("-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror")


def shared_library(source: Path, library: Path) -> None:
    """Compiles `source`; raises Unavailable with the compiler's words when it fails, and where there is none."""
    own = next(filter(None, map(shutil.which, packages.COMPILER.unless)), None)
    if own is not None:
        packages.run((own, *OPTIONS, "-o", str(library), str(source)))
    else:
        _with_unpacked(packages.fetch(packages.COMPILER), ("-o", str(library), str(source)))


def _with_unpacked(root: Path, words: tuple[str, ...]) -> None:
    """Without the C library, which is not in `root` and is there in any process that loads the shared one."""
    path = f"{packages.programs(root)}:{os.environ.get('PATH', '')}"
    environment = {**os.environ, "PATH": path, "LD_LIBRARY_PATH": packages.libraries(root)}
    packages.run(
        (str(root / "usr/bin/gcc"), f"--sysroot={root}", "-nostdlib", *OPTIONS, *words), environment=environment
    )
