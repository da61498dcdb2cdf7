"""What becomes of the requests for one token, and whether the data-parallel rank that one names answers it (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from agent.clock import Instant
from agent.engines.model import number_of
from agent.samples.fold import SETTLED_S
from agent.samples.marks import Canaries, RankMark
from agent.samples.model import Canary, Sample

AGAIN_S = 3600.0
"""After so long a name is tried again that was not answered by its rank: what was refused may have been for another
reason, and a client's request may have been taken for the answer."""

STEPS = 3
"""Steps until an answer, at most: the one under way, its own beside another's next, and one to spare."""

Ranks = Mapping[str, RankMark]


def fold_canaries(
    before: Canaries, sample: Sample, ranks: Ranks, *, idle: bool, proved: Instant | None, excused: bool
) -> Canaries:
    """`ranks` are those after this sample. `idle`: nothing ran when it was taken; `proved`: when the engine last showed
    that it lives; `excused`: nothing can be expected of it now."""
    at = sample.at
    after = replace(before, excused=at if excused else before.excused, moves=moves(before.moves, ranks, at))
    lived = last_life(after, before.rank, ranks, proved)
    if lived is not None and lived.mono >= at.mono:
        after = replace(after, strikes=0)
    if sample.canary is not None:
        after = fold_answer(after, sample.canary, sample, ranks, proved)
    after = learn(after, sample, ranks)
    if not sample.canary_out:
        return replace(after, out=None, calm=not works(ranks), moves={})
    if before.out is None:
        return replace(after, out=at, asked_idle=idle)
    return replace(after, out=before.out)


def fold_answer(before: Canaries, canary: Canary, sample: Sample, ranks: Ranks, proved: Instant | None) -> Canaries:
    """A strike counts where nothing happened since it was asked that would have cleared it: else it would be there
    for the next one, which may be lost an hour later and for another reason."""
    at, asked = sample.at, sample.at.mono - canary.seconds
    own = kept(before) if before.untold else before.own  # whose the one before was is not found out any more
    ended = replace(before, ended=at, took=canary.seconds, rank=canary.rank, unfit="", untold=False, own=own)
    if canary.token:
        return replace(ended, token=at, strikes=0, untold=bool(canary.rank) and before.calm)
    if canary.rank and not canary.timed_out:
        # a core that hangs answers nothing: this is the HTTP side's word, of the number or of the moment
        return ended if canary.status is None else replace(ended, stray=at, own=kept(before))
    if canary.refused_us:
        return replace(ended, unfit=canary.why)
    struck = replace(ended, struck=at, struck_after=canary.seconds, struck_why=canary.why)
    lived = last_life(before, canary.rank, ranks, proved)
    if lived is not None and lived.mono > asked:
        return replace(struck, strikes=0)
    same = canary.rank == before.rank or not before.aims
    if before.aims and canary.rank and held_up(before.moves, ranks, canary.rank):
        return replace(struck, strikes=before.strikes if same else 0)
    return replace(struck, strikes=before.strikes + 1 if same else 1)


def last_life(canaries: Canaries, rank: str, ranks: Ranks, proved: Instant | None) -> Instant | None:
    """When what was asked last showed that it lives, or was excused. A rank that was asked by its name shows it by its
    own progress alone: the others go on beside one that hangs."""
    own = [mark.progressed for mark in named(ranks, rank)] if canaries.aims and rank else [proved]
    known = [instant for instant in (*own, canaries.excused) if instant is not None]
    return max(known, key=lambda instant: instant.mono, default=None)


def moves(before: Mapping[str, int], ranks: Ranks, at: Instant) -> dict[str, int]:
    """At how many looks each rank moved while a question was under way."""
    moved = {mark.last.number for mark in ranks.values() if mark.progressed.mono >= at.mono}
    return {number: before.get(number, 0) + (number in moved) for number in {*before, *moved}}


def held_up(moves: Mapping[str, int], ranks: Ranks, rank: str) -> bool:
    """The others work and made too few steps meanwhile: where ranks share their steps (expert parallel), the question
    waits for the end of theirs. Whether they hang is judged by their own silence."""
    others = {name: mark for name, mark in ranks.items() if number_of(name) != rank}
    return works(others) and max((count for number, count in moves.items() if number != rank), default=0) < STEPS


def learn(canaries: Canaries, sample: Sample, ranks: Ranks) -> Canaries:
    """Whose the last token was that named a rank while nothing ran: of the one rank that moved.

    A version that does not know the header gives the question to any rank. Where several moved, as when clients came
    meanwhile, or none, nothing will be known of it; that another answered is believed once all counters have settled.
    """
    at, token = sample.at, canaries.token
    if canaries.stray is not None and at - canaries.stray >= AGAIN_S:
        canaries = replace(canaries, stray=None)
    if not canaries.untold or token is None:
        return canaries
    asked, late = token.mono - canaries.took, at - token > SETTLED_S
    moved = {mark.last.number for mark in ranks.values() if mark.progressed.mono > asked}
    if moved == {canaries.rank} and not works(ranks):
        return replace(canaries, untold=False, own=kept(canaries) or (*canaries.own, canaries.rank))
    if not late and len(moved) < 2:
        return canaries
    if len(moved) == 1 and not works(ranks) and canaries.rank not in moved:
        return replace(canaries, untold=False, stray=at, own=())
    return replace(canaries, untold=False, own=kept(canaries))


def kept(canaries: Canaries) -> tuple[str, ...]:
    """Those that answered to their numbers, where that is enough; what is not begins anew."""
    return canaries.own if canaries.aims else ()


def works(ranks: Ranks) -> bool:
    return any(mark.last.work for mark in ranks.values())


def named(ranks: Ranks, number: str) -> tuple[RankMark, ...]:
    """The schedulers of this data-parallel rank."""
    return tuple(mark for name, mark in ranks.items() if number_of(name) == number)
