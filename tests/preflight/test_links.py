"""PCIe links against their own best, by what they did at work."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agent.adapters.preflight_facts_links import LinkFile
from agent.clock import SystemClock
from agent.host.links import Link, from_json, same_links, seen, to_json
from agent.host.reading import Known, Unknown
from agent.preflight.checks import gpu_link
from agent.preflight.facts import Boot
from agent.preflight.model import Level
from tests.preflight.build import NOW, WITH_GPUS, FakeFacts, card, case, known


def link(width: int, generation: int, utilization: float = 0.0, index: int = 0) -> Any:
    return card(index, pcie_width=width, pcie_generation=generation, utilization=utilization)


def test_the_best_is_kept_and_idle_says_nothing_about_work() -> None:
    links = seen({}, [link(16, 4, 0.9)], 10.0)
    links = seen(links, [link(16, 1)], 20.0)
    assert links == {"GPU-0": Link(16, 4, 16, 4, 10.0)}
    assert not links["GPU-0"].lessened


def test_less_at_work_than_before_is_seen() -> None:
    links = seen({"GPU-0": Link(16, 4, 16, 4, 10.0)}, [link(4, 4, 0.9)], 30.0)
    assert links["GPU-0"].lessened
    assert not seen(links, [link(16, 4, 0.9)], 40.0)["GPU-0"].lessened


def test_a_card_that_does_not_tell_stays_as_it_was() -> None:
    kept = {"GPU-0": Link(16, 4)}
    assert seen(kept, [card(0, pcie_width=Unknown("lost"))], 1.0) == kept


def test_only_news_are_worth_writing() -> None:
    assert same_links({"a": Link(16, 4, 16, 4, 1.0)}, {"a": Link(16, 4, 16, 4, 2.0)})
    assert not same_links({"a": Link(16, 4)}, {"a": Link(16, 4, 8, 4, 2.0)})
    assert from_json(to_json({"a": Link(4, 3, 4, 1, 2.5)})) == {"a": Link(4, 3, 4, 1, 2.5)}


LATELY = NOW.wall - 60


@pytest.mark.parametrize(
    ("kept", "now", "level", "says"),
    [
        (Link(16, 4, 16, 4, LATELY), link(16, 1), Level.PASS, "1 of 1 seen at work since the boot"),
        (
            Link(16, 4, 4, 4, LATELY),
            link(4, 1),
            Level.WARN,
            "card 0: PCIe x4 of generation 4 at work, where it had x16",
        ),
        (Link(16, 4, 16, 1, LATELY), link(16, 1), Level.WARN, "x16 of generation 1 at work"),
        (Link(16, 4, 4, 4, NOW.wall - 90_000), link(4, 1), Level.PASS, "0 of 1"),  # of the boot before
        (Link(16, 4), link(8, 4, 0.95), Level.WARN, "x8 of generation 4 at work"),  # now, before the daemon looks
        (Link(4, 3, 4, 3, LATELY), link(4, 3), Level.PASS, "1 of 1"),  # x4 by design
    ],
)
async def test_links_are_held_against_their_own_best(kept: Link, now: Any, level: Level, says: str) -> None:
    facts = FakeFacts(cards=known((now,)), seen_links=known({"GPU-0": kept}), booted=known(Boot(3600.0)))
    answer = await gpu_link.look(case(facts, host=WITH_GPUS))
    assert answer.level is level, answer
    assert says in answer.found


async def test_a_host_that_no_agent_has_watched_yet_passes_and_says_so() -> None:
    answer = await gpu_link.look(case(host=WITH_GPUS))
    assert answer.level is Level.PASS
    assert "no agent has watched" in answer.found


async def test_the_file_is_read_back_and_a_torn_one_is_unknown(tmp_path: Path) -> None:
    file = LinkFile(tmp_path / "state" / "links.json", SystemClock())
    assert isinstance(await file.read(), Unknown)
    await file.write({"GPU-0": Link(16, 5)})
    reading = await file.read()
    assert isinstance(reading, Known)
    assert reading.value == {"GPU-0": Link(16, 5)}
    await asyncio.to_thread((tmp_path / "state" / "links.json").write_text, '{"GPU-0": 3}')
    assert isinstance(await file.read(), Unknown)
