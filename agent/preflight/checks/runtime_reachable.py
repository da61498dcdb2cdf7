"""Does the container engine answer, and is it one that the agent can supervise engines on?"""

from __future__ import annotations

from agent.host.reading import Unknown
from agent.preflight.case import Case
from agent.preflight.check import Answer, Check, bad, doubtful, good
from agent.preflight.facts import ContainerEngine

ID = "runtime.reachable"
UNREACHABLE = "is it running (systemctl status docker), and may the agent's user open its socket (group docker)?"
DESKTOP = "containers run in a virtual machine there: no GPU of the host, and no process of theirs in its /proc"
CONTAINED = (
    "packaging/container/compose.yaml shows the whole of it; without that what runs is unobservable, and nothing is "
    "done about it"
)
ROOTLESS = (
    "supported, within what its user may do: the agent has to run as that user or as root, memlock is its service's "
    "(`systemctl --user edit docker`: LimitMEMLOCK), ports below 1024 and the host's network are its own, and cards "
    "want `no-cgroups = true` in /etc/nvidia-container-runtime/config.toml"
)
ELSEWHERE = (
    "run the agent on the host that has the cards, with docker.host in agent.yaml a local socket "
    "(unix:///var/run/docker.sock), or take `runtime: process`"
)
PASSED_OVER = "the agent goes by docker.host of agent.yaml alone: write it there where that engine is meant"
LIVE_RESTORE = 'an update of the Docker service ends all engines: set "live-restore": true in /etc/docker/daemon.json'


async def look(case: Case) -> Answer:
    reading = await case.facts.container_engine()
    if isinstance(reading, Unknown):
        hint = ELSEWHERE if reading.unsupported else UNREACHABLE
        return bad(reading.reason, need="a container engine that answers", hint=hint)
    engine = reading.value
    found = f"{engine.name} {engine.version}"
    if "docker desktop" in (engine.operating_system or "").lower():
        return bad(f"{found} is Docker Desktop", hint=DESKTOP)
    if engine.hidden:
        return bad(f"{found}, but {engine.hidden}", need="an agent that sees what the engine runs", hint=CONTAINED)
    if doubts := doubts_of(engine):
        return doubtful(f"{found}, {', '.join(doubts)}", hint="; ".join(doubts.values()))
    return good(found)


def doubts_of(engine: ContainerEngine) -> dict[str, str]:
    """What is unusual about it, each with what follows."""
    doubts = {}
    if engine.rootless:
        doubts["rootless"] = ROOTLESS
    if engine.live_restore is False:
        doubts["without live-restore"] = LIVE_RESTORE
    if engine.passed_over:
        doubts[f"and not {engine.passed_over}, which DOCKER_HOST names"] = PASSED_OVER
    return doubts


CHECK = Check(ID, "the container engine answers", look, lambda c: c.in_container, True)
