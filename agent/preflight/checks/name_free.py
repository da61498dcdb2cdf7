"""Is the container's name free, or ours already?"""

from __future__ import annotations

from agent.host.reading import Unknown
from agent.preflight.case import Case
from agent.preflight.check import Answer, Check, bad, good, unknown
from agent.preflight.who import neighbour_words

ID = "name.free"


async def look(case: Case) -> Answer:
    if silent := await case.no_engine():
        return unknown(silent.reason)
    name = case.plan.container.name if case.plan.container else ""
    reading = await case.facts.name_holder(name)
    if isinstance(reading, Unknown):
        return unknown(reading.reason)
    holder = reading.value
    if holder is None:
        return good(f"{name} is free")
    details = {"name": name, "container_id": holder.id, "running": holder.running, "slug": holder.slug}
    if holder.id == case.credit.container:
        return good(f"{name} is the running deployment's own", details=details)
    if holder.slug == case.plan.recipe.slug:
        return good(f"{name} is a container of this deployment that is to be replaced", details=details)
    state = "running" if holder.running else "not running, but still there"
    removal = f"docker {'rm -f' if holder.running else 'rm'} {name}"
    found = f"{name} is taken by {neighbour_words(holder)}, id {holder.id[:12]}, {state}"
    return bad(found, hint=f"`{removal}` if it may go, or another container name in the profile", details=details)


CHECK = Check(ID, "the container's name is free", look, lambda c: c.in_container and c.plan.container is not None, True)
