"""Verifications beside a fleet: two at once, cancelled at bad moments, an engine that goes away, a full disk."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from agent.action.operation import VERIFY, Operation
from agent.action.record import Deployment, State
from agent.action.store import Event, Store, StoreTrouble
from agent.adapters.http_probe import HttpProbe
from agent.clock import Instant
from agent.daemon.fleet import Fleet
from agent.daemon.rounds import SCHEDULE
from agent.daemon.verification import Means, NotVerifiable, Verifier, VerifyTerms
from agent.daemon.verifyreport import MOST_EARLIER, ratios_of, verified_of
from agent.engines.model import EngineKind, EngineLaunch, Request
from agent.errors import NotFound
from agent.plan.model import Claim
from agent.samples.port import Endpoint
from agent.verify.plausible import Limits
from agent.verify.trace import Trace
from tests.metrics.boards import PLAN

pytestmark = pytest.mark.timeout(60)

SLUG = "small"
CLAIM = Claim("decode_tok_s", 100.0, 1, None, False, "perf_points[0]")
LAUNCH = EngineLaunch(EngineKind.VLLM, port=1)


class Notes:
    """Operations and events in memory; `full` refuses to write."""

    def __init__(self) -> None:
        self.kept: dict[str, Operation] = {}
        self.events: list[Event] = []
        self.full = False
        self.slow = 0.0

    async def save_operation(self, operation: Operation) -> None:
        await asyncio.sleep(self.slow)
        if self.full:
            raise StoreTrouble("the disk is full")
        self.kept[operation.id] = operation

    async def operation(self, name: str) -> Operation | None:
        return self.kept.get(name)

    async def operations(self, *_: Any, **__: Any) -> list[Operation]:
        return [one for one in self.kept.values() if not one.over]

    async def add_event(self, event: Event) -> Event:
        self.events.append(event)
        return event


class Streams:
    """An engine of 100 tokens a second, or one that answers when a test says so."""

    def __init__(self) -> None:
        self.pace = 100
        self.open = 0
        self.begun = asyncio.Event()
        self.go = asyncio.Event()
        self.go.set()

    async def trace(self, at: Endpoint, request: Request, timeout_s: float) -> Trace:
        self.open += 1
        self.begun.set()
        try:
            await self.go.wait()
        finally:
            self.open -= 1
        asked = int((request.body or {})["max_tokens"])
        return Trace(0.0, tuple(number / self.pace for number in range(1, asked + 1)), asked, 512)

    async def close(self) -> None:
        return


class Stage:
    def __init__(self, folder: Path) -> None:
        self.record = Deployment(SLUG, PLAN.plan_id, state=State.READY, container="c1", generation=2)
        plan = replace(PLAN, recipe=replace(PLAN.recipe, slug=SLUG), claims=(CLAIM,), engine=LAUNCH)
        at = Endpoint("127.0.0.1", 9, "sk-secret-key-1234567890")
        self.loop = SimpleNamespace(record=self.record, plan=plan, endpoint=at, kv_tokens=None, gone=False)
        self.boards = {SLUG: SimpleNamespace(plan=plan, record=self.record)}
        self.notes, self.streams, self.told = Notes(), Streams(), list[Event]()
        fleet = SimpleNamespace(boards=self.boards, loop=lambda _: self.loop, told=self.told.append)
        self.limits: Callable[[Any], Awaitable[Limits]] = self._limits
        self.folder = folder / "verify"
        self.wall = 1_800_000_000.0
        self.probe = HttpProbe()
        self.verifier = Verifier(
            Means(
                fleet=cast(Fleet, fleet),
                store=cast(Store, self.notes),
                clock=self,
                probe=self.probe,
                streams=self.streams,
                limits=lambda plan: self.limits(plan),
                folder=self.folder,
            )
        )

    async def _limits(self, _: Any) -> Limits:
        return Limits(None, None)

    def now(self) -> Instant:
        return Instant(asyncio.get_running_loop().time(), self.wall)

    async def start(self) -> Operation:
        return await self.verifier.start(SLUG, VerifyTerms(quick=True), "a person")

    async def end_of(self, operation: Operation) -> Operation:
        while not self.notes.kept[operation.id].over:
            await asyncio.sleep(0.01)
        return self.notes.kept[operation.id]


@pytest.fixture
async def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stage]:
    monkeypatch.setattr("agent.daemon.verification.STANDING_S", 0.05)
    monkeypatch.setattr("agent.daemon.verification.AGAIN_S", 0.05)
    monkeypatch.setattr("agent.daemon.verification.CLOSE_S", 0.5)
    made = Stage(tmp_path)
    yield made
    made.notes.full = False
    await made.verifier.close()
    await made.probe.close()


async def test_a_report_holds_all_that_makes_it_again_and_no_secret(stage: Stage) -> None:
    ended = await stage.end_of(await stage.start())
    assert (ended.state, ended.error) == ("done", None)
    text = (stage.folder / f"{SLUG}.json").read_text()
    report = json.loads(text)
    method = report["method"]
    assert len(method["seed"]) == 16
    assert (method["repeats"], method["warm_ups"]) == (1, 2)
    assert method["request"]["path"] == "/v1/completions"
    assert method["request"]["body"]["temperature"] == 0
    assert "sk-secret" not in text
    assert stage.verifier.ratios == {(SLUG, "decode c1 decode_tok_s"): pytest.approx(1.0)}


async def test_what_the_last_one_came_to_is_known_of_the_deployed_plan_alone(stage: Stage) -> None:
    """After a restart of the agent too; another plan was not verified."""
    assert stage.verifier.last(SLUG).at is None
    await stage.end_of(await stage.start())
    found = stage.verifier.last(SLUG)
    assert found.at == stage.now().wall
    assert "of what is claimed" in found.text
    again = Stage(stage.folder.parent)
    await again.verifier.recover()
    assert again.verifier.last(SLUG) == found
    again.boards[SLUG].plan = replace(again.boards[SLUG].plan, plan_id="another")
    assert again.verifier.last(SLUG).at is None
    await again.probe.close()


@pytest.mark.parametrize("at", [None, "yesterday", 7, "9999-99-99T00:00:00Z"])
def test_a_report_of_another_form_says_no_time(at: Any) -> None:
    row = {"point": "decode c1", "metric": "decode_tok_s", "ratio": float("nan")}
    assert verified_of({"slug": SLUG, "at": at, "rows": [row]}).at is None
    assert ratios_of({"rows": [row]}) == {}


# ── what is kept ──────────────────────────────────────────────────────────────────────────────────────────────────

MANY = replace(CLAIM, concurrency=9, value=450.0)
"""Beyond what is measured in short."""
FULL, QUICK, SOME = VerifyTerms(), VerifyTerms(quick=True), VerifyTerms(only=("c9",))


async def made(stage: Stage, terms: VerifyTerms, by: str = "a person") -> dict[str, Any]:
    """The newest report after this one."""
    in_the_way = (lambda _slug, _most: "") if by == SCHEDULE else None
    assert (await stage.end_of(await stage.verifier.start(SLUG, terms, by, in_the_way))).state == "done"
    return dict(await stage.verifier.report(SLUG))


def points(report: Mapping[str, Any], key: str = "rows") -> list[str]:
    return [row["point"] for row in report[key]]


@pytest.mark.parametrize(
    ("terms", "by"), [(QUICK, SCHEDULE), (QUICK, "a person"), (SOME, "a person")], ids=["the schedule", "short", "some"]
)
async def test_what_was_measured_in_full_is_kept_beside_what_comes_after(
    stage: Stage, terms: VerifyTerms, by: str
) -> None:
    """Twice: the second comes after one that was not made in full either."""
    stage.loop.plan = replace(stage.loop.plan, claims=(CLAIM, MANY))
    first = await made(stage, FULL)
    for _ in range(2):
        newest = await made(stage, terms, by)
        assert (newest["quick"], newest["by"]) == (terms.quick, by)
        assert newest["last_full"] == first["at"]
        assert await stage.verifier.report(SLUG, full=True) == first
    assert sorted(path.name for path in stage.folder.rglob("*")) == ["full", "small.json", "small.json"]


async def test_the_newest_in_full_takes_the_place_of_the_one_before(stage: Stage) -> None:
    await made(stage, FULL)
    await made(stage, QUICK, SCHEDULE)
    second = await made(stage, FULL, "another person")
    assert second["last_full"] == second["at"]
    assert await stage.verifier.report(SLUG, full=True) == second
    await made(stage, QUICK, SCHEDULE)
    assert await stage.verifier.report(SLUG, full=True) == second


async def test_where_nothing_was_measured_in_full_it_is_said(stage: Stage) -> None:
    assert (await made(stage, QUICK))["last_full"] is None
    with pytest.raises(NotFound, match="none was made in full"):
        await stage.verifier.report(SLUG, full=True)


async def test_a_point_that_is_not_measured_again_keeps_its_measurement_and_says_whose_it_is(stage: Stage) -> None:
    """In the report, in the export, in the sentence and after a restart of the agent."""
    stage.loop.plan = replace(stage.loop.plan, claims=(CLAIM, MANY))
    first = await made(stage, FULL)
    ratios = stage.verifier.ratios
    assert set(ratios) == {(SLUG, "decode c1 decode_tok_s"), (SLUG, "decode c9 decode_tok_s")}
    stage.wall += 3600
    for _ in range(2):
        newest = await made(stage, QUICK, SCHEDULE)
        assert points(newest) == ["decode c1"]
        (kept,) = newest["earlier"]
        assert (kept["point"], kept["repeats"]) == ("decode c9", 3)
        assert (kept["at"], kept["by"], kept["quick"]) == (first["at"], "a person", False)
    assert stage.verifier.ratios == ratios
    assert stage.verifier.last(SLUG).text == (
        "rates are 1.00 to 1.00 of what is claimed, over 1 point; earlier 2.00 to 2.00, over 1 point more"
    )
    again = Stage(stage.folder.parent)
    await again.verifier.recover()
    assert again.verifier.ratios == ratios
    await again.probe.close()


async def test_of_a_point_the_newest_measurement_counts(stage: Stage) -> None:
    """A machine that became slower: what was measured before in full is no excuse."""
    await made(stage, FULL)
    stage.streams.pace = 50
    newest = await made(stage, QUICK, SCHEDULE)
    assert newest["earlier"] == []
    assert stage.verifier.ratios == {(SLUG, "decode c1 decode_tok_s"): pytest.approx(0.5)}


async def test_a_point_that_is_dropped_keeps_what_was_measured_before(stage: Stage) -> None:
    """Nothing was measured this time, and the report says so; what was known is still known."""

    async def slow_cards(_: Any) -> Limits:
        return Limits(flops=1e9, active_parameters=1e9)

    await made(stage, FULL)
    stage.limits = slow_cards
    newest = await made(stage, QUICK, SCHEDULE)
    assert [row["measured"] for row in newest["rows"]] == [None]
    assert points(newest, "earlier") == ["decode c1"]
    assert stage.verifier.ratios == {(SLUG, "decode c1 decode_tok_s"): pytest.approx(1.0)}


async def test_measurements_of_another_plan_are_not_taken_along(stage: Stage) -> None:
    """Its claims, cards and launch may be others; the report in full is there to be read."""
    stage.loop.plan = replace(stage.loop.plan, claims=(CLAIM, MANY))
    first = await made(stage, FULL)
    stage.loop.plan = replace(stage.loop.plan, plan_id="another")
    newest = await made(stage, QUICK, SCHEDULE)
    assert newest["earlier"] == []
    assert await stage.verifier.report(SLUG, full=True) == first


async def test_what_is_taken_along_is_bounded(stage: Stage) -> None:
    """A recipe may claim a hundred thousand points, and a person may ask for each of them by name."""
    before = await made(stage, FULL)
    row = before["rows"][0]
    before["earlier"] = [{**row, "point": f"decode c1 @{number}"} for number in range(10_000)]
    (stage.folder / f"{SLUG}.json").write_text(json.dumps(before))
    newest = await made(stage, QUICK, SCHEDULE)
    assert points(newest, "earlier") == [f"decode c1 @{number}" for number in range(MOST_EARLIER)]


@pytest.mark.parametrize(
    "text", ["", '{"slug": "small", "rows": 5}', '{"slug": "small", "rows": [1, {}], "earlier": 7}']
)
async def test_a_report_that_cannot_be_read_is_no_obstacle_to_the_next(stage: Stage, text: str) -> None:
    stage.folder.mkdir()
    (stage.folder / f"{SLUG}.json").write_text(text)
    assert (await made(stage, QUICK))["earlier"] == []


async def test_without_room_for_the_one_before_the_new_one_is_not_written_over_it(stage: Stage) -> None:
    """Nothing is lost: the newest is told as not kept, the one in full stays where it is."""
    first = await made(stage, FULL)
    (stage.folder / "full").write_text("a file where the folder should be")
    ended = await stage.end_of(await stage.start())
    assert ended.error is not None
    assert "report cannot be written" in ended.error["message"]
    assert await stage.verifier.report(SLUG) == first


# ── beside each other ─────────────────────────────────────────────────────────────────────────────────────────────


async def test_of_two_at_once_one_is_refused(stage: Stage) -> None:
    """Both asked before either was written down: their requests would disturb each other."""
    stage.notes.slow = 0.05
    stage.streams.go.clear()
    found = await asyncio.gather(*(stage.start() for _ in range(5)), return_exceptions=True)
    assert sorted(type(one).__name__ for one in found) == ["NotVerifiable"] * 4 + ["Operation"]
    await stage.verifier.close()


async def test_one_that_cannot_be_written_down_is_not_under_way(stage: Stage) -> None:
    stage.notes.full = True
    with pytest.raises(StoreTrouble):
        await stage.start()
    stage.notes.full = False
    assert (await stage.end_of(await stage.start())).state == "done"


@pytest.mark.parametrize("soon", [True, False], ids=["before its first step", "in its first request"])
async def test_cancelled_it_is_over_and_another_may_begin(stage: Stage, soon: bool) -> None:
    stage.streams.go.clear()
    operation = await stage.start()
    if not soon:
        await stage.streams.begun.wait()
    ended = await stage.verifier.cancel(operation.id)
    assert ended.error is not None
    assert ended.error["code"] == "verify.cancelled"
    assert stage.streams.open == 0
    stage.streams.go.set()
    assert (await stage.end_of(await stage.start())).state == "done"


async def test_cancelled_by_several_it_still_says_its_last_word(stage: Stage) -> None:
    """The second comes while the first is being written down."""
    stage.streams.go.clear()
    operation = await stage.start()
    await stage.streams.begun.wait()
    stage.notes.slow = 0.1
    found = await asyncio.gather(*(stage.verifier.cancel(operation.id) for _ in range(3)))
    assert {one.state for one in found} == {"failed"}
    with pytest.raises(NotFound):
        await stage.verifier.cancel(operation.id)


async def test_who_asked_and_left_does_not_end_it_halfway(stage: Stage) -> None:
    """A caller of cancel that hangs up itself leaves the end to the verification."""
    stage.streams.go.clear()
    operation = await stage.start()
    await stage.streams.begun.wait()
    stage.notes.slow = 0.1
    caller = asyncio.ensure_future(stage.verifier.cancel(operation.id))
    await asyncio.sleep(0.02)
    caller.cancel()
    with suppress(asyncio.CancelledError):
        await caller
    assert (await stage.end_of(operation)).state == "failed"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"generation": 3}, "started anew"),
        ({"state": State.ASLEEP, "why": "it sleeps"}, "asleep meanwhile: it sleeps"),
        ({"state": State.STOPPING}, "stopping meanwhile"),
        ({"state": State.STALLED}, "stalled meanwhile"),
        (None, "removed"),
    ],
    ids=["restarted", "asleep", "stopped", "stalled", "removed"],
)
async def test_an_engine_that_goes_away_ends_it(stage: Stage, change: Mapping[str, Any] | None, why: str) -> None:
    """What comes after is another engine's, and nobody would have warmed it up."""
    stage.streams.go.clear()
    operation = await stage.start()
    await stage.streams.begun.wait()
    stage.loop.gone = change is None
    stage.loop.record = replace(stage.record, **(change or {}))
    ended = await stage.end_of(operation)
    assert ended.error is not None
    assert why in ended.error["message"]
    assert stage.streams.open == 0
    assert not (stage.folder / f"{SLUG}.json").exists()


