"""systemd from unpacked packages: its checks of unit files, and a whole one that runs in a container of the lab.

    systemd.verify([Path("units/recipe-agent.service")], programs=["/usr/bin/recipe-agent"])   # "" when it is clean
    with systemd.booted(docker_engine, "host") as machine:
        machine.run("systemctl", "start", "recipe-agent")

The checks need neither root nor a systemd that runs; they judge against the units of this release, not the host's.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.lab import packages
from tests.lab.engine import Engine
from tests.lab.images import give
from tests.lab.place import Unavailable

UNITS = "usr/lib/systemd/system"
IMAGE_LEAVES_OUT = ("usr/share/doc", "usr/share/man", "usr/share/locale", "var/cache")

# As one that was just installed: no identity yet, and what packages' scripts would have copied.
FIRST_FILES = {"etc/machine-id": "", "etc/hostname": "lab\n", "etc/fstab": ""}
COPIED = {
    "etc/passwd": "usr/share/base-passwd/passwd.master",
    "etc/group": "usr/share/base-passwd/group.master",
    "etc/nsswitch.conf": "usr/share/libc-bin/nsswitch.conf",
}

# What a systemd in a container needs of Docker; it owns the control groups below its own.
BOOT = (
    *("--cap-add", "SYS_ADMIN", "--cap-add", "NET_ADMIN", "--security-opt", "seccomp=unconfined"),
    *("--cgroupns=host", "-v", "/sys/fs/cgroup:/sys/fs/cgroup:rw", "--tmpfs", "/run", "--tmpfs", "/tmp"),
    *("-e", "container=docker"),
)
BOOT_S = 60


def verify(units: Sequence[Path], programs: Sequence[str] = ()) -> str:
    """What `systemd-analyze verify` has to say about unit files; nothing when they are clean.

    `programs` are the paths that the units start and a package would install; any other that is missing is told.
    """
    with _staged(units, programs) as root:
        done = analyze("verify", f"--root={root}", *(unit.name for unit in units))
    told = done.stdout + done.stderr
    return told or ("" if done.returncode == 0 else f"systemd-analyze verify ended with {done.returncode}")


def security(unit: Path) -> str:
    """What `systemd-analyze security` says of a unit file: a line for each setting, the exposure in the last one."""
    with _staged([unit], ()) as root:
        return analyze("security", "--offline=true", "--no-pager", f"--root={root}", unit.name).stdout


def analyze(*words: str) -> subprocess.CompletedProcess[str]:
    """Runs the unpacked `systemd-analyze`."""
    return _run(packages.fetch(packages.SYSTEMD), "usr/bin/systemd-analyze", *words)


def image(engine: Engine, *tags: str) -> None:
    """Gives `engine` an image of this release with systemd, D-Bus and small tools, under each of the names `tags`."""
    root = packages.fetch(packages.SYSTEMD)
    give(engine, f"systemd-{root.name.rpartition('-')[2]}", tags, lambda path: _write_image(root, path))


@dataclass(frozen=True, slots=True)
class Machine:
    """A container in which systemd is process 1."""

    engine: Engine
    name: str

    def run(self, *words: str, check: bool = True) -> str:
        """What a command prints in there; raises CalledProcessError when it fails and `check` is set."""
        return self.engine.docker("exec", self.name, *words, check=check)


@contextmanager
def booted(engine: Engine, name: str, *words: str) -> Iterator[Machine]:
    """A machine whose start-up has ended (`systemctl is-system-running` tells how), removed after the block.

    `words` are further arguments of `docker run`, such as mounts.
    """
    image(engine, "recipe-agent-lab/machine")
    with machine(engine, "recipe-agent-lab/machine", name, *words) as one:
        yield one


@contextmanager
def machine(engine: Engine, image: str, name: str, *words: str) -> Iterator[Machine]:
    """As `booted`, of an image that has systemd."""
    engine.docker("run", "-d", "--name", name, *BOOT, *words, image, "/lib/systemd/systemd")
    try:
        one = Machine(engine, name)
        one.run("timeout", str(BOOT_S), "sh", "-c", "until test -S /run/systemd/private; do sleep 0.1; done")
        one.run("timeout", str(BOOT_S), "systemctl", "is-system-running", "--wait", check=False)
        yield one
    finally:
        engine.docker("rm", "--force", "--volumes", name, check=False)


@contextmanager
def _staged(units: Sequence[Path], programs: Sequence[str]) -> Iterator[Path]:
    """A root with this release's units, the given ones as an administrator's, and the programs that they start."""
    with tempfile.TemporaryDirectory(prefix="units-") as folder:
        root = Path(folder)
        shutil.copytree(packages.fetch(packages.SYSTEMD) / UNITS, root / UNITS, symlinks=True)
        own = root / "etc/systemd/system"
        own.mkdir(parents=True)
        for unit in units:
            shutil.copy(unit, own)
        for program in programs:
            path = root / program.lstrip("/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch(0o755)
        yield root


def _run(root: Path, program: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Runs a program of an unpacked root with that root's own loader and C library."""
    loader = next(path for path in root.glob("usr/lib*/ld-linux*.so.*"))
    found = ":".join(str(path) for folder in root.glob("usr/lib/*-linux-gnu") for path in (folder, folder / "systemd"))
    command = [str(loader), "--library-path", found, str(root / program), *words]
    return subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)


def _write_image(root: Path, path: Path) -> None:
    """A root file system as its packages' scripts would have left it."""
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        copy = Path(folder) / "root"
        packages.run(("cp", "--archive", "--link", str(root), str(copy)))
        for name, content in FIRST_FILES.items():
            (copy / name).write_text(content)
        for name, source in COPIED.items():
            shutil.copy(copy / source, copy / name)
        made = _run(root, "usr/bin/systemd-sysusers", f"--root={copy}")
        if made.returncode != 0:
            raise Unavailable(f"cannot make an image with systemd: {made.stderr}")
        packages.run(("ldconfig", "-r", str(copy)))
        left_out = (f"--exclude=./{name}/*" for name in IMAGE_LEAVES_OUT)
        packages.run(("tar", "--create", "--file", str(path), "--directory", str(copy), *left_out, "."))
