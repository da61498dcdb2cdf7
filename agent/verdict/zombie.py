"""Do requests run that nobody waits for?"""

from __future__ import annotations

from itertools import pairwise

from agent.clock import Instant
from agent.engines.model import EngineReading
from agent.quantity import counted
from agent.samples.model import Connections, Sample
from agent.verdict.case import Case
from agent.verdict.figures import reading_total
from agent.verdict.kinds import Kind
from agent.verdict.model import Judged, Remedy, Verdict


def judge(case: Case) -> Verdict | None:
    """With no established connection on the engine's own port in looks a minute apart, whatever runs lost its client.

    Before anything is done a canary is asked and the gauges are read again: a core that aborted everything and made no
    step since shows gauges of long ago, and one step brings them down. Requests that are still there after it, or that
    keep the canary from its token, are real. With connections left, running beyond them is only a suspicion: `n > 1`
    and lists of prompts run several requests on one connection, and an idle keep-alive connection looks like a client.
    """
    if stale := stale_gauge(case):
        return stale
    since = case.marks.clients.clientless
    if (
        since is None
        or not case.scraped
        or not case.clients_trusted
        or not isinstance(case.last.connections, Connections)
    ):
        return None
    return alone(case, since)


def stale_gauge(case: Case) -> Verdict | None:
    at = case.marks.clients.stale_gauge
    if at is None or at.mono != case.now.mono:
        return None
    return Verdict(
        Judged.READY,
        "the requests that nobody waited for were stale gauges: one canary's step brought them down",
        kind=Kind.STALE_GAUGE,
    )


def alone(case: Case, since: Instant) -> Verdict | None:
    """Nobody has been connected since then while requests run."""
    seconds = case.now - since
    by_design = case.traits.resumes or detached(case, since)  # nobody needs to be there while it goes on
    awaited = by_design and goes_on(case, since)
    if seconds < case.watch.zombie.value or awaited or not settled(case, since):
        return wondering(case, since, seconds)
    burning = tokens_made(case, since) and not by_design
    count = case.work or 0.0
    what = "tokens are still made for them" if burning else "they make no progress and hold the cache"
    return Verdict(
        Judged.ZOMBIE,
        f"{counted(count, 'request has', 'requests have')} run for {seconds:.0f} s with no client connected; {what}",
        kind=Kind.ZOMBIE_BURNING if burning else Kind.ZOMBIE_HELD,
        remedy=Remedy.ABORT,
        evidence=evidence(case, since),
        figures={"zombie_requests": count, "zombie_kv_tokens": held_tokens(case)},
    )


def wondering(case: Case, since: Instant, seconds: float) -> Verdict | None:
    """Not yet, or not settled: half-way through the window a canary is asked, so that the gauges are read again."""
    if seconds < case.watch.zombie.value / 2:
        return None
    return Verdict(
        Judged.SUSPECT,
        f"{counted(case.work or 0, 'request runs', 'requests run')} and nobody has been connected for {seconds:.0f} s"
        + ("; a response that was asked for in the background needs nobody" if detached(case, since) else ""),
        kind=Kind.ZOMBIE_BURNING if tokens_made(case, since) else Kind.ZOMBIE_HELD,
        wants_canary=case.may_ask and not asked(case, since),
    )


def detached(case: Case, since: Instant) -> bool:
    """What runs may have asked to run on without a client: one that may was answered while it ran, or nobody was
    connected already when the agent began to look, and what was asked before that is not known."""
    if not case.traits.detaches:
        return False
    from_the_start = case.marks.since is not None and since.mono <= case.marks.since.mono
    return case.marks.clients.detached is not None or from_the_start


def goes_on(case: Case, since: Instant) -> bool:
    """More often than not something moved from look to look of late; a canary's one step is not enough for that."""
    scrapes = [sample.scrape for sample in lately(case, since)]
    seen = [[dict(rank.progress) for rank in scrape.ranks] for scrape in scrapes if isinstance(scrape, EngineReading)]
    moved = [before != after for before, after in pairwise(seen)]
    return len(moved) >= 2 and 2 * sum(moved) > len(moved)


def lately(case: Case, since: Instant) -> list[Sample]:
    """Samples since then, of one window of zombies at most: what was long ago tells nothing of now."""
    begin = max(since.mono, case.now.mono - case.watch.zombie.value)
    return [sample for sample in case.window.samples if sample.at.mono >= begin]


def asked(case: Case, since: Instant) -> bool:
    """A canary is under way, or ended, since nobody was connected."""
    canaries = case.marks.canaries
    return any(mark is not None and mark.mono > since.mono for mark in (canaries.out, canaries.ended))


def settled(case: Case, since: Instant) -> bool:
    """A canary has shown that the requests are real: they are still there after its token (gauges read later than
    that), or it cannot get one. Tokens made without a client show it without a canary."""
    canaries = case.marks.canaries
    if canaries.token is not None and since.mono < canaries.token.mono < case.now.mono:
        return True
    if case.compiling and not tokens_made(case, since):
        return False  # the step that compilers hold up is the one that would free them
    if canaries.out is not None and canaries.out.mono > since.mono:
        return case.now - canaries.out >= min(case.watch.period.value, case.watch.zombie.value / 4)
    return case.struck_since(since) or (bool(canaries.unfit) and tokens_made(case, since))


def tokens_made(case: Case, since: Instant) -> bool:
    """More tokens than a canary's one were generated of late."""
    known = [
        value for sample in lately(case, since) if (value := reading_total(sample, "generation_tokens")) is not None
    ]
    return len(known) >= 2 and known[-1] - known[0] > 1


def evidence(case: Case, since: Instant) -> tuple[str, ...]:
    """What settled it, and sockets whose client has gone without the server's notice."""
    canaries, connections = case.marks.canaries, case.last.connections
    found = []
    if canaries.token is not None and canaries.token.mono > since.mono:
        found.append("still there after a canary was answered and the gauges were read again")
    elif canaries.out is not None:
        found.append(f"a canary has waited for {case.now - canaries.out:.0f} s")
    elif case.struck_since(since):
        found.append(f"a canary got no token: {canaries.struck_why}")
    if isinstance(connections, Connections) and connections.close_wait:
        found.append(f"{connections.close_wait} sockets in CLOSE_WAIT: clients that have gone unnoticed")
    return tuple(found)


def held_tokens(case: Case) -> float:
    """KV tokens that live work holds: the fullest use × the capacity, 0 where either is not exported."""
    uses = [mark.last.kv_usage for mark in case.marks.ranks.values() if mark.last.kv_usage is not None]
    scrape = case.last.scrape
    capacity = scrape.kv_tokens if isinstance(scrape, EngineReading) else None
    return sum(uses) / len(uses) * capacity if uses and capacity else 0.0


def outnumbered(case: Case) -> Verdict | None:
    """More requests than clients, for as long as it takes to call it more than a disconnect: a suspicion, no more."""
    since, clients, work = case.marks.clients.outnumbered, case.clients, case.work
    if (
        since is None
        or clients is None
        or work is None
        or not case.scraped
        or case.now - since < case.watch.zombie.value
    ):
        return None
    held = counted(work, "request runs or waits", "requests run or wait")
    there = counted(clients, "connection")
    return Verdict(
        Judged.SUSPECT,
        f"{held} for {there}: several on one connection, or some lost theirs",
        kind=Kind.ZOMBIE_BURNING if tokens_made(case, since) else Kind.ZOMBIE_HELD,
        figures={"zombie_requests": max(0.0, work - clients)},
    )
