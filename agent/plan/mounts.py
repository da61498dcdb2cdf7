"""Which paths of the host a container may see. Asked when a plan is made, and again with real paths before a start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from posixpath import basename, normpath
from typing import Any

SOCKETS = ("docker.sock", "containerd.sock", "podman.sock", "crio.sock", "buildkitd.sock")
"""Names of container engines' sockets, wherever they lie."""
NEVER_ROOTS = ("/", "/etc", "/usr", "/bin", "/sbin", "/lib", "/lib64", "/boot", "/dev", "/proc", "/sys", "/run", "/var")
"""A variable with such a value opens nothing: most of the host lies below it."""
PRIVATE = (".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".netrc", ".git-credentials", ".config")
"""What a home folder keeps for its owner alone; a variable HOME does not open it."""


@dataclass(frozen=True, slots=True)
class Mount:
    """A path of the host that a launch mounts, and the flag that says so."""

    source: str
    flag: str


@dataclass(frozen=True, slots=True)
class Barred:
    """A mount that is not allowed, with its risk and the line that would allow it."""

    mount: Mount
    risk: str
    line: str

    @property
    def flag(self) -> str:
        return self.mount.flag


def mounts_of(body: Mapping[str, Any]) -> tuple[Mount, ...]:
    """Every path of the host in a body: `-v`, `--mount type=bind`, and volumes that are binds in disguise."""
    host = body.get("HostConfig") or {}
    found = [Mount(bind.split(":")[0], f"-v {bind}") for bind in host.get("Binds") or () if bind.startswith("/")]
    for mount in host.get("Mounts") or ():
        source = _source(mount)
        if source:
            found.append(Mount(source, f"--mount source={source},target={mount.get('Target')}"))
    return tuple(found)


def _source(mount: Mapping[str, Any]) -> str:
    """A local volume with `device=/path` in its options is a mount of that path."""
    if mount.get("Type") == "bind":
        return str(mount.get("Source") or "")
    device = str(driver_of(mount)[1].get("device") or "")
    return device if device.startswith("/") else ""


def driver_of(mount: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """The driver of a volume, `local` where none is named, and the options that it gets."""
    driver = (mount.get("VolumeOptions") or {}).get("DriverConfig") or {}
    return str(driver.get("Name") or "local"), driver.get("Options") or {}


def roots_of(mount_roots: Sequence[object], variables: Mapping[str, str]) -> tuple[str, ...]:
    """The folders below which mounts are allowed: the configured ones, and the variables that are folders.

    HOME opens what is below it and not itself, which a `/` at its end says.
    """
    named = {name: plain(value) for name, value in variables.items() if value.startswith("/")}
    open_ones = [f"{value}/" if name == "HOME" else value for name, value in named.items() if value not in NEVER_ROOTS]
    return tuple(dict.fromkeys([*(str(root) for root in mount_roots), *open_ones]))


def is_socket(source: str, sockets: Sequence[str] = ()) -> bool:
    """Whether a path is a container engine's socket: by its name, or since it is one of `sockets`."""
    return basename(source) in SOCKETS or source in sockets


def refuse_mounts(
    mounts: Sequence[Mount], roots: Sequence[str], docker_socket: bool, sockets: Sequence[str] = ()
) -> Iterator[Barred]:
    """The mounts that are not allowed, by their paths alone; the caller resolves links where it can.

    `sockets`: paths of this host's own engine's sockets, beside those that are known by their names.
    """
    for mount in mounts:
        if mount.source.startswith("$"):
            continue  # a variable without a value: the plan lists it as missing
        source = plain(mount.source)
        if is_socket(source, sockets):
            if not docker_socket:
                risk = "with the container engine's socket it would own this host"
                yield Barred(mount, risk, "policy: {docker_socket: true}")
        elif not any(_below(source, root) for root in roots):
            risk = f"it could read {source}" + ("" if mount.flag.endswith(":ro") else ", and write to it")
            yield Barred(mount, risk, f"policy: {{mount_roots: [{source}]}}")


def plain(path: str) -> str:
    """A path as the Engine takes it: `..`, `.` and doubled slashes resolved by the letters, before links are."""
    return f"/{normpath(path).lstrip('/')}"


def _below(source: str, root: str) -> bool:
    """Below a root, or a root that has no `/` at its end; what a home folder keeps private is not meant by either."""
    folder = f"{root.rstrip('/')}/"
    if not source.startswith(folder) and source != root:
        return False
    return not any(part in PRIVATE for part in source[len(folder) :].split("/"))