@pytest.mark.parametrize("state", [State.SUSPECT, State.UNOBSERVABLE, State.BUSY])
async def test_a_suspicion_is_not_its_end(stage: Stage, state: State) -> None:
    """A prefill of minutes is the measurement's own doing."""
    stage.streams.go.clear()
    operation = await stage.start()
    await stage.streams.begun.wait()
    stage.loop.record = replace(stage.record, state=state)
    await asyncio.sleep(0.2)
    stage.streams.go.set()
    assert (await stage.end_of(operation)).state == "done"


async def test_a_report_that_cannot_be_written_is_told_and_nobody_waits_for_ever(stage: Stage) -> None:
    stage.folder.write_text("a file where the folder should be")
    ended = await stage.end_of(await stage.start())
    assert ended.error is not None
    assert "report cannot be written" in ended.error["message"]
    assert stage.verifier.ratios == {}


async def test_limits_that_cannot_be_told_end_it_with_a_reason(stage: Stage) -> None:
    async def breaks(_: Any) -> Limits:
        raise OSError("the card fell off")

    stage.limits = breaks
    ended = await stage.end_of(await stage.start())
    assert ended.error is not None
    assert "the card fell off" in ended.error["message"]


async def test_its_end_is_written_as_soon_as_there_is_room(stage: Stage) -> None:
    operation = await stage.start()
    stage.notes.full = True
    await asyncio.sleep(0.3)
    assert not stage.notes.kept[operation.id].over
    stage.notes.full = False
    assert (await stage.end_of(operation)).state == "done"


