"""The scheduler's rules, which vLLM's metrics show: chunks, tokens, blocks, cache, preemption."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.lab.simulator.blocks import BlockPool
from tests.lab.simulator.scheduler import Scheduler
from tests.lab.simulator.sequences import Rates, Request


def scheduler(blocks: int = 1000, **more: float) -> Scheduler:
    """Chunks of 100 tokens, blocks of 10; 1000 tokens/s of prefill, 50 tokens/s of decode."""
    rates = {"batch_tokens": 100, "max_running": 4, "spec_tokens": 0, "spec_accept": 0.0, **more}
    return Scheduler(
        Rates(
            prefill_tok_s=1000,
            decode_tok_s=50,
            batch_cost=0.5,
            block_size=10,
            batch_tokens=int(rates["batch_tokens"]),
            max_running=int(rates["max_running"]),
            spec_tokens=int(rates["spec_tokens"]),
            spec_accept=rates["spec_accept"],
        ),
        BlockPool(blocks),
    )


def step(engine: Scheduler) -> float:
    """One step; its length in seconds."""
    plan = engine.plan(0.0)
    assert plan is not None
    engine.finish(plan, 0.0)
    return plan.seconds


def test_a_prefill_tells_nothing_but_its_blocks_until_the_first_token() -> None:
    engine = scheduler()
    engine.add(Request("a", prompt=250, max_tokens=5))
    used = []
    for _ in range(2):
        step(engine)
        used.append(engine.pool.used)
    assert used == [10, 20]
    assert (engine.report.outputs, engine.report.iterations, engine.report.steps) == ([], [], 2)
    step(engine)
    assert [(o.tokens, o.first) for o in engine.report.outputs] == [(1, True)]
    assert engine.report.iterations == [251]


def test_steps_last_as_long_as_their_tokens() -> None:
    engine = scheduler()
    engine.add(Request("a", prompt=150, max_tokens=5))
    assert [step(engine) for _ in range(3)] == [0.1, 0.05, 0.02]


def test_more_streams_make_a_step_longer_but_not_by_as_much() -> None:
    engine = scheduler()
    for name in "abc":
        engine.add(Request(name, prompt=10, max_tokens=50))
    step(engine)
    assert step(engine) == 0.04


def test_a_request_ends_at_its_limit_and_leaves_no_block() -> None:
    engine = scheduler()
    engine.add(Request("a", prompt=10, max_tokens=3))
    engine.add(Request("b", prompt=10, max_tokens=30, stops_at=2))
    for _ in range(3):
        step(engine)
    assert {o.id: o.reason for o in engine.report.outputs if o.reason} == {"a": "length", "b": "stop"}
    assert (engine.pool.used, engine.running, engine.plan(0.0)) == (0, [], None)


def test_no_more_run_than_may() -> None:
    engine = scheduler(max_running=2)
    for name in "abc":
        engine.add(Request(name, prompt=10, max_tokens=3))
    step(engine)
    assert (len(engine.running), len(engine.waiting)) == (2, 1)


def test_a_long_prefill_takes_the_whole_budget_so_a_short_prompt_waits() -> None:
    engine = scheduler()
    engine.add(Request("long", prompt=1000, max_tokens=3))
    step(engine)
    engine.add(Request("canary", prompt=1, max_tokens=1))
    for _ in range(8):
        step(engine)
    assert engine.report.outputs == []
    assert len(engine.waiting) == 1


def test_a_known_prefix_is_not_computed_again() -> None:
    engine = scheduler()
    hashes = tuple(range(10))
    engine.add(Request("a", prompt=100, max_tokens=1, hashes=hashes))
    step(engine)
    engine.add(Request("b", prompt=100, max_tokens=1, hashes=hashes))
    assert step(engine) == 0.01
    assert (engine.report.queries, engine.report.hits) == (200, 90)
    assert engine.pool.used == 0


def test_too_large_a_request_waits_for_ever() -> None:
    engine = scheduler(blocks=5)
    engine.add(Request("a", prompt=60, max_tokens=1))
    assert engine.plan(0.0) is None
    assert len(engine.waiting) == 1


def test_the_youngest_is_put_back_when_blocks_run_out() -> None:
    engine = scheduler(blocks=5)
    engine.add(Request("old", prompt=20, max_tokens=30))
    engine.add(Request("young", prompt=20, max_tokens=30))
    while not engine.report.preempted:
        step(engine)
    assert [r.id for r in engine.waiting] == ["young"]
    while engine.running or engine.waiting:
        step(engine)
    done = [o for o in engine.report.outputs if o.reason]
    assert [(o.id, o.preemptions > 0) for o in done] == [("old", False), ("young", True)]
    assert engine.pool.used == 0


def test_drafts_make_steps_yield_more_than_one_token() -> None:
    engine = scheduler(spec_tokens=3, spec_accept=1.0)
    engine.add(Request("a", prompt=10, max_tokens=9))
    for _ in range(3):
        step(engine)
    assert [o.tokens for o in engine.report.outputs] == [1, 4, 4]
    assert (engine.report.drafts, engine.report.accepted) == (2, [3, 3])


def test_a_held_request_keeps_its_blocks_and_gets_no_step() -> None:
    engine = scheduler()
    engine.add(Request("a", prompt=50, max_tokens=30))
    step(engine)
    engine.running[0].held = True
    assert engine.plan(0.0) is None
    assert (len(engine.running), engine.pool.used) == (1, 5)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.tuples(st.integers(1, 80), st.integers(1, 30), st.integers(0, 3)), min_size=1, max_size=12),
    st.integers(12, 60),
)
def test_every_request_ends_and_every_block_comes_back(asked: list[tuple[int, int, int]], blocks: int) -> None:
    engine = scheduler(blocks=blocks, spec_tokens=2, spec_accept=0.5)
    for number, (prompt, tokens, family) in enumerate(asked):
        hashes = tuple((family, place).__hash__() for place in range(prompt // 10))
        engine.add(Request(str(number), prompt, min(tokens, 110 - prompt), hashes))
    for _ in range(5000):
        if not engine.running and not engine.waiting:
            break
        step(engine)
        assert 0 <= engine.pool.used <= blocks
    done = {o.id: 0 for o in engine.report.outputs if o.reason}
    assert len(done) == len(asked)
    assert engine.pool.used == 0
