"""Binds and weights on a real file system."""

from __future__ import annotations

import json
import os
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.adapters.preflight_facts_files import DiskFiles
from agent.clock import SystemClock
from agent.engines.model import EngineKind, EngineLaunch
from agent.preflight.case import Case
from agent.preflight.checks import binds, weights
from agent.preflight.facts import PathKind
from agent.preflight.model import Level
from tests.preflight.build import FakeFacts, need, plan

PASS, FAIL, UNKNOWN = Level.PASS, Level.FAIL, Level.UNKNOWN


class OnDisk(FakeFacts):
    """A fake host whose files are real."""

    def __init__(self) -> None:
        super().__init__()
        files = DiskFiles(SystemClock())
        self.path, self.folder, self.start_of = files.path, files.folder, files.start_of  # type: ignore[method-assign]


def mounted(*sources: str, **more: Any) -> Case:
    return Case(plan(host={"Binds": list(sources)}, **more), OnDisk())


def safetensors(path: Path, size: int, cut: int = 0) -> None:
    header = json.dumps({"w": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    path.write_bytes((struct.pack("<Q", len(header)) + header + bytes(size))[: 8 + len(header) + size - cut])


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A whole model of three shards."""
    folder = tmp_path / "models" / "tiny"
    folder.mkdir(parents=True)
    names = [f"model-{number:05d}-of-00003.safetensors" for number in (1, 2, 3)]
    for name in names:
        safetensors(folder / name, 4096)
    index = {"weight_map": {f"w{number}": name for number, name in enumerate(names)}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    (folder / "config.json").write_text("{}")
    return folder


def serving(model: Path, *requirements: Any, user: str = "", path: str = "/models/tiny") -> Case:
    host = {"Binds": [f"{model.parent}:/models:ro"]}
    return Case(plan(*requirements, host=host, body={"User": user}, model=path), OnDisk())


async def test_all_sources_are_there(tmp_path: Path) -> None:
    (tmp_path / "site.py").write_text("")
    (tmp_path / "cache").mkdir()
    answer = await binds.look(mounted(f"{tmp_path}/site.py:/x/sitecustomize.py:ro", f"{tmp_path}/cache:/root/.cache"))
    assert (answer.level, answer.found) == (PASS, "all 2 are there")


async def test_each_wrong_source_is_named_with_its_cure(tmp_path: Path) -> None:
    (tmp_path / "made-by-docker.py").mkdir()
    (tmp_path / "file").write_text("")
    answer = await binds.look(
        mounted(
            f"{tmp_path}/absent.py:/x/sitecustomize.py:ro",
            f"{tmp_path}/made-by-docker.py:/x/other.py",
            f"{tmp_path}/file:/data/",
            f"{tmp_path}/my cache:/root/.cache",
        )
    )
    assert answer.level is FAIL
    wrong = {Path(one["source"]).name: (one["found"], one["hint"]) for one in answer.details["wrong"]}
    assert wrong["absent.py"][0] == "does not exist"
    assert "put the file" in wrong["absent.py"][1]
    assert wrong["made-by-docker.py"][0] == "is a folder, where /x/other.py is a file"
    assert wrong["made-by-docker.py"][1].startswith(f"`rmdir {tmp_path}/made-by-docker.py`")
    assert wrong["file"][0] == "is a file, where /data/ is a folder"
    assert wrong["my cache"][1] == f"`mkdir -p '{tmp_path}/my cache'`"


async def test_a_folder_that_holds_something_is_not_to_be_removed(tmp_path: Path) -> None:
    (tmp_path / "site.py" / "inner").mkdir(parents=True)
    answer = await binds.look(mounted(f"{tmp_path}/site.py:/x/site.py"))
    assert "rmdir" not in answer.hint


async def test_a_missing_model_folder_comes_with_its_command(tmp_path: Path) -> None:
    asked = serving(tmp_path / "models" / "tiny", need("weights", "acme/tiny@2cba9e4"))
    command = f"hf download acme/tiny --revision 2cba9e4 --local-dir {tmp_path}/models/tiny"
    for check in (binds, weights):
        answer = await check.look(asked)
        assert (answer.level, command in answer.hint) == (FAIL, True)


async def test_links_are_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    assert (await binds.look(mounted(f"{tmp_path}/link:/x"))).level is PASS
    assert (await binds.look(mounted(f"{tmp_path}/dangling:/x"))).level is FAIL


async def test_a_folder_that_may_not_be_looked_into_is_unknown(tmp_path: Path, lesser_user: None) -> None:
    answer = await binds.look(mounted(f"{tmp_path}/closed/models:/models"))
    assert answer.level is UNKNOWN
    assert "Permission denied" in answer.found


@pytest.fixture
def lesser_user(tmp_path: Path) -> Iterator[None]:
    """This thread, and those that it starts, as a user who may not look into `closed`."""
    (tmp_path / "closed" / "models").mkdir(parents=True)
    (tmp_path / "closed").chmod(0)
    if os.geteuid() != 0:
        yield
        (tmp_path / "closed").chmod(0o700)
        return
    for folder in (tmp_path, *tmp_path.parents):
        if folder.owner() == "root" and folder != Path("/tmp") and folder != Path("/"):
            folder.chmod(folder.stat().st_mode | 0o011)
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)
        (tmp_path / "closed").chmod(0o700)


async def test_kinds_of_paths(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "a.sock"))
        files = DiskFiles(SystemClock())
        kinds = {}
        below = tmp_path / "a.sock" / "below"
        for path in (tmp_path, tmp_path / "a.sock", tmp_path / "none", below, Path("/dev/null")):
            reading = await files.path(str(path))
            kinds[path.name] = reading.value.kind  # type: ignore[union-attr]
    assert list(kinds.values()) == [
        PathKind.FOLDER,
        PathKind.SOCKET,
        PathKind.NOTHING,
        PathKind.NOTHING,
        PathKind.DEVICE,
    ]


async def test_whole_weights_pass(model: Path) -> None:
    answer = await weights.look(serving(model))
    assert answer.level is PASS
    assert answer.found.startswith("3 whole files, ")


async def test_a_cut_shard_is_found_by_its_header(model: Path) -> None:
    safetensors(model / "model-00002-of-00003.safetensors", 4096, cut=1)
    answer = await weights.look(serving(model))
    assert answer.level is FAIL
    assert "model-00002-of-00003.safetensors has " in answer.found


async def test_a_missing_shard_is_found_by_index_and_by_name(model: Path) -> None:
    (model / "model-00003-of-00003.safetensors").unlink()
    assert "model-00003-of-00003.safetensors is missing" in (await weights.look(serving(model))).found
    (model / "model.safetensors.index.json").unlink()
    assert "model-00003-of-00003.safetensors is missing" in (await weights.look(serving(model))).found


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("model-00004.safetensors.incomplete", b"x", "is an unfinished download"),
        (".cache/huggingface/download/abc.incomplete", b"x", "abc.incomplete is an unfinished download"),
        ("extra.safetensors", b"", "extra.safetensors is empty"),
        ("extra.safetensors", b"version https://git-lfs.github.com/spec/v1\n", "has no safetensors header"),
        ("extra.gguf", b"nope", "extra.gguf is no GGUF file"),
        ("model.safetensors.index.json", b"{", "cannot be read as an index"),
    ],
)
async def test_what_a_broken_download_leaves(model: Path, name: str, text: bytes, says: str) -> None:
    (model / name).parent.mkdir(parents=True, exist_ok=True)
    (model / name).write_bytes(text)
    answer = await weights.look(serving(model))
    assert answer.level is FAIL
    assert says in answer.found


async def test_many_troubles_are_counted(model: Path) -> None:
    for number in range(9):
        (model / f"extra{number}.safetensors").write_bytes(b"")
    answer = await weights.look(serving(model))
    assert answer.found.endswith("and 4 more")
    assert len(answer.details["troubles"]) == 9


async def test_a_folder_without_weights_fails(model: Path) -> None:
    for shard in model.glob("*safetensors*"):
        shard.unlink()
    answer = await weights.look(serving(model))
    assert (answer.level, "holds no weights" in answer.found) == (FAIL, True)


async def test_a_single_file_with_its_other_parts(tmp_path: Path) -> None:
    folder = tmp_path / "gguf"
    folder.mkdir()
    for part in (1, 2):
        (folder / f"m-{part:05d}-of-00003.gguf").write_bytes(b"GGUF....")
    (folder / "unrelated.safetensors").write_bytes(b"")
    path = "/models/m-00001-of-00003.gguf"
    answer = await weights.look(serving(folder / "x", path=path))
    assert answer.found == "m-00003-of-00003.gguf is missing"
    (folder / "m-00003-of-00003.gguf").write_bytes(b"GGUF....")
    assert (await weights.look(serving(folder / "x", path=path))).level is PASS


async def test_a_link_out_of_the_mount_is_found(model: Path, tmp_path: Path) -> None:
    """On the host it can be read; the container has no such path."""
    elsewhere = tmp_path / "blobs"
    elsewhere.mkdir()
    shard = model / "model-00001-of-00003.safetensors"
    shard.rename(elsewhere / "blob")
    shard.symlink_to(elsewhere / "blob")
    answer = await weights.look(serving(model))
    assert (answer.level, "which the container does not see" in answer.found) == (FAIL, True)
    shard.unlink()
    (elsewhere / "blob").rename(model.parent / "blob")
    shard.symlink_to("../blob")
    assert (await weights.look(serving(model))).level is PASS


@pytest.mark.parametrize(("user", "mode", "level"), [("1000", 0o600, FAIL), ("1000", 0o644, PASS), ("", 0o600, PASS)])
async def test_weights_must_be_readable_by_the_containers_user(model: Path, user: str, mode: int, level: Level) -> None:
    for shard in model.glob("*.safetensors"):
        shard.chmod(mode)
        os.chown(shard, 0 if os.geteuid() == 0 else os.geteuid(), -1)
    answer = await weights.look(serving(model, user=user))
    assert answer.level is level


@pytest.mark.parametrize(
    ("model", "runtime", "asked"),
    [
        ("/models/tiny", "docker", True),
        ("/in-the-image/tiny", "docker", False),
        ("acme/tiny", "docker", False),
        (None, "docker", False),
        ("/models/tiny", "process", True),
    ],
)
def test_where_weights_are_looked_for(model: str | None, runtime: str, asked: bool) -> None:
    engine = EngineLaunch(EngineKind.VLLM, model=model)
    case = Case(plan(host={"Binds": ["/m:/models"]}, engine=engine, runtime=runtime), FakeFacts())
    assert weights.CHECK.applies(case) is asked
