"""Whole Debian installations, the package's own releases among them, and the package itself.

    .venv/bin/python -m tests.lab.prepare                   # outside the lab: needs the network, two minutes once
    with debian.booted(docker_engine, "trixie", "host") as machine:
        machine.run("apt-get", "install", "/recipe-agent.deb")

Unlike the root file systems of `packages.py`, the scripts of these packages have run: dpkg knows what is installed, so
another package can be installed, upgraded and purged.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.lab import packages, systemd
from tests.lab.engine import Engine
from tests.lab.place import REPOSITORY, Unavailable, is_inside, lab_folder

RELEASES = ("bookworm", "trixie")
"""Debian 12 and 13."""
PARTS = ("systemd", "systemd-sysv", "dbus", "python3", "bash-completion", "procps")
PACKAGED = ("agent", "config", "packaging/deb", "units", "README.md", "CHANGELOG.md", "LICENSE", "pyproject.toml")
"""What the package is made of."""
HOW_TO_PREPARE = "run `make test-long`, or `.venv/bin/python -m tests.lab.prepare` first"


def root(release: str) -> Path:
    """The archive of a minimal installation that systemd can boot; made where it is not there yet.

    Raises Unavailable inside the lab, which has no network, and where it cannot be made.
    """

    def make(draft: Path) -> None:
        words = ("--variant=minbase", "--format=tar", f"--include={','.join(PARTS)}", release, str(draft))
        packages.run((str(packages.fetch(packages.BOOTSTRAP) / "usr/bin/mmdebstrap"), *words))

    return _kept(f"{release}-{_digest(*PARTS)}.tar", make)


def roots() -> list[Path]:
    """Those of all releases."""
    return [root(release) for release in RELEASES]


def package() -> Path:
    """The .deb of this checkout; built where it was not yet. Raises Unavailable as `root` does."""

    def make(draft: Path) -> None:
        with tempfile.TemporaryDirectory(dir=draft.parent) as folder:
            packages.run((str(REPOSITORY / "packaging/deb/build"), folder))
            next(Path(folder).glob("*.deb")).rename(draft)

    return _kept(f"package-{_digest(*_contents())}.deb", make)


def _contents() -> Iterator[str | bytes]:
    for part in PACKAGED:
        top = REPOSITORY / part
        files = [top] if top.is_file() else sorted(path for path in top.rglob("*") if path.is_file())
        for file in (path for path in files if "__pycache__" not in path.parts):
            yield str(file.relative_to(REPOSITORY))
            yield file.read_bytes()


def _kept(name: str, make: Callable[[Path], None]) -> Path:
    """The lab's file of that name; `make` writes it, and older ones of its kind go."""
    home = lab_folder() / "debian"
    path = home / name
    with packages.locked(home / "lock"):
        if path.is_file():
            return path
        if is_inside():
            raise Unavailable(f"cannot make {name}: no network inside the lab; {HOW_TO_PREPARE}")
        draft = path.with_name(f"draft-{name}")
        make(draft)
        for older in home.glob(f"{name.partition('-')[0]}-*"):
            older.unlink()
        draft.rename(path)
    return path


def _digest(*pieces: str | bytes) -> str:
    whole = hashlib.sha256()
    for piece in pieces:
        whole.update(hashlib.sha256(piece.encode() if isinstance(piece, str) else piece).digest())
    return whole.hexdigest()[:12]


@contextmanager
def booted(engine: Engine, release: str, name: str, *words: str) -> Iterator[systemd.Machine]:
    """A machine of that release with the package as /recipe-agent.deb, not yet installed; removed after the block.

    `words` are further arguments of `docker run`.
    """
    archive, deb = root(release), package()
    image = f"recipe-agent-lab/debian:{archive.stem}"
    if not engine.docker("image", "ls", "--quiet", image):
        engine.docker("import", str(archive), image)
    with systemd.machine(engine, image, name, "-v", f"{deb}:/recipe-agent.deb:ro", *words) as machine:
        yield machine
