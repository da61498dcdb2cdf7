"""One machine for all tests of this folder: it takes ten seconds to make."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.lab import systemd
from tests.lab.engine import Engine
from tests.lab.systemd import Machine
from tests.units import hosted


@pytest.fixture(scope="session")
def machine(lab_engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A host with the service installed as units/README.md says, its engine a simulator, and the demo's recipe."""
    folder = tmp_path_factory.mktemp("machine")
    given = [f"--cap-add={name}" for name in hosted.CAPABILITIES]  # a host has them, a container by default does not
    with systemd.booted(lab_engine, "agent-machine", *given, *hosted.mounts(folder)) as booted:
        lab_engine.docker("cp", "-", "agent-machine:/", stdin=hosted.python(folder / "python.tar"))
        booted.run("chmod", "755", "/root")  # where Python may lie
        booted.run("systemd-sysusers")
        booted.run("systemd-tmpfiles", "--create")
        booted.run("systemctl", "daemon-reload")
        yield booted
