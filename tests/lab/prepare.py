"""What the long tests need of the network, before the lab is entered, which has none: `python -m tests.lab.prepare`."""

from __future__ import annotations

import sys

from tests.lab import debian, wheels
from tests.lab.place import Unavailable


def main() -> int:
    """0 also where something cannot be had: its tests then skip, and say so."""
    for name, make in {"wheels": wheels.fetch, "package": debian.package, "Debian": debian.roots}.items():
        try:
            print(f"lab: {name}: {make()}")
        except Unavailable as gap:
            print(f"lab: {gap}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
