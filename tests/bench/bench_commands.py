"""`agentctl status`, `plan` and `preflight` as an operator has them: from a wheel, against the bare interpreter.

    python -m tests.bench.bench_commands

An editable installation finds every import through a hook and says nothing about an installed one, so a wheel is built
of a copy of the tree and installed into an environment of its own; only what it depends on comes from this one.
Prints one line of JSON, medians in milliseconds; turns are taken, so that what else the machine does meets all alike.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
import venv
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.e2e import recipes
from tests.e2e.rig import Rig, running
from tests.lab.children import free_port
from tests.lab.place import REPOSITORY

TURNS = 11
PARTS = ("agent", "config", "packaging", "pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "units")


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        python = installed(folder)
        agentctl = python.with_name("agentctl")
        with running(folder / "rig") as rig:
            rig.publish(recipes.recipe("small", free_port()), recipes.profile())
            rig.ok("deploy", "small", "--yes", "-q", "--wait=60")
            document = str(rig.folder / "recipes" / "small.json")
            figures = medians(
                rig,
                {
                    "bare_ms": [python, "-c", "pass"],
                    "status_ms": [agentctl, "status"],
                    "version_ms": [agentctl, "version"],
                    "plan_ms": [agentctl, "plan", document],
                    "preflight_ms": [agentctl, "preflight", document],
                },
            )
    figures["status_ratio"] = round(figures["status_ms"] / figures["bare_ms"], 2)
    print(json.dumps(figures))
    return 0


def installed(folder: Path) -> Path:
    """The interpreter of a fresh environment that has the agent from a wheel."""
    source, wheels = folder / "source", folder / "wheels"
    source.mkdir()
    for part in PARTS:
        origin = REPOSITORY / part
        if origin.is_dir():
            shutil.copytree(origin, source / part, ignore=shutil.ignore_patterns("__pycache__"))
        elif origin.is_file():
            shutil.copy(origin, source / part)
    pip: list[str | Path] = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    run([*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", wheels, source])
    venv.create(folder / "venv", with_pip=False)
    python = folder / "venv" / "bin" / "python"
    (wheel,) = wheels.glob("*.whl")
    run([*pip, "--python", python, "install", "--no-deps", "--no-index", wheel])
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    # a .pth names one folder more and is not followed into that folder's own: the editable hook stays out
    packages = folder / "venv" / "lib" / version / "site-packages"
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python


def run(words: Sequence[str | Path]) -> None:
    subprocess.run(
        words, env=without_tree(os.environ), check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, cwd="/"
    )


def without_tree(environment: Mapping[str, str]) -> dict[str, str]:
    """The lab puts the tree on PYTHONPATH: pip would take it as installed, and the commands would run from it."""
    return {name: value for name, value in environment.items() if name != "PYTHONPATH"}


def medians(rig: Rig, commands: Mapping[str, Sequence[str | Path]]) -> dict[str, float]:
    """The first turn is not counted: it reads from the disk and compiles."""
    environment = without_tree(rig.environment)
    times: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(1 + TURNS):
        for name, words in commands.items():
            began = time.perf_counter()
            subprocess.run(
                words, env=environment, cwd=rig.folder, stdin=subprocess.DEVNULL, capture_output=True, check=False
            )
            times[name].append(time.perf_counter() - began)
    return {name: round(statistics.median(taken[1:]) * 1000, 1) for name, taken in times.items()}


if __name__ == "__main__":
    raise SystemExit(main())
