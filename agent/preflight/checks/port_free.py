"""Are the ports free that the engine will be reached at?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from agent.host.process import Listener
from agent.host.reading import Known, Unknown
from agent.preflight.case import Case
from agent.preflight.check import Answer, Check, bad, good, unknown
from agent.preflight.facts import Neighbour
from agent.preflight.ports import Published, published
from agent.preflight.who import Holder, holder, neighbour_words

ID = "port.free"
EVERYWHERE = ("", "0.0.0.0", "::", "*")  # noqa: S104


@dataclass(frozen=True, slots=True)
class Taken:
    """A port that somebody has."""

    port: Published
    by: str
    cure: str
    details: dict[str, Any]


async def look(case: Case) -> Answer:
    ports = published(case.plan)
    need = ", ".join(str(port) for port in ports)
    taken: list[Taken] = []
    for port in ports:
        answer = await who_has(case, port)
        if isinstance(answer, Unknown):
            return unknown(f"port {port}: {answer.reason}", need=need)
        taken += answer
    if not taken:
        return good(f"{need} free", need=need)
    found = "; ".join(f"port {one.port} is taken by {one.by}" for one in taken)
    hint = "; ".join(dict.fromkeys(one.cure for one in taken)) + "; or another port with --set port=…"
    return bad(found, need=need, hint=hint, details={"taken": [one.details for one in taken]})


async def who_has(case: Case, port: Published) -> list[Taken] | Unknown:
    """Containers that publish it first: Docker's own proxy, or a mere packet rule, listens in their place."""
    if port.number in case.credit.ports:
        return []
    neighbours = await case.facts.neighbours()
    if isinstance(neighbours, Known):
        for neighbour in neighbours.value:
            if port.number in neighbour.ports and not own(case, neighbour):
                return [by_container(port, neighbour)]
    listeners = await case.facts.listeners(port.number)
    if isinstance(listeners, Unknown):
        return listeners
    clashing = [one for one in listeners.value if overlaps(one.address, port.address)]
    return [taken for one in clashing if (taken := await by_process(case, port, one)) is not None]


def own(case: Case, neighbour: Neighbour) -> bool:
    return neighbour.id == case.credit.container


def by_container(port: Published, neighbour: Neighbour) -> Taken:
    name = neighbour.name or neighbour.id[:12]
    details = {"port": port.number, "container": neighbour.name, "container_id": neighbour.id, "pid": None}
    return Taken(port, neighbour_words(neighbour), f"`docker stop {name}`", details)


async def by_process(case: Case, port: Published, listener: Listener) -> Taken | None:
    where = f"listening on {listener.address}"
    if isinstance(listener.pid, Unknown):
        details: dict[str, Any] = {"port": port.number, "address": listener.address, "pid": None}
        cure = f"see who it is with `ss -ltnp 'sport = :{port.number}'` as root, and stop it"
        return Taken(port, f"a process that cannot be named ({listener.pid.reason}), {where}", cure, details)
    if listener.pid.value in case.credit.pids:
        return None
    who = await holder(case.facts, listener.pid.value)
    details = {"port": port.number, "address": listener.address} | who.to_json()
    return Taken(port, f"{who}{await network(case, who)}, {where}", f"`{who.cure}`", details)


async def network(case: Case, who: Holder) -> str:
    """A word on why a container's process listens on the host itself."""
    neighbours = await case.facts.neighbours()
    if who.container_id is None or isinstance(neighbours, Unknown):
        return ""
    shared = any(one.id == who.container_id and one.host_network for one in neighbours.value)
    return " on the host's network" if shared else ""


def overlaps(listening: str, wanted: str) -> bool:
    """Whether both cannot stand side by side: the same address, or one of them is every address."""
    return listening in EVERYWHERE or wanted in EVERYWHERE or listening == wanted


CHECK = Check(ID, "the published ports are free", look, lambda c: bool(published(c.plan)), True)
