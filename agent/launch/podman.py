"""What to write instead of a flag that docker does not have: podman's and nerdctl's own, and slips of the pen."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

OWN = {
    "replace": "it is podman's: leave it out, an old container of that name is replaced anyway",
    "pod": "it is podman's: docker has no pods; join a network with --network container:NAME",
    "secret": "it is podman's: give the value with -e, or mount a file",
    "hooks-dir": "it is podman's: name GPUs with --gpus or --device nvidia.com/gpu=all",
    "tls-verify": "it is podman's: the registry is the engine's to trust",
    "health-on-failure": "it is podman's: leave it out, the agent restarts",
    "systemd": "it is podman's: leave it out",
    "sdnotify": "it is podman's: leave it out",
    "cgroups": "it is podman's: leave it out",
    "http-proxy": "it is podman's: give the proxies with -e",
    "image-volume": "it is podman's: leave it out",
    "group-entry": "it is podman's: leave it out",
    "passwd": "it is podman's: leave it out",
    "env-host": "it is podman's: name the variables with -e",
    "unsetenv": "it is podman's: docker cannot take a variable of the image away",
    "timeout": "it is podman's: leave it out",
    "tz": "it is podman's: -e TZ=…",
    "umask": "it is podman's: set it in the image",
    "uidmap": "it is podman's: docker maps users for the whole engine",
    "gidmap": "it is podman's: docker maps groups for the whole engine",
    "arch": "it is podman's: --platform linux/ARCH",
    "os": "it is podman's: --platform OS/ARCH",
    "rmi": "it is podman's: leave it out",
    "rdt-class": "it is nerdctl's: leave it out",
    "snapshotter": "it is nerdctl's: leave it out",
    "insecure-registry": "it is nerdctl's: the registry is the engine's to trust",
    "namespace": "it is nerdctl's: leave it out",
    "memory-swap-limit": "docker calls it --memory-swap",
}
"""Flags of other tools, with the way to say the same to docker."""


def how_instead(name: str, known: Iterable[str]) -> str:
    """Advice for an unknown flag."""
    if name in OWN:
        return OWN[name]
    names: list[str] = list(known)
    close = get_close_matches(name, names, n=1, cutoff=0.75) if len(name) < 40 else []
    if close:
        return f"did its author mean --{close[0]}?"
    return "correct the command where it was published, or leave the flag out"
