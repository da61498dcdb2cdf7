"""A request that the engine will never take is named, and nothing is done about it."""

from __future__ import annotations

from agent.verdict.kinds import FAULT_KINDS, SUSPECT_REASONS, Kind
from agent.verdict.model import Judged
from tests.verdict import scenarios as s
from tests.verdict.series import Script, Series, World, faults


def waits_alone(*, served: bool) -> Script:
    """One request waits from 100 s on while nothing runs; a canary gets its token, or does not."""

    def script(world: World, at: float) -> None:
        if at < 100:
            s.decode(world, at)
            return
        world.rank.running, world.rank.waiting, world.rank.kv, world.clients = 0, 1, 0.0, 1
        world.canary = lambda asked: 0.5 if served else None

    return script


def test_it_is_named_while_the_engine_serves_others() -> None:
    """Suspected with its reason and left alone, for hours."""
    ticks = Series(waits_alone(served=True), 4000).play()
    assert faults(ticks) == []
    named = [tick for tick in ticks if tick.verdict.kind == Kind.UNADMITTED]
    assert named
    assert named[-1].verdict.state is Judged.SUSPECT
    assert "a restart does not help" in named[-1].verdict.why


def test_an_engine_that_serves_nobody_is_no_such_case() -> None:
    """The same gauges without a token for anybody are a stall."""
    ticks = Series(waits_alone(served=False), 1500).play()
    assert not [tick for tick in ticks if tick.verdict.kind == Kind.UNADMITTED]
    assert faults(ticks)


def test_it_is_counted_and_never_acted_on() -> None:
    """A reason to be suspected, no kind of fault."""
    assert Kind.UNADMITTED in SUSPECT_REASONS
    assert Kind.UNADMITTED not in FAULT_KINDS
