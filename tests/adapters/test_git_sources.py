"""Sources come out of real git servers by commit, verified, and nothing of theirs is ever run."""

from __future__ import annotations

import asyncio
import functools
import http.server
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.adapters.git_process import environment
from agent.adapters.git_sources import GitSources, checked_url
from agent.image.buildplan import SourceSpec
from agent.image.port import Mode, Patch
from agent.image.trouble import PatchFailed, SourceMismatch, SourceRefused, SourceUnreachable
from tests.image.plans import Heard
from tests.lab.children import free_port
from tests.lab.gitserver import GitServer, git


@pytest.fixture
def sources(tmp_path: Path) -> GitSources:
    return GitSources(tmp_path / "cache" / "git", silence_s=5)


def spec(url: str, **more: str) -> SourceSpec:
    return SourceSpec("overlay", git=url, **more)


async def test_a_commit_is_fetched_by_its_hash_and_kept(git_server: GitServer, sources: GitSources) -> None:
    """An older commit than the newest; the second time without its server."""
    first = git_server.commit("overlay", {"a.py": "one\n", "sub/b.py": "b\n"})
    git_server.commit("overlay", {"a.py": "two\n"})
    wanted, heard = spec(git_server.url("overlay"), commit=first), Heard()
    tree = await sources.fetch(wanted, heard)
    assert (tree.commit, sorted(tree.entries)) == (first, ["a.py", "sub/b.py"])
    assert await tree.read("a.py") == b"one\n"
    assert heard.texts == [f"fetching overlay at {first[:12]} from {git_server.url('overlay')}"]
    (git_server.folder / "overlay").rename(git_server.folder / "gone")
    again = Heard()
    assert (await sources.fetch(wanted, again)).tree == tree.tree
    assert again.all == []


async def test_only_that_commit_is_fetched(git_server: GitServer, sources: GitSources, tmp_path: Path) -> None:
    """Shallow, where the server allows it."""
    older = git_server.commit("overlay", {"a.py": "one\n"})
    newer = git_server.commit("overlay", {"a.py": "two\n"})
    await sources.fetch(spec(git_server.url("overlay"), commit=newer), Heard())
    (mirror,) = (tmp_path / "cache" / "git").glob("overlay-*.git")
    assert git("-C", str(mirror), "rev-list", "--all").split() == [newer]
    assert older not in git("-C", str(mirror), "rev-list", "--all")


async def test_a_server_that_gives_no_commit_by_hash_gives_its_branches(
    git_server: GitServer, sources: GitSources
) -> None:
    """Older commits are then found in the history."""
    first = git_server.commit("overlay", {"a.py": "one\n"})
    git_server.commit("overlay", {"a.py": "two\n"})
    repository = git_server.folder / "overlay"
    git("-C", str(repository), "config", "uploadpack.allowAnySHA1InWant", "false")
    git("-C", str(repository), "config", "protocol.version", "0")
    url = f"file://{repository}"
    assert (await sources.fetch(spec(url, commit=first), Heard())).commit == first
    assert (await sources.fetch(spec(git_server.url("overlay"), commit=first), Heard())).commit == first


async def test_a_short_hash_is_the_one_commit_that_it_means(git_server: GitServer, sources: GitSources) -> None:
    """Found in the history; one that means nothing is refused."""
    first = git_server.commit("overlay", {"a.py": "one\n"})
    git_server.commit("overlay", {"a.py": "two\n"})
    assert (await sources.fetch(spec(git_server.url("overlay"), commit=first[:8]), Heard())).commit == first
    with pytest.raises(SourceRefused, match="no commit of it"):
        await sources.fetch(spec(git_server.url("overlay"), commit="abcdef0"), Heard())


async def test_a_tag_is_the_commit_that_it_was_at_first(git_server: GitServer, sources: GitSources) -> None:
    """Annotated or not; one that is moved later is not followed."""
    first = git_server.commit("overlay", {"a.py": "one\n"})
    repository = str(git_server.folder / "overlay")
    git("-C", repository, "tag", "-a", "-m", "a tag", "v1.5.0")
    wanted = spec(git_server.url("overlay"), tag="v1.5.0")
    assert (await sources.fetch(wanted, Heard())).commit == first
    git_server.commit("overlay", {"a.py": "two\n"})
    git("-C", repository, "tag", "-f", "v1.5.0")
    assert (await sources.fetch(wanted, Heard())).commit == first


async def test_a_branch_is_no_tag(git_server: GitServer, sources: GitSources) -> None:
    """What moves pins nothing."""
    git_server.commit("overlay", {"a.py": "one\n"})
    with pytest.raises(SourceRefused, match="no tag main"):
        await sources.fetch(spec(git_server.url("overlay"), tag="main"), Heard())
    with pytest.raises(SourceRefused, match="no name of a tag"):
        await sources.fetch(spec(git_server.url("overlay"), tag="--upload-pack=evil"), Heard())


