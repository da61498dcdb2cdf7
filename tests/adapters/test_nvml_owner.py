"""Which version the library on disk has."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.adapters.nvml_owner import library_version
from agent.clock import Instant
from agent.host.reading import Known, Unknown

AT = Instant(mono=1.0, wall=2.0)
LOADED = Known("13.610.43.02", AT)


def maps(folder: Path, name: str, more: str = "") -> str:
    row = "7f00-7f01 r-xp 00000000 08:01 99    "
    return f"{row}/usr/lib/libc.so.6\n{row}{folder}/{name}{more}\n"


def test_an_upgrade_under_a_running_process_is_seen(tmp_path: Path) -> None:
    (tmp_path / "libnvidia-ml.so.610.57.04").touch()
    (tmp_path / "libnvidia-ml.so.1").symlink_to("libnvidia-ml.so.610.57.04")
    mapped = maps(tmp_path, "libnvidia-ml.so.610.43.02", " (deleted)")
    assert library_version(mapped, LOADED) == Known("610.57.04", AT)


def test_a_file_name_without_a_version_leaves_the_librarys_own_word(tmp_path: Path) -> None:
    (tmp_path / "libnvidia-ml.so.1").touch()
    assert library_version(maps(tmp_path, "libnvidia-ml.so.1"), LOADED) == Known("610.43.02", AT)


@pytest.mark.parametrize("text", ["", "7f00-7f01 r-xp 00000000 08:01 99    /usr/lib/libc.so.6\n"])
def test_a_library_that_is_not_loaded_has_no_version(text: str) -> None:
    assert library_version(text, Unknown("no libnvidia-ml.so.1")) == Unknown("no libnvidia-ml.so.1")
