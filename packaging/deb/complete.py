"""Says what a folder of packages lacks by the packages' own words: complete.py 3.13 FOLDER EXTRA

pip chooses files for the Python that it is asked to install for, and dependencies by the markers of the one that it
runs on, so what it left out has to be looked for.
"""

from __future__ import annotations

import sys
from importlib.metadata import Distribution, distributions

from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

OWN = "recipe-agent"


def lacking(python: str, found: dict[str, Distribution], extra: str) -> list[str]:
    """The requirements that nothing in there meets; `extra` is the one of our own that was asked for."""
    here = {**default_environment(), "python_version": python, "python_full_version": f"{python}.0"}
    gaps = []
    for name, one in found.items():
        for wanted in map(Requirement, one.requires or ()):
            if wanted.marker is not None and not wanted.marker.evaluate(
                {**here, "extra": extra if name == OWN else ""}
            ):
                continue
            other = found.get(canonicalize_name(wanted.name))
            if other is None or not wanted.specifier.contains(other.version, prereleases=True):
                gaps.append(f"{one.metadata['Name']} needs {wanted}")
    return gaps


if __name__ == "__main__":
    packages = {canonicalize_name(one.metadata["Name"]): one for one in distributions(path=[sys.argv[2]])}
    if gaps := lacking(sys.argv[1], packages, sys.argv[3]):
        sys.exit(f"cannot complete the packages for Python {sys.argv[1]}: {'; '.join(gaps)}")
