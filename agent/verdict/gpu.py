"""Is a card beyond what a restart can mend?"""

from __future__ import annotations

from agent.samples.fold import cards
from agent.verdict.case import Case
from agent.verdict.kinds import Kind
from agent.verdict.model import Judged, Remedy, Verdict
from agent.verdict.xid import PERSON, RECOVERY_ACTIONS

ACTION_CHANGED = 154
RECENT_S = 15.0


def judge(case: Case) -> Verdict | None:
    """The driver's own recovery action first, then the Xids of this generation, then cards that do not answer.

    Xid 154 only tells that the recovery action has changed: where that can be read it alone is believed. A card that
    NVML does not list for one look may be a hiccup of NVML; one that stays away is lost.
    """
    return recovery(case) or reported(case) or lost(case)


def recovery(case: Case) -> Verdict | None:
    for card in cards(case.last):
        if card.recovery_action:
            word = RECOVERY_ACTIONS.get(card.recovery_action, f"action {card.recovery_action}")
            return person(Kind.RECOVERY_ACTION, f"the driver asks to {word} for {card.uuid}")
    return None


def reported(case: Case) -> Verdict | None:
    actions = {card.uuid: card.recovery_action for card in cards(case.last)}
    for xid in case.marks.xids:
        if xid.number not in PERSON or (xid.number == ACTION_CHANGED and actions.get(xid.uuid) == 0):
            continue
        return person(Kind.XID, f"Xid {xid.number} on {xid.uuid}: {PERSON[xid.number]}", xid.text)
    return None


def lost(case: Case) -> Verdict | None:
    missing = {card.uuid for card in cards(case.last) if card.lost}
    if not missing:
        return None
    tail = case.window.tail(RECENT_S)
    looks = [{card.uuid for card in cards(sample) if card.lost} for sample in tail if cards(sample)]
    away = set.intersection(*looks) if len(looks) > 1 else set()
    if not away:
        return None
    return person(Kind.GPU_LOST, f"the driver has lost {', '.join(sorted(away))}")


def person(kind: Kind, why: str, *evidence: str) -> Verdict:
    found = tuple(line for line in evidence if line)
    return Verdict(Judged.DEAD, why, kind=kind, remedy=Remedy.QUARANTINE, evidence=found)
