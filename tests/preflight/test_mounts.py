"""What a container sees of the host."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.preflight.facts import PathKind
from agent.preflight.mounts import Bind, astray, binds_of, expected, on_host, outside_roots
from tests.preflight.build import file, plan


@pytest.mark.parametrize(
    ("host", "binds"),
    [
        ({"Binds": ["/a:/b"]}, (Bind("/a", "/b"),)),
        ({"Binds": ["/a:/b:ro"]}, (Bind("/a", "/b", read_only=True),)),
        ({"Binds": ["/a:/b:z,ro"]}, (Bind("/a", "/b", read_only=True),)),
        ({"Binds": ["volume:/b"]}, ()),
        (
            {"Mounts": [{"Type": "bind", "Source": "/a", "Target": "/b", "ReadOnly": True}]},
            (Bind("/a", "/b", read_only=True, makes=False),),
        ),
        ({"Mounts": [{"Type": "volume", "Source": "v", "Target": "/b"}, {"Type": "tmpfs", "Target": "/t"}]}, ()),
        ({}, ()),
    ],
)
def test_binds(host: Any, binds: tuple[Bind, ...]) -> None:
    assert binds_of(plan(host=host)) == binds


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/usr/lib/python3.12/sitecustomize.py", PathKind.FILE),
        ("/etc/localtime", PathKind.FILE),
        ("/models/tiny.gguf", PathKind.FILE),
        ("/var/run/docker.sock", PathKind.SOCKET),
        ("/models/", PathKind.FOLDER),
        ("/models", None),
        ("/root/.tilelang", None),
        ("/usr/lib/python3.12", None),
        ("/models/Qwen3.8-27B", None),
    ],
)
def test_a_targets_look(path: str, kind: PathKind | None) -> None:
    assert expected(path) is kind


BINDS = (Bind("/data", "/models"), Bind("/fast/one", "/models/one"))


@pytest.mark.parametrize(
    ("path", "host"),
    [
        ("/models/two", "/data/two"),
        ("/models/one/a", "/fast/one/a"),
        ("/models", "/data"),
        ("/modelsx", None),
        ("/elsewhere", None),
    ],
)
def test_a_containers_path_on_the_host(path: str, host: str | None) -> None:
    assert on_host(path, BINDS) == host


@pytest.mark.parametrize(
    ("link", "real", "stray"),
    [
        (None, "/data/a", False),
        ("../blobs/a", "/data/blobs/a", False),
        ("../../fast/a", "/fast/a", True),
        ("/data/blobs/a", "/data/blobs/a", True),  # the container has no /data
        ("/same/a", "/same/a", False),
    ],
)
def test_links_that_end_nowhere_in_the_container(link: str | None, real: str, stray: bool) -> None:
    binds = (Bind("/data", "/models"), Bind("/same", "/same"))
    assert astray(file("/data/m/a", real=real, link=link), binds, {}) is stray


def test_a_source_that_is_a_link_itself_is_followed() -> None:
    fact = file("/home/models/m/a", real="/data/m/b", link="b")
    binds = (Bind("/home/models", "/models"),)
    assert not astray(fact, binds, {"/home/models": "/data"})
    assert astray(fact, binds, {})


@pytest.mark.parametrize(
    ("real", "roots", "allowed"),
    [
        ("/data/models", ("/data",), True),
        ("/data", ("/data",), True),
        ("/database", ("/data",), False),
        ("/etc/shadow", ("/data", "/home"), False),
        ("/anything", ("/",), True),
        ("/data/../etc", ("/data",), False),
        ("data", ("/",), False),
        ("/data", (), False),
    ],
)
def test_mounts_stay_within_the_sites_roots(real: str, roots: tuple[str, ...], allowed: bool) -> None:
    assert outside_roots({"/link": real}, roots) == ({} if allowed else {"/link": real})


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.sampled_from(["a", "b", "..", "."]), max_size=6))
def test_no_path_leaves_its_root(parts: list[str]) -> None:
    """Whatever dots a path is made of, one that is let in does not climb."""
    path = "/".join(["/root", *parts])
    if not outside_roots({"s": path}, ("/root",)):
        assert ".." not in path.split("/")