async def test_what_a_server_does_not_have_is_said(git_server: GitServer, sources: GitSources) -> None:
    """A commit, a repository, a server."""
    git_server.commit("overlay", {"a.py": "one\n"})
    with pytest.raises(SourceRefused, match="no branch or tag of it has the commit 000000000000"):
        await sources.fetch(spec(git_server.url("overlay"), commit="0" * 40), Heard())
    with pytest.raises((SourceRefused, SourceUnreachable)):
        await sources.fetch(spec(git_server.url("nothing"), commit="0" * 40), Heard())
    with pytest.raises(SourceUnreachable, match="refused") as caught:
        await sources.fetch(spec(f"git://127.0.0.1:{free_port()}/x", commit="0" * 40), Heard())
    assert caught.value.retryable


async def test_a_server_that_says_nothing_is_given_up(tmp_path: Path) -> None:
    """And its git ends with the wait."""
    with socket.create_server(("127.0.0.1", 0)) as listening:  # takes connections and never reads
        port = listening.getsockname()[1]
        sources = GitSources(tmp_path / "git", silence_s=0.5)
        with pytest.raises(SourceUnreachable, match=r"nothing came for 0.5 s"):
            await sources.fetch(spec(f"git://127.0.0.1:{port}/x", commit="0" * 40), Heard())


