"""Build contexts: the same bytes for the same input, nothing outside, every file accounted for."""

from __future__ import annotations

import hashlib
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from agent.adapters.git_sources import GitSources
from agent.adapters.image_context import WHEN, TarContexts
from agent.image.buildplan import SourceSpec
from agent.image.dockerfile import Content, Dockerfile
from agent.image.port import Tree
from agent.image.trouble import CountDiffers, NotInSource, SourceRefused, UnsafeSource
from tests.image.plans import Heard
from tests.lab.gitserver import GitServer, git


class Bench:
    """A repository, and contexts made of it."""

    def __init__(self, server: GitServer, folder: Path) -> None:
        self.server = server
        self.sources = GitSources(folder / "git")
        self.contexts = TarContexts(folder / "contexts")
        self.repository = server.folder / "s"

    async def tree(self, files: Mapping[str, str]) -> Tree:
        commit = self.server.commit("s", files)
        return await self.sources.fetch(SourceSpec("s", git=self.server.url("s"), commit=commit), Heard())

    async def write(self, tree: Tree, *contents: Content) -> tuple[bytes, dict[str, str], tuple[str, ...]]:
        """The archive's bytes, its files' hashes and the notes."""
        dockerfile = Dockerfile("FROM scratch\n", contents, {"steps/09/requirements.txt": "x\n"}, ())
        async with self.contexts.assembled(dockerfile, {("s", 0): tree}) as context:
            return context.file.read(), dict(context.files), context.notes


@pytest.fixture
def bench(git_server: GitServer, tmp_path: Path) -> Bench:
    return Bench(git_server, tmp_path / "cache")


def members(data: bytes, folder: Path) -> dict[str, tarfile.TarInfo]:
    path = folder / "context.tar"
    path.write_bytes(data)
    with tarfile.open(path) as archive:
        return {member.name: member for member in archive.getmembers()}


async def test_a_context_holds_what_its_steps_name(bench: Bench, tmp_path: Path) -> None:
    """A folder's entries, a file under its own name, a script that can be run; owned by root, dated by the commit."""
    tree = await bench.tree({"overlay/vllm/a.py": "a\n", "overlay/vllm/sub/b.py": "b\n", "run.py": "r\n", "c": "c\n"})
    data, files, notes = await bench.write(
        tree,
        Content(1, "steps/01", "s", 0, "overlay/vllm", files=2),
        Content(2, "sources/s", "s", 0, without=frozenset({"run.py"})),
        Content(2, "steps/02", "s", 0, "run.py", executable=True),
    )
    found = members(data, tmp_path)
    assert list(files) == [
        "Dockerfile",
        "steps/09/requirements.txt",
        "steps/01/a.py",
        "steps/01/sub/b.py",
        "sources/s/c",
        "sources/s/overlay/vllm/a.py",
        "sources/s/overlay/vllm/sub/b.py",
        "steps/02/run.py",
    ]
    assert files["steps/01/a.py"] == hashlib.sha256(b"a\n").hexdigest()
    assert (found["steps/02/run.py"].mode, found["steps/01/a.py"].mode, found["steps/01/sub"].mode) == (
        0o755,
        0o644,
        0o755,
    )
    assert {member.uid for member in found.values()} == {0}
    assert (found["steps/01/a.py"].mtime, found["Dockerfile"].mtime) == (tree.time, WHEN)
    assert notes == ()


async def test_the_same_input_gives_the_same_bytes(bench: Bench) -> None:
    """Whenever and by whomever."""
    tree = await bench.tree({"d/a.py": "a\n", "d/b.py": "b\n"})
    content = Content(1, "steps/01", "s", 0, "d")
    assert (await bench.write(tree, content))[0] == (await bench.write(tree, content))[0]


