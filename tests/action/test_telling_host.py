"""A host on which no engine can be started any more is told while the engines still run."""

from __future__ import annotations

from agent.action.store import Event
from agent.action.telling import Digest, Manners, Weight

MANNERS = Manners("rig", group_s=10.0, repeat_s=3600.0)
SKEW = "the kernel runs driver 610.57.04 and the library on disk is 610.60: no engine starts before a reboot"


def host(slug: str) -> Event:
    return Event(1.0, slug, "host", SKEW)


def test_it_is_one_message_for_all_deployments_that_it_concerns() -> None:
    digest = Digest()
    for slug in ("a", "b", "c"):
        digest.see(host(slug), 100.0, MANNERS)
    message = digest.take(111.0, MANNERS)
    assert message is not None
    assert message.weight is Weight.CRITICAL
    assert message.body.count(SKEW) == 1
    assert digest.take(500.0, MANNERS) is None


def test_it_is_told_again_only_after_a_while() -> None:
    digest = Digest()
    digest.see(host("a"), 100.0, MANNERS)
    digest.take(111.0, MANNERS)
    digest.see(host("a"), 1000.0, MANNERS)
    assert digest.take(1100.0, MANNERS) is None
    digest.see(host("a"), 4000.0, MANNERS)
    assert digest.take(4011.0, MANNERS) is not None
