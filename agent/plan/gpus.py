"""Which cards: the site's choice, else those that fit, else a question."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from agent.host.gpu import Gpu
from agent.host.reading import Known, Reading
from agent.plan.model import Missing, Requirement
from agent.plan.trouble import UnfitGpus
from agent.quantity import Bytes, counted

_PCI = re.compile(r"(?:[0-9A-Fa-f]{4,8}:)?[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f]")
NOMINAL = 0.05
"""A 64 GB card may have 5 % less."""


@dataclass(frozen=True, slots=True)
class Demand:
    """How many cards a launch needs (None: nobody says), whose word that is, and what the site chose."""

    count: int | None
    origin: str
    selectors: tuple[str, ...] = ()
    chosen_by: str = ""


@dataclass(frozen=True, slots=True)
class Choice:
    """The cards of a plan. `whole`: they are all that the host has; `ids` are what the runtime is told."""

    uuids: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    whole: bool = True
    missing: tuple[Missing, ...] = ()
    warnings: tuple[str, ...] = ()
    archs: tuple[str, ...] = ()
    """Compute capabilities (`8.0`) of the cards, as far as they can be read."""


def choose(slug: str, demand: Demand, host: Reading[tuple[Gpu, ...]], needs: Sequence[Requirement]) -> Choice:
    """The cards. Raises UnfitGpus where the site's choice is not there or too small."""
    if demand.count == 0:
        return Choice(whole=False)
    if not isinstance(host, Known):
        return _unseen(demand, host.reason)
    if demand.selectors:
        return _selected(slug, demand, host.value)
    fitting = tuple(gpu for gpu in host.value if _fits(gpu, needs))
    cards = fitting if demand.count is not None and len(fitting) >= demand.count else host.value
    if demand.count is not None and len(cards) > demand.count:
        return Choice(whole=False, missing=(_question(demand, cards),))
    return _chosen(cards, host.value, _apart(cards, host.value))


def _unseen(demand: Demand, reason: str) -> Choice:
    """No card can be seen from here: the site's words go to the runtime as they are."""
    if not demand.selectors:
        return Choice()
    warning = f"the cards {', '.join(demand.selectors)} ({demand.chosen_by}) are taken as written: {reason}"
    return Choice(ids=demand.selectors, whole=False, warnings=(warning,))


def _selected(slug: str, demand: Demand, host: Sequence[Gpu]) -> Choice:
    found = dict(_resolved(slug, demand, host))
    if demand.count is not None and len(found) < demand.count:
        why = f"{demand.chosen_by} names {counted(len(found), 'card')} and {demand.origin}, which needs {demand.count}"
        raise UnfitGpus(slug=slug, why=why, how=f"choose {counted(demand.count, 'card')}")
    idle = len(found) - demand.count if demand.count is not None else 0
    stay = counted(idle, "of the chosen cards stays", "of the chosen cards stay")
    warnings = (f"{stay} idle: {demand.origin}",) if idle > 0 else ()
    uuids = tuple(found)
    return Choice(uuids, uuids, set(uuids) == {gpu.uuid for gpu in host}, (), warnings, _archs(found.values()))


def _resolved(slug: str, demand: Demand, host: Sequence[Gpu]) -> Iterator[tuple[str, Gpu]]:
    for selector in demand.selectors:
        found = find(selector, host)
        if found is None:
            there = ", ".join(f"{gpu.index} ({gpu.uuid})" for gpu in host) or "none"
            how = "name cards by index, UUID or PCI address, as nvidia-smi -L lists them"
            raise UnfitGpus(slug=slug, why=f"{demand.chosen_by} names {selector}; this host has {there}", how=how)
        yield found


def find(selector: str, host: Sequence[Gpu]) -> tuple[str, Gpu] | None:
    """A card by index, UUID (or an unmistakable beginning of it) or PCI address; a MIG slice by its UUID."""
    if selector.isdecimal():
        return next(((gpu.uuid, gpu) for gpu in host if gpu.index == int(selector)), None)
    if _PCI.fullmatch(selector):
        return next(((gpu.uuid, gpu) for gpu in host if _pci(gpu.pci) == _pci(selector)), None)
    named = ((uuid, gpu) for gpu in host for uuid in (gpu.uuid, *(one.uuid for one in gpu.slices)))
    found = [(uuid, gpu) for uuid, gpu in named if uuid.startswith(selector)]
    return found[0] if len(found) == 1 else None


def _pci(address: str) -> str:
    """Domains are written with four or eight digits, or left out where they are 0."""
    domain, _, rest = address.lower().rpartition(":")[0].rpartition(":")
    return f"{int(domain or '0', 16):x}:{rest}:{address.lower().rpartition(':')[2]}"


def _chosen(cards: Sequence[Gpu], host: Sequence[Gpu], warnings: tuple[str, ...]) -> Choice:
    uuids = tuple(gpu.uuid for gpu in cards if gpu.uuid)  # a card that never answered has none
    return Choice(uuids, uuids, len(cards) == len(host), (), warnings, _archs(cards))


def _archs(cards: Iterable[Gpu]) -> tuple[str, ...]:
    known = [gpu.compute_capability for gpu in cards]
    return tuple(str(one.value) for one in known if isinstance(one, Known))


def _apart(cards: Sequence[Gpu], host: Sequence[Gpu]) -> tuple[str, ...]:
    left = [f"{gpu.index} ({gpu.name})" for gpu in host if gpu not in cards]
    return (f"left out, since they are not what the recipe names: card {', '.join(left)}",) if left else ()


def _question(demand: Demand, cards: Sequence[Gpu]) -> Missing:
    names = "; ".join(f"{gpu.index} {gpu.name} {gpu.uuid}" for gpu in cards)
    example = ",".join(str(gpu.index) for gpu in cards[: demand.count])
    needed = counted(demand.count or 0, "is needed", "are needed")
    why = f"{counted(len(cards), 'card fits', 'cards fit')} and {needed} ({demand.origin}): {names}"
    return Missing("gpus", why, f"--set gpus={example}, or gpus: [{example.replace(',', ', ')}] in agent.yaml")


def _fits(gpu: Gpu, needs: Sequence[Requirement]) -> bool:
    """Whether a card is of the kind that is asked for; what cannot be read does not speak against it."""
    wanted = {need.id: need.need for need in needs}
    memory, capability = wanted.get("gpu.memory"), wanted.get("gpu.architecture")
    total = gpu.memory_total.value if isinstance(gpu.memory_total, Known) else None
    if isinstance(memory, Bytes) and total is not None and total < memory * (1 - NOMINAL):
        return False
    if isinstance(capability, str) and isinstance(gpu.compute_capability, Known):
        majors = {int(word.split(".")[0]) for word in re.findall(r"\d+\.\d", capability)}
        return not majors or gpu.compute_capability.value.major in majors
    return True
