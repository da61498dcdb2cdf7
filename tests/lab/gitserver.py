"""A git server on loopback, with commits that a test states; any commit may be fetched by its hash, as at public hosts.

with gitserver.running(tmp_path) as server:
    first = server.commit("overlay", {"patch.diff": "…"})
    server.url("overlay")     # git://127.0.0.1:PORT/overlay
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.lab import packages
from tests.lab.children import free_port, serving

# No settings of the host or of a person, and the same hash for the same content on every machine.
ENVIRONMENT = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    **{f"GIT_{who}_NAME": "lab" for who in ("AUTHOR", "COMMITTER")},
    **{f"GIT_{who}_EMAIL": "lab@localhost" for who in ("AUTHOR", "COMMITTER")},
    **{f"GIT_{who}_DATE": "2026-01-01T00:00:00Z" for who in ("AUTHOR", "COMMITTER")},
}


class GitServer:
    """Repositories in a folder, served read-only."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self.port = port

    def url(self, name: str) -> str:
        """Where `git clone` finds a repository."""
        return f"git://127.0.0.1:{self.port}/{name}"

    def commit(self, name: str, files: Mapping[str, str], message: str = "A commit") -> str:
        """Adds or changes files in a repository (made at its first commit) and returns the commit's hash."""
        repository = self.folder / name
        if not repository.is_dir():
            git("init", "--quiet", "--initial-branch=main", str(repository))
            git("-C", str(repository), "config", "uploadpack.allowAnySHA1InWant", "true")
        for path, content in files.items():
            (repository / path).parent.mkdir(parents=True, exist_ok=True)
            (repository / path).write_text(content)
        git("-C", str(repository), "add", "--all")
        git("-C", str(repository), "commit", "--quiet", "--message", message)
        return git("-C", str(repository), "rev-parse", "HEAD").strip()


def needed_environment() -> dict[str, str]:
    """What makes `git` work here: nothing where the machine has it, else where the unpacked one is.

    Raises Unavailable where there is none and none can be unpacked. The unpacked one speaks no HTTP.
    """
    if not packages.GIT.is_needed():
        return {}
    root = packages.fetch(packages.GIT)
    own = {"GIT_EXEC_PATH": root / "usr/lib/git-core", "GIT_TEMPLATE_DIR": root / "usr/share/git-core/templates"}
    path = f"{root / 'usr/bin'}:{os.environ.get('PATH', '')}"
    return {"PATH": path, **{name: str(folder) for name, folder in own.items()}}


@contextmanager
def running(folder: Path) -> Iterator[GitServer]:
    """A server of the repositories below `folder`; `git` must be on PATH (see `needed_environment`)."""
    port = free_port()
    repositories = folder / "repositories"
    repositories.mkdir()
    words = ["git", "daemon", "--export-all", f"--base-path={repositories}", "--listen=127.0.0.1", f"--port={port}"]
    with serving([*words, "--reuseaddr"], port, folder / "git.log", {**os.environ, **ENVIRONMENT}):
        yield GitServer(repositories, port)


def git(*words: str) -> str:
    """What git prints; raises CalledProcessError when it fails."""
    environment = {**os.environ, **ENVIRONMENT}
    return subprocess.run(["git", *words], env=environment, capture_output=True, text=True, check=True).stdout
