"""Why an engine decodes slower than claimed: the signs beside it, the likeliest first (pure)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from agent.host.gpu import Gpu, GpuProcess, Shares
from agent.host.reading import Known, Reading, Unknown, value_of
from agent.plan.model import Plan
from agent.preflight.checks.gpu_model import alike
from agent.quantity import Bytes, counted
from agent.verify.live import Compared

HOLDING = frozenset({"hw_slowdown", "sw_thermal", "hw_thermal", "hw_power_brake", "board_limit", "reliability"})
"""Reasons for low clocks that nobody chose."""
LEAST_SHARE = 0.05
"""Of a card's time: who has less does not make an engine lose two fifths of its rate."""
OWN = frozenset({"zombies", "acceptance", "waiting"})
"""Causes within the engine: requests that it holds for nobody, drafts that it no longer takes, ranks out of step. Heat,
power, a link's lanes and a stranger's load outlive every restart."""
UNKNOWN_LOAD = "foreign_unknown"
MOST_NAMED = 5
"""Of those that hold memory."""
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
        """Whether it is known to compute on this card: it runs requests, and has the card or processes there."""
        return bool(self.running) and (gpu.uuid in self.cards or bool(users & (self.pids or frozenset())))


@dataclass(frozen=True, slots=True)
class Guest:
    """Processes on a card that are not the engine's own, and of whom it is not known from requests what they do."""

    name: str
    gpu: Gpu
    processes: tuple[GpuProcess, ...]


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
    shares: Mapping[str, Reading[Shares]] = field(default_factory=dict)
    """By UUID: who computed on that card of late. It is asked for where there are `guests`."""


def causes(signs: Signs) -> tuple[Cause, ...]:
    """All that is seen, in the order of how likely each explains it."""
    return tuple(cause for look in LOOKS for cause in look(signs))


def restart_mends(found: tuple[Cause, ...]) -> bool:
    """Whether a new start may help: with what is the engine's own, and nothing of the host's beside it, or perhaps."""
    faults = {cause.name for cause in found if cause.fault}
    return bool(faults) and faults <= OWN and all(cause.name != UNKNOWN_LOAD for cause in found)


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
    """Who is seen to compute: other deployments that run requests, and guests by their share of the card's time."""
    for gpu in signs.cards:
        pids = frozenset(user.pid for user in users(gpu))
        if there := sorted(one.slug for one in signs.neighbours if one.on(gpu, pids)):
            compute = "computes" if len(there) == 1 else "compute"
            yield Cause("foreign_load", f"{' and '.join(there)} {compute} on card {gpu.index} too")
    for guest in guests(signs):
        share = share_of(guest, signs)
        if isinstance(share, Known) and share.value >= LEAST_SHARE:
            text = f"{guest.name} computes on card {guest.gpu.index} too, {share.value:.0%} of the time"
            yield Cause("foreign_load", text)


def holding(signs: Signs) -> Iterator[Cause]:
    """Guests that are not seen to compute: memory that is held slows nobody, and what is not known accuses nobody."""
    alike: dict[tuple[int, str, str], list[Guest]] = {}
    for guest in guests(signs):
        if (told := at_rest(share_of(guest, signs))) is not None:
            alike.setdefault((guest.gpu.index, *told), []).append(guest)
    for (index, name, seen), there in alike.items():
        yield Cause(name, f"{held(there)} on card {index}, {seen}", fault=False)


def at_rest(share: Reading[float]) -> tuple[str, str] | None:
    """Name and words for who is not seen to compute; None for who is."""
    if isinstance(share, Unknown):
        return UNKNOWN_LOAD, f"unknown whether computing ({share.reason})"
    if share.value >= LEAST_SHARE:
        return None
    return "foreign_memory", f"computing {share.value:.0%} of the time" if share.value else "no computation seen"


def held(there: list[Guest]) -> str:
    """`pid 7, pid 8 hold 20 GiB of memory`, with no more names than anybody reads."""
    names = [guest.name for guest in there]
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    sizes = [value_of(one.memory) for guest in there for one in guest.processes]
    memory = f"{Bytes(sum(filter(None, sizes)))} of memory" if None not in sizes else "memory"
    return f"{', '.join(names[:MOST_NAMED])}{more} {'holds' if len(names) == 1 else 'hold'} {memory}"


def guests(signs: Signs) -> Iterator[Guest]:
    """Strangers by their pids, and other deployments of which nobody knows whether they run requests."""
    known = frozenset().union(*(one.pids or frozenset() for one in signs.neighbours))
    for gpu in signs.cards:
        there = users(gpu)
        for one in signs.neighbours:
            if one.running is None and (theirs := tuple(user for user in there if user.pid in (one.pids or ()))):
                yield Guest(one.slug, gpu, theirs)
        if signs.own is not None:
            for pid in sorted({user.pid for user in there} - signs.own - known):
                yield Guest(f"pid {pid}", gpu, tuple(user for user in there if user.pid == pid))


def users(gpu: Gpu) -> tuple[GpuProcess, ...]:
    """Processes that may compute there: they have a context for it. A desktop has none."""
    return tuple(one for one in value_of(gpu.processes) or () if one.kind == "compute")


def share_of(guest: Guest, signs: Signs) -> Reading[float]:
    """Its share of the card's time. That it has none counts only where the engine, which decodes, is seen to have some:
    a driver that shows nobody, or pids of another namespace, tell nothing of a guest."""
    shares = signs.shares.get(guest.gpu.uuid, Unknown("NVML was not asked"))
    if isinstance(shares, Unknown):
        return shares
    found = sum(shares.value.get(one.pid, 0.0) for one in guest.processes)
    if found < LEAST_SHARE and not shares.value.keys() & (signs.own or frozenset()):
        return Unknown("NVML shows no computation of the engine either")
    return Known(min(1.0, found), shares.at)


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
    zombies, throttling, clocks, links, foreign, acceptance, contexts, waiting, holding,
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
