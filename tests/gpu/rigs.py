"""A site with the host's cards, for the end-to-end rig, and recipes whose engine holds a card."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.e2e import recipes
from tests.e2e.rig import Rig
from tests.gpu.box import DRIVER, HERE, PREFIX, Box, HostEngine, simulator_folder, writes
from tests.lab.children import free_port
from tests.lab.place import REPOSITORY


@contextmanager
def running(folder: Path, engine: HostEngine | None, gpus: Sequence[str] = ("0",)) -> Iterator[Rig]:
    """A rig on the host's own Engine (None: plain processes) whose daemon answers, with the site's choice of cards."""
    more = {"LD_LIBRARY_PATH": f"{DRIVER}:{os.environ.get('LD_LIBRARY_PATH', '')}"} if DRIVER.is_dir() else {}
    rig = Rig(folder, engine, more)  # type: ignore[arg-type]
    roots = [str(folder), str(HERE), str(simulator_folder()), "/usr", "/opt", "/etc"]
    # engines listen on the host's own network: what publishes ports is no matter of cards
    rig.site["policy"] = {"host_network": True, "mount_roots": roots}
    rig.site["gpus"] = list(gpus)
    try:
        rig.start()
        yield rig
    finally:
        rig.close()


def placed(*cards: str, **windows: object) -> str:
    """A site's profile that puts a recipe on these cards."""
    return json.dumps(json.loads(recipes.profile(**windows)) | {"gpus": list(cards)})


def on_card(
    folder: Path, box: Box, slug: str, size: int, cards: str = "0", port: int | None = None
) -> tuple[dict[str, Any], int]:
    """A recipe for `cards` whose engine is the simulator with a `load.py` beside it for each, and its port."""
    port = port or free_port()
    count = len(cards.split(","))
    program = folder / slug
    program.mkdir()
    writes(program, box, size, count)
    document = recipes.recipe(slug, port, image=box.image, flags=("--tensor-parallel-size", str(count)))
    launch = document["config"]["launch"]
    name = launch.index("--name")
    launch[name + 1] = f"{PREFIX}{slug}"
    start = launch.index("-p")
    launch[start : start + 4] = [
        *("--gpus", f'"device={cards}"', "--network", "host", "--ulimit", "memlock=-1", *box.options),
        *("-v", f"{program}:/own:ro", "-v", f"{HERE}:/gpu:ro", "-v", f"{simulator_folder()}:/sim:ro"),
        *("--entrypoint", "/own/vllm"),
    ]
    return document, port


def as_process(rig: Rig, python: str, size: int, busy: str) -> None:
    """`vllm` of a rig on plain processes: the simulator as before, and `load.py` as its child."""
    program = rig.folder / "bin" / "vllm"
    program.write_text(
        f"#!/bin/sh\n{python} {HERE / 'load.py'} {size} {busy} >/dev/null 2>&1 &\n"
        f'PYTHONPATH={REPOSITORY / "tests" / "lab"} exec {python} -m simulator "$@"\n'
    )
