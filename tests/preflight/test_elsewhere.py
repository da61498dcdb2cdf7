"""Engines that are not this host's: refused or passed over in words."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from agent.adapters.preflight_facts import passed_over
from agent.preflight.checks import runtime_reachable
from agent.preflight.model import Level
from agent.settings.model import Settings
from agent.wiring import Parts, check, container_engine
from tests.preflight.build import plan


@pytest.fixture
async def remote() -> AsyncIterator[Parts]:
    parts = Parts(Settings.model_validate({"docker": {"host": "tcp://rig.example:2376"}, "runtime": "docker"}))
    yield parts
    await parts.close()


async def test_a_remote_engine_is_refused_before_it_is_asked(remote: Parts) -> None:
    engine, why = container_engine(remote)
    assert engine is None
    assert "docker.host is tcp://rig.example:2376, which is not this host" in why
    (finding,) = await check(remote, plan(), None, (runtime_reachable.CHECK,))
    assert (finding.level, finding.refuses) == (Level.FAIL, True)
    assert "which is not this host" in finding.found
    assert "run the agent on the host that has the cards" in finding.hint


@pytest.mark.parametrize(
    ("named", "told"),
    [
        ("", ""),
        ("unix:///run/docker.sock", ""),
        ("tcp://rig:2376", "tcp://rig:2376"),
        ("ssh://root@rig", "ssh://root@rig"),
        ("unix:///run/user/1000/docker.sock", "unix:///run/user/1000/docker.sock"),
    ],
)
def test_a_docker_host_that_does_not_count_is_told(monkeypatch: pytest.MonkeyPatch, named: str, told: str) -> None:
    monkeypatch.setenv("DOCKER_HOST", named)
    assert passed_over("/run/docker.sock") == told
