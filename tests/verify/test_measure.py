"""Against an engine whose rates are known."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from agent.adapters.http_probe import HttpProbe
from agent.adapters.http_stream import HttpStreams
from agent.engines.model import EngineKind, EngineLaunch
from agent.engines.registry import dialect_of
from agent.samples.port import Endpoint
from agent.verify.measure import Bench, GaveWay, measure
from agent.verify.plausible import Limits
from agent.verify.points import Point
from tests.lab.simulator.harness import Simulator, start, until

pytestmark = pytest.mark.slow


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[tuple[Bench, Simulator]]:
    probe, streams = HttpProbe(), HttpStreams()
    with start(tmp_path, SIM_SCALE="1", SIM_START_S="1", SIM_BOOT_S="0.1", SIM_DECODE_TOK_S="40") as sim:
        yield (
            Bench(
                probe=probe,
                streams=streams,
                endpoint=Endpoint("127.0.0.1", sim.port),
                engine=EngineLaunch(EngineKind.VLLM, port=sim.port, metrics="/metrics"),
                dialect=dialect_of(EngineKind.VLLM),
                limits=Limits(None, None),
                repeats=1,
                say=lambda _: None,
                seed="test",
            ),
            sim,
        )
    await probe.close()
    await streams.close()


async def test_measured_is_what_the_engine_does(bench: tuple[Bench, Simulator]) -> None:
    """A stream of 40 tokens a second and a prefill of 4,064 come out as that, less what a busy machine loses."""
    decode, prefill = await measure(bench[0], [Point("decode", 1, None, 200, 80), Point("prefill", 1, 4000, 3990, 4)])
    assert 20.0 <= decode.figures["decode_tok_s"].value <= 42.0
    assert 2000.0 <= prefill.figures["prefill_tok_s"].value <= 4300.0


async def test_foreign_traffic_drops_the_point(bench: tuple[Bench, Simulator], monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody else is served all the time: no number at all, and the reason."""
    monkeypatch.setattr("agent.verify.measure.QUIET_S", 2.0)
    made, sim = bench
    from agent.engines.model import Request

    body = {"prompt": "others", "max_tokens": 4000, "ignore_eos": True, "stream": True}
    other = asyncio.create_task(made.streams.trace(made.endpoint, Request("/v1/completions", "POST", body), 60.0))
    assert await asyncio.to_thread(until, lambda: sim.running() == 1.0, 20.0)
    (found,) = await measure(made, [Point("decode", 1, None, 100, 20)])
    other.cancel()
    await asyncio.gather(other, return_exceptions=True)
    assert found.figures == {}
    assert "others are served" in found.dropped


async def test_what_nobody_waits_for_ends_when_somebody_is_served(bench: tuple[Bench, Simulator]) -> None:
    """At once in the middle of its requests, and before them; none of its own is left."""
    made, sim = bench
    from agent.engines.model import Request

    task = asyncio.create_task(measure(replace(made, yields=True), [Point("decode", 2, None, 100, 4000)]))
    assert await asyncio.to_thread(until, lambda: sim.running() == 2.0, 20.0)
    body = {"prompt": "others", "max_tokens": 4000, "ignore_eos": True, "stream": True}
    other = asyncio.create_task(made.streams.trace(made.endpoint, Request("/v1/completions", "POST", body), 60.0))
    with pytest.raises(GaveWay, match="others are served"):
        await asyncio.wait_for(task, 15.0)
    assert await asyncio.to_thread(until, lambda: sim.running() == 1.0, 5.0)
    with pytest.raises(GaveWay, match="others are served"):
        await asyncio.wait_for(measure(replace(made, yields=True), [Point("decode", 1, None, 100, 20)]), 15.0)
    other.cancel()
    await asyncio.gather(other, return_exceptions=True)


async def test_cancelling_leaves_no_request_behind(bench: tuple[Bench, Simulator]) -> None:
    """Every stream is hung up, and the engine frees its requests."""
    made, sim = bench
    task = asyncio.create_task(measure(made, [Point("decode", 3, None, 100, 4000)]))
    assert await asyncio.to_thread(until, lambda: sim.running() == 3.0, 20.0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert await asyncio.to_thread(until, lambda: sim.running() == 0.0, 10.0)
