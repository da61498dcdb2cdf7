"""Programs from the distribution's archive, unpacked into the lab's folder; the host's package state is not touched.

`apt-get` runs with lists, caches and hooks of the lab's own, so neither its index nor its hooks nor dpkg's database on
the host change, and it does not have to be root. A group is fetched once; later runs need no network.
"""

from __future__ import annotations

import enum
import fcntl
import functools
import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.lab.place import HOW_TO_ENTER, Unavailable, is_inside, lab_folder


class Depth(enum.Enum):
    """How much comes along with the packages of a group."""

    NAMED = "named"  # nothing: what they need besides is on any machine
    DEPENDENCIES = "dependencies"  # what they depend on, less what is on any machine
    WHOLE = "whole"  # all, down to the C library: a root file system, though no package's scripts have run in it


@dataclass(frozen=True, slots=True)
class Group:
    """Packages that are unpacked together.

    `optional` ones are taken where the release has them under that name. A machine that has one of the programs
    `unless` does not need the group.
    """

    name: str
    needed: tuple[str, ...]
    optional: tuple[str, ...] = ()
    depth: Depth = Depth.NAMED
    unless: tuple[str, ...] = ()

    def is_needed(self) -> bool:
        """Whether this machine lacks what the group is for."""
        return not any(shutil.which(program) for program in self.unless)


ESSENTIAL = "?essential"  # apt's pattern for what is on any machine

ENGINE = Group(
    "engine",
    needed=("docker.io", "containerd", "runc", "tini", "iptables", "docker-registry", "busybox-static"),
    optional=(
        "docker-cli",  # Debian 13 parts it from docker.io, and promtool from prometheus
        "docker-buildx",
        "libip4tc2",
        "libip6tc2",
        "libxtables12",
        "libmnl0",
        "libnftnl11",
        "libnfnetlink0",
        "libnetfilter-conntrack3",
        "libnftables1",
        "libjansson4",
        "libseccomp2",
        "libdevmapper1.02.1",
    ),
)
PROMETHEUS = Group("prometheus", needed=("prometheus", "prometheus-alertmanager"), optional=("promtool",))
SYSTEMD = Group(
    "systemd", needed=("systemd", "systemd-sysv", "dbus", "iproute2", "procps", ESSENTIAL), depth=Depth.WHOLE
)

COMPILER = Group("compiler", needed=("gcc", "libc6-dev"), depth=Depth.DEPENDENCIES, unless=("cc", "gcc", "clang"))
GIT = Group("git", needed=("git",), optional=("libpcre2-8-0",), unless=("git",))
BOOTSTRAP = Group("bootstrap", needed=("mmdebstrap",))
"""For `debian.py` alone, which unpacks it when it is asked for."""
EXPORTER = Group("exporter", needed=("prometheus-node-exporter",))
ALL = (ENGINE, PROMETHEUS, SYSTEMD, COMPILER, GIT)
"""What the tests need: unpacked before the lab is entered."""
BESIDE = {"exporter": EXPORTER}
"""What something else needs (the benches' baseline): unpacked where it is asked for by name, and missed by no test."""

# What a merged /usr has in its root instead of folders; packages still say /bin and /lib.
MERGED = ("bin", "sbin", "lib", "lib64")


def fetch(group: Group) -> Path:
    """The folder that holds `group` unpacked, as if it were `/`; downloads it when it is not there yet.

    Raises Unavailable when it is not there and cannot be downloaded: no apt, no network, or already inside the lab's
    namespaces, which have none.
    """
    home = lab_folder() / "packages"
    root = home / f"{group.name}-{_key(group)}"
    if root.is_dir():
        return root
    if is_inside():
        raise Unavailable(f"cannot unpack {group.name}: no network inside the lab; leave it and {HOW_TO_ENTER}")
    missing = [program for program in ("apt-get", "apt-cache", "dpkg-deb") if shutil.which(program) is None]
    if missing:
        raise Unavailable(f"cannot unpack {group.name}: this machine has no {', '.join(missing)}")
    with locked(home / "lock"):
        if not root.is_dir():
            _unpack(group, root, _updated_apt())
    return root


def libraries(root: Path) -> str:
    """The value of LD_LIBRARY_PATH for programs of an unpacked group; it must not reach other programs."""
    return ":".join(sorted({str(path.parent) for path in root.glob("**/lib/*-linux-gnu/*.so*")}))


def programs(root: Path) -> str:
    """The folders of an unpacked group's programs, as a piece of PATH."""
    return ":".join(str(root / folder) for folder in ("usr/sbin", "usr/bin", "sbin", "bin"))


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Holds a lock between processes; a second run waits instead of unpacking into the same folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _key(group: Group) -> str:
    """Changes with the release and with what a group lists, so that neither is mixed with an older folder."""
    release = [line for line in Path("/etc/os-release").read_text().splitlines() if line.startswith(("ID=", "VERSION"))]
    text = json.dumps([sorted(release), os.uname().machine, group.needed, group.optional, group.depth.value])
    return hashlib.sha256(text.encode()).hexdigest()[:12]