@pytest.fixture
def web(tmp_path: Path) -> Iterator[str]:
    """A folder that is served over plain HTTP, as files."""
    folder = tmp_path / "www"
    folder.mkdir()
    handler = functools.partial(Quiet, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Says nothing on standard error."""

    def log_message(self, *words: object) -> None:
        return


async def test_a_server_that_sends_something_else_is_caught(
    web: str, tmp_path: Path, git_server: GitServer, sources: GitSources
) -> None:
    """Every object is held against its hash: another file under a commit's name is not taken for it."""
    commit = git_server.commit("overlay", {"a.py": "one\n"})
    other = git_server.commit("other", {"a.py": "evil\n"})
    served = tmp_path / "www" / "overlay.git"
    git("clone", "--quiet", "--bare", str(git_server.folder / "overlay"), str(served))
    git("-C", str(served), "update-server-info")
    assert (await sources.fetch(spec(f"{web}/overlay.git", commit=commit), Heard())).commit == commit

    lying = tmp_path / "www" / "lying.git"
    git("clone", "--quiet", "--bare", str(git_server.folder / "overlay"), str(lying))
    git("-C", str(lying), "update-server-info")
    right, wrong = (Path("objects", name[:2], name[2:]) for name in (commit, other))
    os.chmod(lying / right, 0o644)
    (lying / right).write_bytes((git_server.folder / "other" / ".git" / wrong).read_bytes())
    with pytest.raises(SourceMismatch):
        await sources.fetch(spec(f"{web}/lying.git", commit=commit), Heard())


async def test_nothing_of_a_repository_is_ever_run(
    git_server: GitServer, sources: GitSources, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No filter, no hook, no setting: neither the repository's nor a person's. Files are the bytes of the commit."""
    trap = tmp_path / "sprung"
    commit = git_server.commit(
        "overlay",
        {
            ".gitattributes": "* text eol=crlf ident filter=evil\nsecret.txt export-ignore\n",
            ".gitmodules": '[submodule "x"]\n\tpath = x\n\turl = ext::sh -c touch% ' + str(trap) + "\n",
            "a.txt": "$Id$\nline\n",
            "secret.txt": "here\n",
        },
    )
    home = tmp_path / "home"
    home.mkdir()
    evil = f"touch {trap}"
    (home / ".gitconfig").write_text(
        f'[filter "evil"]\n\tsmudge = {evil}\n\tclean = {evil}\n[core]\n\thooksPath = {home}\n\tsshCommand = {evil}\n'
        f'[url "ext::sh -c {evil}"]\n\tinsteadOf = git://\n'
    )
    for hook in ("post-checkout", "reference-transaction", "post-index-change"):
        (home / hook).write_text(f"#!/bin/sh\n{evil}\n")
        (home / hook).chmod(0o755)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "core.hooksPath")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", str(home))
    tree = await sources.fetch(spec(git_server.url("overlay"), commit=commit), Heard())
    assert await tree.read("a.txt") == b"$Id$\nline\n"
    assert "secret.txt" in tree.entries
    patch = Patch("p", "s", b"--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n $Id$\n-line\n+other\n")
    assert await (await tree.patched([patch])).read("a.txt") == b"$Id$\nother\n"
    assert not trap.exists()
    assert environment()["GIT_CONFIG_GLOBAL"] == os.devnull


@pytest.mark.parametrize(
    "url",
    [
        "ext::sh -c evil",
        "--upload-pack=evil",
        "fd::3",
        "ftp://x/y",
        "/a/folder",
        "../x",
        "a b",
        "https://x/\n",
        "host:path",
        "https://me:secret@x/y",
        "",
    ],
)
def test_what_is_no_address_is_refused(url: str) -> None:
    """Before git sees it."""
    with pytest.raises(SourceRefused):
        checked_url(spec(url))


@pytest.mark.parametrize(
    "url", ["https://github.com/a/b", "http://h/x.git", "ssh://git@h/x", "git@github.com:a/b.git", "file:///srv/x"]
)
def test_the_ways_to_a_repository(url: str) -> None:
    """https, ssh in both spellings, file and plain http."""
    assert checked_url(spec(url)) == url


async def test_links_modes_and_submodules_are_what_the_commit_says(git_server: GitServer, sources: GitSources) -> None:
    """Listed as they are, never followed."""
    git_server.commit("overlay", {"run.sh": "#!/bin/sh\n"})
    repository = git_server.folder / "overlay"
    (repository / "run.sh").chmod(0o755)
    (repository / "link").symlink_to("/etc/passwd")
    git("-C", str(repository), "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},sub")
    git("-C", str(repository), "add", "run.sh", "link")
    git("-C", str(repository), "commit", "--quiet", "-m", "more")
    commit = git("-C", str(repository), "rev-parse", "HEAD").strip()
    tree = await sources.fetch(spec(git_server.url("overlay"), commit=commit), Heard())
    modes = {path: entry.mode for path, entry in tree.entries.items()}
    assert modes == {"link": Mode.LINK, "run.sh": Mode.EXECUTABLE, "sub": Mode.SUBMODULE}
    assert await tree.read("link") == b"/etc/passwd"


def diff(path: str, old: str, new: str, at: int = 1) -> bytes:
    return f"--- a/{path}\n+++ b/{path}\n@@ -{at},1 +{at},1 @@\n-{old}\n+{new}\n".encode()


async def test_patches_apply_in_order_and_leave_the_mirror_as_it_was(
    git_server: GitServer, sources: GitSources
) -> None:
    """The second builds on the first, and a new file is there."""
    commit = git_server.commit("overlay", {"a.py": "one\n"})
    tree = await sources.fetch(spec(git_server.url("overlay"), commit=commit), Heard())
    new = b"--- /dev/null\n+++ b/new.py\n@@ -0,0 +1 @@\n+new\n"
    patched = await tree.patched(
        [Patch("0", "s", diff("a.py", "one", "two")), Patch("1", "s", diff("a.py", "two", "three"))]
    )
    again = await patched.patched([Patch("2", "s", new)])
    assert (await again.read("a.py"), await again.read("new.py")) == (b"three\n", b"new\n")
    assert await (await sources.fetch(spec(git_server.url("overlay"), commit=commit), Heard())).read("a.py") == b"one\n"
    assert again.commit == commit


async def test_a_patch_that_does_not_apply_names_file_hunk_and_commit(
    git_server: GitServer, sources: GitSources
) -> None:
    """What a person needs to see whether patch or commit is wrong."""
    commit = git_server.commit("overlay", {"a.py": "1\n2\n3\n"})
    tree = await sources.fetch(spec(git_server.url("overlay"), commit=commit), Heard())
    patch = Patch("patches/0.patch", "fixes", diff("a.py", "other", "new", at=2))
    with pytest.raises(PatchFailed) as caught:
        await tree.patched([patch])
    assert caught.value.text == (
        f"cannot apply patches/0.patch of fixes to overlay ({git_server.url('overlay')} at {commit[:12]}): "
        "a.py does not fit at line 2 (@@ -2,1 +2,1 @@)"
    )
    assert caught.value.details["file"] == "a.py"


@pytest.mark.parametrize("path", ["../../escaped", "/tmp/escaped", ".git/config"])
async def test_a_patch_cannot_leave_its_source(path: str, git_server: GitServer, sources: GitSources) -> None:
    """Whatever path it names."""
    commit = git_server.commit("overlay", {"a.py": "1\n"})
    tree = await sources.fetch(spec(git_server.url("overlay"), commit=commit), Heard())
    patch = f"--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+evil\n".encode()
    with pytest.raises(PatchFailed):
        await tree.patched([Patch("0", "s", patch)])


async def test_whether_a_commit_is_older_is_read_from_the_history(git_server: GitServer, sources: GitSources) -> None:
    """Also of an abbreviated one, and of the commit itself."""
    first = git_server.commit("overlay", {"a.py": "one\n"})
    second = git_server.commit("overlay", {"a.py": "two\n"})
    wanted = spec(git_server.url("overlay"), commit=second)
    assert await sources.contains(wanted, second, first[:7], Heard())
    assert await sources.contains(wanted, second, second, Heard())
    assert not await sources.contains(wanted, first, second[:7], Heard())


async def test_two_at_once_fetch_one_after_the_other(git_server: GitServer, sources: GitSources) -> None:
    """The mirror is whole for both."""
    commit = git_server.commit("overlay", {"a.py": "one\n"})
    wanted = spec(git_server.url("overlay"), commit=commit)
    one, other = Heard(), Heard()
    trees = await asyncio.gather(sources.fetch(wanted, one), sources.fetch(wanted, other))
    assert trees[0].tree == trees[1].tree
    assert len(one.all + other.all) == 1
