"""What the agent holds at one moment, and what of it has grown that should not."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.bench import processes
from tests.e2e.rig import Rig, engine_pids

KEPT = ("incidents", "logs")
"""Folders of evidence: they grow up to what the site's retention allows, by design."""
MEMORY_MB = 8.0
DESCRIPTORS = 4
THREADS = 3
"""A pool's thread and a connection come and go; what leaks is more with every fault."""


@dataclass(frozen=True)
class Holding:
    """`agent`: pid of the agent, whose own figures begin anew with it. The rest is to stay as it is for ever.

    `memory_mb` is its PSS, for people; what leaks is `anonymous_mb`, in which no other program has a part.
    """

    agent: int
    memory_mb: float
    anonymous_mb: float
    descriptors: int
    threads: int
    agent_processes: int
    engine_processes: int
    records: int
    files: int


def holding(rig: Rig, slug: str) -> Holding:
    """Now; to be asked while the engine serves and nobody uses it."""
    if rig.daemon is None:
        raise AssertionError("the daemon does not run")
    own = processes.own(rig.daemon.pid)
    return Holding(
        agent=rig.daemon.pid,
        memory_mb=processes.pss(own),
        anonymous_mb=processes.anonymous(own),
        descriptors=processes.descriptors(own),
        threads=processes.threads(own),
        agent_processes=len(own),
        engine_processes=len(set(engine_pids(rig.folder)) - set(own)) if rig.engine is None else inside(rig, slug),
        records=len(rig.containers(slug)) + (len(rig.engine.docker("volume", "ls", "-q").split()) if rig.engine else 0),
        files=len([path for path in files_of(rig.folder / "state") if path.parts[0] not in KEPT]),
    )


def inside(rig: Rig, slug: str) -> int:
    """Processes of its containers."""
    assert rig.engine is not None
    ids = [line.split()[0] for line in rig.containers(slug)]
    return sum(len(rig.engine.docker("top", one, "-o", "pid").splitlines()) - 1 for one in ids)


def files_of(folder: Path) -> list[Path]:
    return [path.relative_to(folder) for path in folder.rglob("*") if path.is_file()]


def leaks(seen: list[Holding]) -> list[str]:
    """What grew: the agent's own within each of its lives, the host's over all of them. Empty: nothing did."""
    found = []
    for pid in dict.fromkeys(one.agent for one in seen):
        life = [one for one in seen if one.agent == pid]
        found += grown(life[0], life[-1])
    first, last = seen[0], seen[-1]
    for name in ("engine_processes", "records", "files"):
        before, now = getattr(first, name), getattr(last, name)
        if now > before:
            found.append(f"{name.replace('_', ' ')}: {before} → {now}")
    return found


def grown(first: Holding, last: Holding) -> list[str]:
    """Of one life of the agent, beyond what comes and goes."""
    limits = {"anonymous_mb": MEMORY_MB, "descriptors": DESCRIPTORS, "threads": THREADS, "agent_processes": 0}
    return [
        f"{name.replace('_', ' ')} of agent {first.agent}: {getattr(first, name):.6g} → {getattr(last, name):.6g}"
        for name, limit in limits.items()
        if getattr(last, name) - getattr(first, name) > limit
    ]