async def test_the_agent_s_end_waits_for_no_verification(stage: Stage) -> None:
    stage.streams.go.clear()
    await stage.start()
    await stage.streams.begun.wait()
    stage.notes.full = True
    async with asyncio.timeout(5):
        await stage.verifier.close()
    assert stage.streams.open == 0


async def test_a_report_on_another_plan_says_nothing_about_this_one(stage: Stage) -> None:
    """An upgrade brings other claims: an old ratio would be an alarm about nothing."""
    await stage.end_of(await stage.start())
    assert stage.verifier.ratios
    other = SimpleNamespace(plan=replace(stage.loop.plan, plan_id="another"), record=stage.record)
    stage.boards[SLUG] = other
    assert stage.verifier.ratios == {}
    stage.boards.clear()
    assert stage.verifier.ratios == {}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        "[" * 100_000,
        '{"slug": "small", "rows": 5}',
        '{"slug": "small", "rows": [1, {}, {"ratio": "x"}]}',
    ],
)
async def test_a_report_that_cannot_be_read_does_not_keep_the_agent_from_starting(stage: Stage, text: str) -> None:
    stage.folder.mkdir()
    (stage.folder / f"{SLUG}.json").write_text(text)
    stage.notes.kept["1"] = Operation("1", SLUG, VERIFY, 0.0)
    await stage.verifier.recover()
    assert stage.verifier.ratios == {}
    assert stage.notes.kept["1"].state == "failed"


