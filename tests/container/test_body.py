"""The body that is posted: the launch's own, with what supervision needs."""

from __future__ import annotations

from typing import Any

import pytest

from agent.container.body import LogBounds, compose, spec_for
from agent.container.labels import Identity
from agent.errors import NotFound
from agent.plan.model import ContainerPlan

IDENTITY = Identity("some-recipe", "plan-1", 4, 8000)
BOUNDS = LogBounds("50m", 4)


def secret(name: str) -> str:
    if name != "HF_TOKEN":
        raise NotFound(what="secret", name=name, why="the site names no file for it")
    return "hunter2"


def composed(body: dict[str, Any]) -> dict[str, Any]:
    return compose(body, IDENTITY, BOUNDS, secret)


def test_the_launch_stays_as_it_is_apart_from_what_is_ours() -> None:
    body = {"Image": "i", "Cmd": ["serve"], "Labels": {"a": "b"}, "HostConfig": {"IpcMode": "host", "Binds": ["/a:/b"]}}
    result = composed(body)
    assert {key: result[key] for key in ("Image", "Cmd")} == {"Image": "i", "Cmd": ["serve"]}
    assert result["HostConfig"]["IpcMode"] == "host"
    assert result["HostConfig"]["Binds"] == ["/a:/b"]
    assert result["Labels"] == {
        "a": "b",
        "recipe-agent.recipe": "some-recipe",
        "recipe-agent.plan": "plan-1",
        "recipe-agent.generation": "4",
        "recipe-agent.port": "8000",
    }
    assert body["HostConfig"] == {"IpcMode": "host", "Binds": ["/a:/b"]}, "the plan's body is not touched"
    assert "Env" not in result


def test_docker_neither_restarts_nor_removes_nor_attaches() -> None:
    result = composed(
        {
            "Tty": True,
            "OpenStdin": True,
            "StdinOnce": True,
            "AttachStdin": True,
            "AttachStdout": True,
            "AttachStderr": True,
            "HostConfig": {"AutoRemove": True, "RestartPolicy": {"Name": "unless-stopped", "MaximumRetryCount": 0}},
        }
    )
    attached = ("Tty", "OpenStdin", "StdinOnce", "AttachStdin", "AttachStdout", "AttachStderr")
    assert [result[key] for key in attached] == [False] * 6
    assert result["HostConfig"]["AutoRemove"] is False
    assert result["HostConfig"]["RestartPolicy"] == {"Name": "no", "MaximumRetryCount": 0}


def test_labels_of_ours_that_a_launch_forged_are_dropped() -> None:
    forged = {"recipe-agent.recipe": "another", "recipe-agent.secrets": "", "recipe-agent.anything": "x"}
    labels = composed({"Labels": forged})["Labels"]
    assert labels["recipe-agent.recipe"] == "some-recipe"
    assert "recipe-agent.anything" not in labels
    assert "recipe-agent.secrets" not in labels


@pytest.mark.parametrize(
    ("asked", "expect"),
    [
        (None, {"Type": "json-file", "Config": {"max-size": "50m", "max-file": "4"}}),
        ({"Type": "", "Config": {}}, {"Type": "json-file", "Config": {"max-size": "50m", "max-file": "4"}}),
        ({"Type": "", "Config": None}, {"Type": "json-file", "Config": {"max-size": "50m", "max-file": "4"}}),
        (
            {"Type": "json-file", "Config": {"max-size": "-1", "tag": "t"}},
            {"Type": "json-file", "Config": {"max-size": "50m", "max-file": "4", "tag": "t"}},
        ),
        (
            {"Type": "json-file", "Config": {"max-file": "2"}},
            {"Type": "json-file", "Config": {"max-size": "50m", "max-file": "2"}},
        ),
        (
            {"Type": "json-file", "Config": {"max-size": "1g"}},
            {"Type": "json-file", "Config": {"max-size": "1g"}},
        ),
        ({"Type": "journald", "Config": {}}, {"Type": "journald", "Config": {}}),
        ({"Type": "local", "Config": {}}, {"Type": "local", "Config": {}}),
    ],
)
def test_a_log_is_bounded_where_the_launch_did_not_bound_it(asked: object, expect: object) -> None:
    assert composed({"HostConfig": {"LogConfig": asked}})["HostConfig"]["LogConfig"] == expect


def test_secrets_go_in_and_their_names_are_noted() -> None:
    result = composed({"Env": ["A=1", "HF_TOKEN=secret:HF_TOKEN", "B=secret:", "C"]})
    assert result["Env"] == ["A=1", "HF_TOKEN=hunter2", "B=secret:", "C"]
    assert result["Labels"]["recipe-agent.secrets"] == "HF_TOKEN"


def test_a_secret_that_nobody_has_ends_it() -> None:
    with pytest.raises(NotFound):
        composed({"Env": ["X=secret:OTHER"]})


def test_a_spec_carries_name_platform_and_identity() -> None:
    spec = spec_for(ContainerPlan("engine", "linux/amd64", {"Env": ["T=secret:HF_TOKEN"]}), IDENTITY, BOUNDS, secret)
    assert (spec.slug, spec.plan_id, spec.generation) == ("some-recipe", "plan-1", 4)
    assert (spec.name, spec.platform) == ("engine", "linux/amd64")
    assert "hunter2" not in repr(spec)
