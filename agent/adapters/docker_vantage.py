"""Whether this agent sees what the Engine runs: its processes in its own /proc, its ports on its own network.

An agent that is itself a container sees them only with the host's process and network namespaces. Without them a
container's pid is nobody here, or somebody else, and a published port refuses: to be blind, not to find a dead engine.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from agent.adapters.procfs import parse_cgroups
from agent.container.port import ContainerView

_MOUNTED = frozenset({"/etc/hostname", "/etc/hosts", "/etc/resolv.conf"})
# What Docker (…/containers/ID/hosts) and Podman (…/overlay-containers/ID/userdata/hosts) mount into each container.
_OWN = re.compile(r"containers/([0-9a-f]{64})/")
_WAYS = {
    "PidMode": ("the host's processes", "pid: host"),
    "NetworkMode": ("the host's network", "network_mode: host"),
}
"""What the Engine says of a container → what it sees with `host` there, and how Compose says it."""


@dataclass(frozen=True, slots=True)
class Vantage:
    """Where this agent is. `own`: the id of the container that it runs in, None outside of any; `proc`: its /proc."""

    own: str | None
    proc: Path = Path("/proc")

    def lacks(self, inspect: Callable[[str], Mapping[str, Any] | None]) -> str:
        """What its container does not have of the host; empty when nothing, or when that Engine does not know it.

        An Engine that does not know it runs beside the agent, inside the same container: its host is the agent's.
        """
        document = inspect(self.own) if self.own is not None else None
        return lacking((document or {}).get("HostConfig") or {}) if document is not None else ""

    def seen(self, view: ContainerView, lacks: str) -> ContainerView:
        """The view as it is of use from here: what cannot be watched has neither pid nor address."""
        if view.pid is None:
            return view
        why = lacks or self._another(view.pid, view.id)
        return replace(view, pid=None, address=None, hidden=why) if why else view

    def _another(self, pid: int, container: str) -> str:
        """Why that process is not the container's; empty where it is, has ended, or nothing tells."""
        text = _text(self.proc / str(pid) / "cgroup")
        named = parse_cgroups(text).containers if text else ()
        stranger = named and container not in named
        # A process that shares the agent's own control group is no other container's.
        beside = self.own is not None and bool(text) and not named and text == _text(self.proc / "self" / "cgroup")
        if not stranger and not beside:
            return ""
        return f"process {pid} here is not the container's: the Engine's processes are not those that the agent sees"


def lacking(host_config: Mapping[str, Any]) -> str:
    """From the `HostConfig` of the agent's own container."""
    missing = {key: ways for key, ways in _WAYS.items() if host_config.get(key) != "host"}
    if not missing:
        return ""
    things, words = zip(*missing.values(), strict=True)
    return f"the agent runs in a container without {' and '.join(things)}: start it with {', '.join(words)}"


def own_container(proc: Path = Path("/proc")) -> str | None:
    """The id of the container that this process runs in, by the files that its runtime mounted into it."""
    for line in _text(proc / "self" / "mountinfo").splitlines():
        words = line.split()  # proc(5): id, parent, device, root, mount point, …
        if len(words) > 4 and words[4] in _MOUNTED and (found := _OWN.search(words[3])):
            return found[1]
    return None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
