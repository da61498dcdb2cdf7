"""A real registry of images on loopback: push, pull and pull by digest, over plain HTTP as loopback registries may.

with registry.running(tmp_path) as images_at:
    docker_engine.docker("tag", "busybox:lab", f"{images_at}/busybox:1")
    docker_engine.docker("push", f"{images_at}/busybox:1")
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.lab import packages
from tests.lab.children import free_port, serving
from tests.lab.place import session_folder


@contextmanager
def running(folder: Path) -> Iterator[str]:
    """`127.0.0.1:PORT` of an empty registry that keeps its images in `folder`.

    Runs in the lab only (raises Unavailable outside): the lab's Engine must reach it.
    """
    session_folder()
    port = free_port()
    address = f"127.0.0.1:{port}"
    settings = {
        "version": 0.1,
        "storage": {"filesystem": {"rootdirectory": str(folder / "images")}, "delete": {"enabled": True}},
        "http": {"addr": address},
    }
    path = folder / "registry.yml"
    path.write_text(json.dumps(settings))  # YAML holds JSON
    program = packages.fetch(packages.ENGINE) / "usr/bin/docker-registry"
    with serving([program, "serve", path], port, folder / "registry.log"):
        yield address
