"""Why an engine decodes slower than claimed: the signs beside it, the likeliest first (pure)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from agent.host.gpu import Gpu
from agent.host.reading import Reading, value_of
from agent.plan.model import Plan
from agent.preflight.checks.gpu_model import alike
from agent.quantity import counted
from agent.verify.live import Compared

HOLDING = frozenset({"hw_slowdown", "sw_thermal", "hw_thermal", "hw_power_brake", "board_limit", "reliability"})
"""Reasons for low clocks that nobody chose."""
OWN = frozenset({"zombies", "acceptance", "waiting"})
"""Causes within the engine: requests that it holds for nobody, drafts that it no longer takes, ranks out of step. Heat,
power, a link's lanes and a stranger's load outlive every restart."""
LOADED = 0.5
"""A card with less to do lowers its clocks and its link by itself."""
LOW_CLOCK = 0.7
FALLEN = 0.7
LONGER = 1.5
WAITING_LOAD = (0.05, 0.2)
WAITING_CORES = 0.03
"""Ranks that wait for each other: cards busy 8 to 19 %, and no process above 3 % of a core."""


@dataclass(frozen=True, slots=True)
class Neighbour:
    """Another deployment of this agent that has processes. `cards`: UUIDs that its plan gives it; None is not known."""

    slug: str
    cards: frozenset[str] = frozenset()
    pids: frozenset[int] | None = None
    running: float | None = None
    """Requests in its batch: without one it holds memory, and leaves the cards alone."""

    def on(self, gpu: Gpu, users: frozenset[int]) -> bool:
        """Whether it is known to compute on this card, or to have processes there that may."""
        if self.running == 0:
            return False
        return bool(users & (self.pids or frozenset())) or (gpu.uuid in self.cards and bool(self.running))


@dataclass(frozen=True, slots=True)
class Cause:
    """One sign in words. `fault`: it settles that something is wrong; longer contexts are slower by nature."""

    name: str
    text: str
    fault: bool = True


@dataclass(frozen=True, slots=True)
class Signs:
    """What is seen beside a slow engine; None is not known, and settles nothing."""

    compared: Compared
    cards: tuple[Gpu, ...] = ()
    own: frozenset[int] | None = None
    """Pids of the deployment's own processes."""
    neighbours: tuple[Neighbour, ...] = ()
    zombies: float | None = None
    settled: bool = True
    """Nobody waits for the `zombies`, else they are only more than clients are connected: several may share one."""
    acceptance: float | None = None
    best_acceptance: float | None = None
    busiest: float | None = None
    """Cores that the busiest of its processes used of late."""


def causes(signs: Signs) -> tuple[Cause, ...]:
    """All that is seen, in the order of how likely each explains it."""
    return tuple(cause for look in LOOKS for cause in look(signs))


def restart_mends(found: tuple[Cause, ...]) -> bool:
    """Whether a new start may help: with what is the engine's own, and nothing of the host's beside it."""
    faults = {cause.name for cause in found if cause.fault}
    return bool(faults) and faults <= OWN


def zombies(signs: Signs) -> Iterator[Cause]:
    if not signs.zombies:
        return
    if signs.settled:
        yield Cause("zombies", f"{counted(signs.zombies, 'request runs', 'requests run')} that nobody waits for")
    else:
        more = counted(signs.zombies, "request runs", "requests run")
        yield Cause("zombies", f"{more} beyond the clients that are connected, and perhaps nobody waits for them")


def throttling(signs: Signs) -> Iterator[Cause]:
    for gpu in signs.cards:
        if held := HOLDING.intersection(value_of(gpu.throttle) or ()):
            yield Cause("throttling", f"card {gpu.index} is throttled ({', '.join(sorted(held))})")


def clocks(signs: Signs) -> Iterator[Cause]:
    for gpu in loaded(signs.cards):
        for what, now, most in (
            ("SM", gpu.sm_clock_mhz, gpu.sm_clock_max_mhz),
            ("memory", gpu.memory_clock_mhz, gpu.memory_clock_max_mhz),
        ):
            if below(now, most, LOW_CLOCK):
                text = f"card {gpu.index}'s {what} clock is {value_of(now)} of {value_of(most)} MHz under load"
                yield Cause("clocks", text)