class Apt:
    """`apt-get` with state of its own under `home`; sources, keys and proxies are the host's."""

    def __init__(self, home: Path) -> None:
        self._home = home
        for folder in ("lists/partial", "cache/archives/partial", "none"):
            (home / folder).mkdir(parents=True, exist_ok=True)
        self._environment = {**os.environ, "APT_CONFIG": str(self._settings()), "LC_ALL": "C.UTF-8"}

    def _settings(self) -> Path:
        """The host's settings less its hooks: those clean the host's cache and tell its desktop about new lists."""
        path = self._home / "apt.conf"
        path.write_text(
            '#include "/etc/apt/apt.conf.d/";\n'
            "#clear APT::Update;\n"
            f'Dir::Etc::Parts "{self._home}/none";\n'
            f'Dir::State::Lists "{self._home}/lists";\n'
            f'Dir::Cache "{self._home}/cache";\n'
            f'APT::Sandbox::User "";\n'
        )
        return path

    def update(self) -> None:
        """Reads the archive's index into the lab's folder."""
        self.run("apt-get", "-q", "update")

    def offered(self, packages: tuple[str, ...]) -> set[str]:
        """Those of `packages` that the archive has for download."""
        shown = self.run("apt-cache", "--no-all-versions", "show", *packages, check=False)
        records = [record.splitlines() for record in shown.split("\n\n") if "\nFilename:" in record]
        return {record[0].removeprefix("Package: ") for record in records}

    def closure(self, packages: tuple[str, ...]) -> set[str]:
        """`packages` and all that they depend on, as if nothing were installed; patterns such as `?essential` too."""
        nothing = self._home / "none" / "status"
        nothing.touch()
        asked = ("install", "--yes", "--no-install-recommends", "--print-uris", *packages)
        own = ("-qq", "-o", f"Dir::State::status={nothing}", "-o", "Debug::NoLocking=true")
        lines = self.run("apt-get", *own, *asked).splitlines()
        return {line.split()[1].partition("_")[0] for line in lines if line.startswith("'")}

    def download(self, packages: list[str], into: Path) -> list[Path]:
        """The package files, in `into`."""
        into.mkdir(parents=True, exist_ok=True)
        self.run("apt-get", "-q", "download", *packages, cwd=into)
        return sorted(into.glob("*.deb"))

    def run(self, *words: str, cwd: Path | None = None, check: bool = True) -> str:
        """What the program printed. Raises Unavailable with its last words when it fails."""
        return run(words, cwd=cwd, check=check, environment=self._environment)


def run(
    words: tuple[str, ...], cwd: Path | None = None, check: bool = True, environment: Mapping[str, str] | None = None
) -> str:
    """What a program of the host printed; raises Unavailable with its last words when it fails."""
    done = subprocess.run(
        words, cwd=cwd, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
    )
    if check and done.returncode != 0:
        last = " ".join(done.stderr.split()[-40:])
        raise Unavailable(f"cannot run {' '.join(words[:3])} (exit status {done.returncode}): {last}")
    return done.stdout


@functools.cache
def _updated_apt() -> Apt:
    """With the archive's index of now; read once, however many groups follow."""
    apt = Apt(lab_folder() / "apt")
    apt.update()
    return apt


def _unpack(group: Group, root: Path, apt: Apt) -> None:
    """Downloads and unpacks beside `root`, then renames: a killed run leaves no half of a group."""
    names = _names(group, apt)
    draft = root.with_name(f"{root.name}.draft")
    shutil.rmtree(draft, ignore_errors=True)
    if group.depth is Depth.WHOLE:
        _merge_usr(draft)
    for archive in apt.download(sorted(names), draft / "archives"):
        _extract(archive, draft)
    shutil.rmtree(draft / "archives")
    draft.rename(root)


def _names(group: Group, apt: Apt) -> set[str]:
    match group.depth:
        case Depth.NAMED:
            return _offered(group, apt)
        case Depth.DEPENDENCIES:
            return apt.closure(group.needed) - apt.closure((ESSENTIAL,))
        case Depth.WHOLE:
            return apt.closure(group.needed)


def _extract(archive: Path, root: Path) -> None:
    """As `dpkg-deb --extract`, which would put a folder where a merged /usr has a link."""
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", archive], stdout=subprocess.PIPE) as contents:
        tar = ["tar", "--extract", "--preserve-permissions", "--keep-directory-symlink", "--directory", str(root)]
        done = subprocess.run(tar, stdin=contents.stdout, capture_output=True, text=True, check=False)
    if contents.returncode != 0 or done.returncode != 0:
        raise Unavailable(f"cannot unpack {archive.name}: {done.stderr.strip() or 'it is not whole'}")


def _offered(group: Group, apt: Apt) -> set[str]:
    offered = apt.offered(group.needed + group.optional)
    if absent := set(group.needed) - offered:
        raise Unavailable(f"cannot unpack {group.name}: this release's archive has no {', '.join(sorted(absent))}")
    return offered


def _merge_usr(root: Path) -> None:
    for name in MERGED:
        (root / "usr" / name).mkdir(parents=True)
        (root / name).symlink_to(f"usr/{name}")


if __name__ == "__main__":
    for wanted in filter(Group.is_needed, (*ALL, *BESIDE.values())):
        print(fetch(wanted))
