"""A C compiler for shared libraries: the machine's own, or a small one from unpacked packages."""

from __future__ import annotations

import shutil

from tests.lab import packages


def command() -> list[str]:
    """The words that start it; raises Unavailable where the machine has none and none can be unpacked."""
    own = next((found for name in ("cc", "gcc", "clang") if (found := shutil.which(name))), None)
    return [own] if own else _unpacked()


def _unpacked() -> list[str]:
    """tcc with this release's headers; it takes the options of the others that matter here.

    It looks for the C library's start-up files on the host only. A shared library needs none, and finds the C library
    in the process that loads it.
    """
    root = packages.fetch(packages.COMPILER)
    libraries = next(root.glob("usr/lib/*-linux-gnu"))
    headers = (libraries / "tcc/include", root / "usr/include", root / "usr/include" / libraries.name)
    places = [
        f"-B{libraries / 'tcc'}",
        "-nostdinc",
        *(f"-I{folder}" for folder in headers),
        f"-L{libraries}",
        "-nostdlib",
    ]
    return [str(root / "usr/bin/tcc"), *places]
