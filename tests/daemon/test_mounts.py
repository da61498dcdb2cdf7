"""A mount is what it leads to at the moment when the container is made."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.daemon.mounts import MountOutside, allowed_mounts
from tests.action.test_replace import plan


def with_mount(source: Path, *roots: Path):  # type: ignore[no-untyped-def]
    from dataclasses import replace

    from agent.plan.model import ContainerPlan

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