def links(signs: Signs) -> Iterator[Cause]:
    for gpu in loaded(signs.cards):
        if below(gpu.pcie_width, gpu.pcie_width_max, 1.0):
            text = f"card {gpu.index} has {value_of(gpu.pcie_width)} of {value_of(gpu.pcie_width_max)} PCIe lanes"
            yield Cause("pcie", text)


def foreign(signs: Signs) -> Iterator[Cause]:
    """Other deployments by name, strangers by their pids; a deployment that is known to rest is neither."""
    known = frozenset().union(*(one.pids or frozenset() for one in signs.neighbours))
    for gpu in signs.cards:
        users = frozenset(one.pid for one in value_of(gpu.processes) or () if one.kind == "compute")
        there = sorted(one.slug for one in signs.neighbours if one.on(gpu, users))
        if there:
            compute = "computes" if len(there) == 1 else "compute"
            yield Cause("foreign_load", f"{' and '.join(there)} {compute} on card {gpu.index} too")
        if signs.own is not None and (strangers := sorted(users - signs.own - known)):
            yield Cause("foreign_load", f"pid {', '.join(map(str, strangers))} computes on card {gpu.index} too")


def acceptance(signs: Signs) -> Iterator[Cause]:
    now, before = signs.acceptance, signs.best_acceptance
    if now is not None and before is not None and now < FALLEN * before:
        yield Cause("acceptance", f"draft tokens are accepted at {now:.2f}, and were at {before:.2f}")


def contexts(signs: Signs) -> Iterator[Cause]:
    held, claimed = signs.compared.context, signs.compared.claim.context
    if held is not None and claimed is not None and held > LONGER * claimed:
        text = f"requests hold {held:,.0f} tokens of context on average, the claim is for {claimed:,}"
        yield Cause("contexts", text, fault=False)


def waiting(signs: Signs) -> Iterator[Cause]:
    loads = [value_of(gpu.utilization) for gpu in signs.cards]
    low, high = WAITING_LOAD
    idle = signs.busiest is not None and signs.busiest <= WAITING_CORES
    if idle and loads and all(load is not None and low <= load < high for load in loads):
        text = "cards and processes are all but idle: ranks wait for each other, look at the interface that gloo or "
        yield Cause("waiting", f"{text}NCCL chose")


LOOKS: tuple[Callable[[Signs], Iterator[Cause]], ...] = (
    zombies, throttling, clocks, links, foreign, acceptance, contexts, waiting,
)  # fmt: skip


def loaded(cards: tuple[Gpu, ...]) -> Iterator[Gpu]:
    return (gpu for gpu in cards if (value_of(gpu.utilization) or 0.0) >= LOADED)


def below(now: Reading[int], most: Reading[int], share: float) -> bool:
    """Known to be below that share."""
    first, second = value_of(now), value_of(most)
    return first is not None and second is not None and first < share * second


def unlike(plan: Plan, cards: tuple[Gpu, ...]) -> str:
    """Why the claims are of other hardware than these cards, or not known to be of it; empty: of the same."""
    needs = {one.id: one.need for one in plan.requirements}
    card, count = needs.get("gpu.model"), needs.get("gpu.count")
    if card is None:
        return "the recipe does not say on which cards that was measured"
    if not cards or not all(gpu.name for gpu in cards):
        return f"that was measured on {card}, and the cards here cannot be read"
    if other := next((gpu.name for gpu in cards if not alike(str(card), gpu.name)), ""):
        return f"that was measured on {card}, and here is {other}"
    if count is not None and count != len(cards):
        return f"that was measured on {count} cards, and here are {len(cards)}"
    return ""


def sentence(compared: Compared, found: tuple[Cause, ...]) -> str:
    """For a person: how slow, by which claim, and why probably."""
    claim = compared.claim
    note = f", {claim.note}" if claim.note else ""
    slow = (
        f"decodes {compared.rate:.1f} tok/s with {compared.together} running, {compared.ratio:.2f} of what is claimed"
    )
    likely, *more = [cause.text for cause in found]
    also = f"; also: {'; '.join(more)}" if more else ""
    return f"{slow} ({claim.value:g} tok/s, {claim.origin}{note}); likely because {likely}{also}"
