"""Shared libraries from C, with the machine's own compiler or a small one from unpacked packages."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.lab import packages

OPTIONS = ("-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror")


def shared_library(source: Path, library: Path) -> None:
    """Compiles `source`; raises Unavailable with the compiler's words when it fails, and where there is none."""
    own = next((found for name in ("cc", "gcc", "clang") if (found := shutil.which(name))), None)
    ending = ("-o", str(library), str(source))
    packages.run((own, *OPTIONS, *ending, "-lpthread") if own else _unpacked(*ending))


def _unpacked(*ending: str) -> tuple[str, ...]:
    """tcc with this release's headers.

    Of the C library it would take start-up files, which a shared library needs none of, from the host alone; the rest
    is there in any process that loads the library.
    """
    root = packages.fetch(packages.COMPILER)
    libraries = next(root.glob("usr/lib/*-linux-gnu"))
    headers = (libraries / "tcc/include", root / "usr/include", root / "usr/include" / libraries.name)
    places = ("-nostdlib", "-nostdinc", *(f"-I{folder}" for folder in headers))
    return (str(root / "usr/bin/tcc"), *OPTIONS, *places, *ending, str(libraries / "tcc/libtcc1.a"))
