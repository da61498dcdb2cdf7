"""The lab's Engine does what the recipes need of one."""

from __future__ import annotations

import pytest

from tests.lab.engine import Engine

pytestmark = pytest.mark.docker


def test_it_answers_and_knows_its_version(lab_engine: Engine) -> None:
    """The client and the server are the unpacked ones."""
    assert lab_engine.docker("version", "--format", "{{.Server.Version}}").strip()
    assert lab_engine.answers()


def test_the_hosts_settings_are_not_read(lab_engine: Engine) -> None:
    """Data and settings are in the session's folder, not where the host's Engine keeps its own."""
    root = lab_engine.docker("info", "--format", "{{.DockerRootDir}}").strip()
    assert root == str(lab_engine.folder / "data")