async def test_claims_of_a_hostile_recipe_are_sorted_at_once(stage: Stage) -> None:
    """A hundred thousand of them: what is measured is bounded, the rest is named as far as anybody reads."""
    claims = [Claim("decode_tok_s", 10.0, 1 + number % 300, 1000 + number, False, "x") for number in range(100_000)]
    stage.loop.plan = replace(stage.loop.plan, claims=tuple(claims))
    began = asyncio.get_running_loop().time()
    stage.streams.go.clear()
    await stage.start()
    assert asyncio.get_running_loop().time() - began < 8.0
    await stage.verifier.close()
    stage.loop.plan = replace(stage.loop.plan, claims=(replace(CLAIM, concurrency=10**6),))
    with pytest.raises(NotVerifiable, match="at most 512 requests"):
        await stage.start()


async def test_a_word_of_no_point_names_those_that_there_are(stage: Stage) -> None:
    """Beside a good one too: who asks for a point means one that is there."""
    for words in (("nosuch",), ("c1", "nosuch")):
        with pytest.raises(NotVerifiable, match="no point has 'nosuch' in its name: there is decode c1"):
            await stage.verifier.start(SLUG, VerifyTerms(only=words), "a person")
    many = tuple(replace(CLAIM, concurrency=number + 1) for number in range(60))
    stage.loop.plan = replace(stage.loop.plan, claims=many)
    with pytest.raises(NotVerifiable, match=r"there are decode c1, .*decode c20 and 40 more"):
        await stage.verifier.start(SLUG, VerifyTerms(only=("nosuch",)), "a person")