async def test_nothing_is_left_behind(bench: Bench, tmp_path: Path) -> None:
    """Not even by an agent that is killed: a context has no name."""
    tree = await bench.tree({"a": "a\n"})
    dockerfile = Dockerfile("FROM scratch\n", (Content(1, "steps/01", "s", 0, "a"),), {}, ())
    async with bench.contexts.assembled(dockerfile, {("s", 0): tree}):
        assert list((tmp_path / "cache" / "contexts").iterdir()) == []


@pytest.mark.parametrize("target", ["/etc/passwd", "../../outside", "../overlay2/x", "..", "a/../../../x"])
async def test_a_link_that_points_outside_is_refused(bench: Bench, target: str) -> None:
    """It would be something else in the image than in its source."""
    await bench.tree({"overlay/a": "a\n", "overlay2/x": "x\n"})
    (bench.repository / "overlay" / "link").symlink_to(target)
    tree = await bench.tree({"overlay/b": "b\n"})
    with pytest.raises(UnsafeSource, match=r"the link overlay/link .*points outside"):
        await bench.write(tree, Content(1, "steps/01", "s", 0, "overlay"))


async def test_a_link_within_what_is_copied_stays_one(bench: Bench, tmp_path: Path) -> None:
    """As it is in the source."""
    await bench.tree({"overlay/a": "a\n"})
    (bench.repository / "overlay" / "sub").mkdir()
    (bench.repository / "overlay" / "sub" / "link").symlink_to("../a")
    tree = await bench.tree({"overlay/b": "b\n"})
    data, files, _ = await bench.write(tree, Content(1, "steps/01", "s", 0, "overlay"))
    link = members(data, tmp_path)["steps/01/sub/link"]
    assert (link.issym(), link.linkname, files["steps/01/sub/link"]) == (True, "../a", "link to ../a")


async def test_a_submodule_is_left_empty_and_said(bench: Bench, tmp_path: Path) -> None:
    """Stated, not guessed."""
    await bench.tree({"a": "a\n"})
    git("-C", str(bench.repository), "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},sub")
    git("-C", str(bench.repository), "commit", "--quiet", "-m", "sub")
    commit = git("-C", str(bench.repository), "rev-parse", "HEAD").strip()
    tree = await bench.sources.fetch(SourceSpec("s", git=bench.server.url("s"), commit=commit), Heard())
    data, _, notes = await bench.write(tree, Content(1, "sources/s", "s", 0))
    assert members(data, tmp_path)["sources/s/sub"].isdir()
    assert notes == (
        f"sub of s ({bench.server.url('s')} at {commit[:12]}) is a submodule: left empty, as by a plain clone",
    )


async def test_a_pointer_of_git_lfs_is_not_taken_for_the_file(bench: Bench) -> None:
    """It would be copied in its place."""
    tree = await bench.tree({"w.bin": "version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 1\n"})
    with pytest.raises(SourceRefused, match=r"w.bin is kept in Git LFS"):
        await bench.write(tree, Content(1, "steps/01", "s", 0, "w.bin"))


async def test_what_is_not_there_or_not_as_many_is_said(bench: Bench) -> None:
    """A step's path, and the number that the recipe states."""
    tree = await bench.tree({"d/a.py": "a\n", "d/b.py": "b\n"})
    with pytest.raises(NotInSource, match="cannot find e/f in s"):
        await bench.write(tree, Content(1, "steps/01", "s", 0, "e/f"))
    with pytest.raises(CountDiffers, match="the recipe says 54 files, 2 are there"):
        await bench.write(tree, Content(1, "steps/01", "s", 0, "d", files=54))


async def test_a_full_disk_is_said(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And nothing of it is kept."""
    tree = await bench.tree({"a": "a\n"})

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tarfile.TarFile, "addfile", full)
    with pytest.raises(Exception, match=r"cannot write below .*No space left on device") as caught:
        await bench.write(tree, Content(1, "steps/01", "s", 0, "a"))
    assert getattr(caught.value, "code", None) == "image.cannot_write"
