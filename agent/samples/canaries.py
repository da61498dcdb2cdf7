"""What becomes of the requests for one token, and whether the data-parallel rank that one names answers it (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from agent.engines.model import number_of
from agent.samples.marks import Canaries, RankMark
from agent.samples.model import Canary, Sample

TELLS_S = 30.0
"""So long after an answer the counters tell whose it was: SGLang's idle ranks write theirs every 30 s."""


def fold_canaries(
    before: Canaries, sample: Sample, ranks: Mapping[str, RankMark], *, idle: bool, proved: bool, excused: bool
) -> Canaries:
    """`ranks` are those after this sample. `idle`: nothing ran when it was taken; `proved`: the engine showed since the
    last one that it lives; `excused`: nothing can be expected of it now.

    Strikes of a rank that was asked by its name are cleared by that rank's own progress: the others go on beside one
    that hangs.
    """
    at = sample.at
    if before.aims and before.rank:
        proved = any(mark.progressed is at for mark in named(ranks, before.rank))
    after = replace(before, strikes=0) if proved or excused else before
    if sample.canary is not None:
        after = fold_answer(after, sample.canary, sample)
    after = replace(after, aims=aims(after, sample, ranks))
    if sample.canary_out and before.out is None:
        return replace(after, out=at, asked_idle=idle)
    return replace(after, out=before.out if sample.canary_out else None)


def fold_answer(before: Canaries, canary: Canary, sample: Sample) -> Canaries:
    at = sample.at
    ended = replace(before, ended=at, took=canary.seconds, rank=canary.rank, unfit="")
    if canary.token:
        return replace(ended, token=at, strikes=0)
    if canary.refused_us and canary.rank:  # perhaps it does not know the rank; without one it may take the question
        return replace(ended, aims=False)
    if canary.refused_us:
        return replace(ended, unfit=canary.why)
    strikes = before.strikes + 1 if canary.rank == before.rank or not before.aims else 1
    return replace(ended, strikes=strikes, struck=at, struck_after=canary.seconds, struck_why=canary.why)


def aims(canaries: Canaries, sample: Sample, ranks: Mapping[str, RankMark]) -> bool | None:
    """By the last answer that named a rank in a moment when nothing else ran: the one rank that moved gave it.

    A version that does not know the header gives the question to any rank. Where several moved, or none yet, nothing
    is concluded.
    """
    token = canaries.token
    if canaries.aims is not None or not canaries.rank or token is None or token is not canaries.ended:
        return canaries.aims
    if sample.at - token > TELLS_S or any(mark.last.work for mark in ranks.values()):
        return None
    asked = token.mono - canaries.took
    moved = {mark.last.number for mark in ranks.values() if mark.progressed.mono >= asked}
    return moved == {canaries.rank} if len(moved) == 1 else None


def named(ranks: Mapping[str, RankMark], number: str) -> tuple[RankMark, ...]:
    """The schedulers of this data-parallel rank."""
    return tuple(mark for name, mark in ranks.items() if number_of(name) == number)
