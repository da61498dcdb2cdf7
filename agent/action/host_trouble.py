"""What is wrong with this host or a card of it that no start of an engine can mend (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from agent.host.gpu import Gpu
from agent.host.model import Driver
from agent.host.reading import Known
from agent.verdict.xid import PERSON, RECOVERY_ACTIONS

HOST = ""
"""In place of a card's UUID: it concerns every card."""
SKEW = "driver.skew"
"""The preflight check of the same name, which a person may have overruled."""
ACTION_CHANGED = 154
LOOKS = 2
"""A card that NVML does not answer for in so many looks in a row is lost; one look may be a hiccup."""


@dataclass(frozen=True, slots=True)
class HostTrouble:
    """What was seen so far. `told`: UUID, or HOST, → the sentence, as long as it holds."""

    told: Mapping[str, str] = field(default_factory=dict)
    xids: Mapping[str, str] = field(default_factory=dict)
    away: Mapping[str, int] = field(default_factory=dict)
    """Looks in a row in which a card did not answer."""
    slices: Mapping[str, str] = field(default_factory=dict)
    """UUID of a MIG slice → its card's, as last seen: what ails a card ails all its slices."""

    def of(self, cards: Iterable[str], accepted: Iterable[str] = ()) -> str:
        """The sentences that concern a deployment on `cards`; none without cards."""
        chosen = whole(self, cards)
        keys = (*chosen, *(() if SKEW in accepted or not chosen else (HOST,)))
        return "; ".join(self.told[key] for key in keys if key in self.told)


def noted(trouble: HostTrouble, uuid: str, xid: int) -> HostTrouble:
    """With an Xid, unless a restart can follow it. 154 only tells that the recovery action has changed."""
    if xid not in PERSON or xid == ACTION_CHANGED:
        return trouble
    why = f"Xid {xid} on {uuid}: {PERSON[xid]}"
    return replace(trouble, xids={**trouble.xids, uuid: why}, told={**trouble.told, uuid: why})


def looked(trouble: HostTrouble, cards: Iterable[Gpu], driver: Driver | None) -> HostTrouble:
    """After a look at all cards and the driver."""
    found = tuple(cards)
    away = {gpu.uuid: trouble.away.get(gpu.uuid, 0) + 1 for gpu in found if gpu.lost is not None}
    told = dict(trouble.xids)
    for gpu in found:
        if (why := wrong(gpu, away.get(gpu.uuid, 0))) is not None:
            told[gpu.uuid] = why
    if (skew := skewed(driver)) is not None:
        told[HOST] = skew
    seen = {one.uuid: gpu.uuid for gpu in found for one in gpu.slices}
    kept = {one: card for one, card in trouble.slices.items() if card in away}  # a card that is away shows none
    return replace(trouble, told=told, away=away, slices=kept | seen)


def forgiven(trouble: HostTrouble, cards: Iterable[str]) -> HostTrouble:
    """A person has dealt with the Xids of these cards; what the driver still says comes with the next look."""
    gone = frozenset(whole(trouble, cards))
    xids = {uuid: why for uuid, why in trouble.xids.items() if uuid not in gone}
    return replace(trouble, xids=xids, told={key: why for key, why in trouble.told.items() if key not in gone})


def whole(trouble: HostTrouble, cards: Iterable[str]) -> tuple[str, ...]:
    """The cards that are meant, each once: a MIG slice stands for its card."""
    return tuple(dict.fromkeys(trouble.slices.get(uuid, uuid) for uuid in cards))


def wrong(gpu: Gpu, away: int) -> str | None:
    action = gpu.recovery_action
    if isinstance(action, Known) and int(action.value):
        word = RECOVERY_ACTIONS.get(int(action.value), f"take action {int(action.value)}")
        return f"the driver asks to {word} for {gpu.uuid}"
    if gpu.lost is not None and away >= LOOKS:
        return f"the driver has lost {gpu.uuid}: {gpu.lost}"
    return None


def skewed(driver: Driver | None) -> str | None:
    """After an upgrade without a reboot the next start of anything with CUDA fails, while what runs goes on."""
    if driver is None or not isinstance(driver.kernel_module, Known) or not isinstance(driver.userland, Known):
        return None
    if driver.kernel_module.value == driver.userland.value:
        return None
    kernel, library = driver.kernel_module.value, driver.userland.value
    return f"the kernel runs driver {kernel} and the library on disk is {library}: no engine starts before a reboot"
