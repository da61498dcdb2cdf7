"""Where the lab keeps its things, whether this process runs inside it, and how it says that a part cannot be had."""

from __future__ import annotations

import os
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]

# Set by `inside.py` for everything that runs in the lab's namespaces.
SESSION = "RECIPE_AGENT_LAB_SESSION"
OUTER_NETWORK = "RECIPE_AGENT_LAB_OUTER_NETWORK"

# Set by it for a command that it runs outside because the lab cannot be entered: why.
OUTSIDE_BECAUSE = "RECIPE_AGENT_LAB_OUTSIDE_BECAUSE"

HOW_TO_ENTER = "run `make test`, or `.venv/bin/python -m tests.lab.inside -- .venv/bin/pytest …`"


class Unavailable(Exception):
    """A part of the lab cannot be had on this machine: "cannot X: why". A test that needs it skips (fails under CI)."""


def lab_folder() -> Path:
    """The lab's own folder: nothing outside it (and temporary files) is written on the host."""
    return Path(os.environ.get("RECIPE_AGENT_LAB") or REPOSITORY / ".lab").resolve()


def network_identity() -> str:
    """Names the network namespace of this process, such as `net:[4026531840]`."""
    return os.readlink("/proc/self/ns/net")


def is_inside() -> bool:
    """Whether this process is in the lab's own network namespace, by comparing it with the one that was left."""
    outer = os.environ.get(OUTER_NETWORK)
    return outer is not None and outer != network_identity()


def session_folder() -> Path:
    """The folder of this run, removed when it ends.

    Raises Unavailable outside the lab's namespaces: an Engine started there would rewrite the host's own rules for
    published ports.
    """
    if not is_inside():
        why = os.environ.get(OUTSIDE_BECAUSE) or f"this is the host's own network; {HOW_TO_ENTER}"
        raise Unavailable(f"cannot start a Docker Engine here: {why}")
    return Path(os.environ[SESSION])
