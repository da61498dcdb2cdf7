"""A mount is what it leads to at the moment when the container is made."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from agent.daemon.mounts import MountOutside, allowed_mounts
from agent.plan.model import ContainerPlan
from tests.action.test_replace import plan


def with_mount(source: Path, *roots: Path):  # type: ignore[no-untyped-def]
    body = {"HostConfig": {"Binds": [f"{source}:/models:ro"]}}
    return replace(
        plan("demo"), container=ContainerPlan("demo", None, body), mount_roots=tuple(str(root) for root in roots)
    )


async def test_a_folder_below_a_root_is_mounted(tmp_path: Path) -> None:
    """The plain case raises nothing."""
    (tmp_path / "models").mkdir()
    await allowed_mounts(with_mount(tmp_path / "models", tmp_path))


async def test_a_link_out_of_the_root_is_refused(tmp_path: Path) -> None:
    """Swapped for a link after the plan was shown: the end of the link counts, and it is named."""
    root = tmp_path / "root"
    root.mkdir()
    (root / "models").symlink_to("/etc")
    with pytest.raises(MountOutside) as caught:
        await allowed_mounts(with_mount(root / "models", root))
    assert "/etc" in caught.value.text
    assert "mount_roots" in caught.value.advice


async def test_a_root_that_is_a_link_itself_holds_what_it_leads_to(tmp_path: Path) -> None:
    """An operator's /models that points to another disk is what was allowed."""
    disk = tmp_path / "disk"
    (disk / "a").mkdir(parents=True)
    (tmp_path / "models").symlink_to(disk)
    await allowed_mounts(with_mount(tmp_path / "models" / "a", tmp_path / "models"))


async def test_dots_behind_a_link_lead_where_the_kernel_goes(tmp_path: Path) -> None:
    """`models/link/..` is `models` by its letters, and the folder above the link's end for the kernel."""
    root, other = tmp_path / "root", tmp_path / "other" / "deep"
    root.mkdir()
    other.mkdir(parents=True)
    (root / "link").symlink_to(other)
    with pytest.raises(MountOutside, match="other"):
        await allowed_mounts(with_mount(root / "link" / "..", root))


@pytest.mark.parametrize("end", [".", ".ssh"])
async def test_a_link_opens_neither_a_home_folder_nor_what_it_keeps_private(tmp_path: Path, end: str) -> None:
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True)
    (home / "models").symlink_to(end)
    made = with_mount(home / "models")
    with pytest.raises(MountOutside):
        await allowed_mounts(replace(made, mount_roots=(f"{home}/",)))


async def test_a_volume_that_is_a_bind_in_disguise_is_followed_too(tmp_path: Path) -> None:
    (tmp_path / "models").symlink_to("/etc")
    options = {"DriverConfig": {"Options": {"type": "none", "o": "bind", "device": str(tmp_path / "models")}}}
    body = {"HostConfig": {"Mounts": [{"Type": "volume", "Target": "/x", "VolumeOptions": options}]}}
    made = with_mount(tmp_path, tmp_path)
    with pytest.raises(MountOutside, match="/etc"):
        await allowed_mounts(replace(made, container=ContainerPlan("demo", None, body)))


async def test_the_engines_socket_is_mounted_where_the_policy_let_it(tmp_path: Path) -> None:
    """The plan holds it as a root of its own then; a link to it is as little as before."""
    socket = tmp_path / "docker.sock"
    socket.touch()
    await allowed_mounts(with_mount(socket, socket))
    (tmp_path / "data").symlink_to(socket)
    with pytest.raises(MountOutside, match=r"docker\.sock"):
        await allowed_mounts(with_mount(tmp_path / "data", tmp_path))