# ── one that nobody waits for ─────────────────────────────────────────────────────────────────────────────────────


async def test_it_gives_way_as_soon_as_it_is_told_why(stage: Stage) -> None:
    """Its requests are hung up, and the operation says for whom."""
    stage.streams.go.clear()
    why = ""
    operation = await stage.verifier.start(SLUG, VerifyTerms(quick=True), "schedule", lambda _slug, _most: why)
    await stage.streams.begun.wait()
    why = "somebody uses it: 9 requests run"
    ended = await stage.end_of(operation)
    assert ended.error is not None
    assert ended.error["code"] == "verify.gave_way"
    assert "somebody uses it" in ended.error["message"]
    assert stage.streams.open == 0


async def test_a_person_goes_before_the_schedule(stage: Stage) -> None:
    """Who asks while the schedule measures is not refused: the schedule's ends, theirs begins."""
    stage.streams.go.clear()
    first = await stage.verifier.start(SLUG, VerifyTerms(quick=True), "schedule", lambda _slug, _most: "")
    await stage.streams.begun.wait()
    second = await stage.start()
    ended = stage.notes.kept[first.id]
    assert ended.error is not None
    assert ended.error["code"] == "verify.gave_way"
    stage.streams.go.set()
    assert (await stage.end_of(second)).state == "done"


async def test_the_schedule_never_ends_what_a_person_asked_for(stage: Stage) -> None:
    stage.streams.go.clear()
    operation = await stage.start()
    await stage.streams.begun.wait()
    with pytest.raises(NotVerifiable, match="under way"):
        await stage.verifier.start(SLUG, VerifyTerms(quick=True), "schedule", lambda _slug, _most: "")
    await stage.verifier.make_room("the site file has no schedule for it any more")
    stage.streams.go.set()
    assert (await stage.end_of(operation)).state == "done"
