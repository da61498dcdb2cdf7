"""All checks run side by side; none raises, none outlasts its deadline, none is left out in silence."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from typing import Any

import pytest

from agent.errors import UsageError
from agent.plan.model import Requirement
from agent.preflight import catalogue
from agent.preflight.case import Case
from agent.preflight.catalogue import AFTER_STOP, CHECKS, ON_REQUEST, known
from agent.preflight.check import Answer, Check, bad, good, unknown
from agent.preflight.model import Level, passed
from agent.preflight.run import only, run
from agent.quantity import Bytes
from tests.preflight.build import HANGS, WITH_GPUS, FakeFacts, case, driver, need


async def never(_: Case) -> Answer:
    await asyncio.Event().wait()
    raise AssertionError


async def breaks(_: Case) -> Answer:
    raise KeyError("x")


async def fine(_: Case) -> Answer:
    return good("fine")


async def test_a_check_that_hangs_costs_its_own_answer_only() -> None:
    findings = await run(case(), [Check("slow", "", never, deadline_s=0.01), Check("quick", "", fine)])
    assert [(one.check, one.level) for one in findings] == [("slow", Level.UNKNOWN), ("quick", Level.PASS)]
    assert "no answer within 0.01 s" in findings[0].found


@pytest.mark.parametrize("where", ["look", "applies"])
async def test_a_check_that_breaks_is_unknown_and_says_how(where: str) -> None:
    def refuse(_: Case) -> bool:
        raise KeyError("x")

    check = Check("broken", "", breaks) if where == "look" else Check("broken", "", fine, refuse)
    findings = await run(case(), [check, Check("quick", "", fine)])
    assert [one.level for one in findings] == [Level.UNKNOWN, Level.PASS]
    assert "KeyError" in findings[0].found


async def test_checks_run_side_by_side() -> None:
    """Each waits for the other: one after the other would never end."""
    met = asyncio.Barrier(2)

    async def meet(_: Case) -> Answer:
        await met.wait()
        return good("met")

    findings = await run(case(), [Check("a", "", meet, deadline_s=5), Check("b", "", meet, deadline_s=5)])
    assert [one.found for one in findings] == ["met", "met"]


async def test_need_and_origin_come_from_the_plan() -> None:
    async def short(_: Case) -> Answer:
        return bad("too little")

    asked = case(None, need("x", Bytes.gib(200), "host RAM available"))
    finding = (await run(asked, [Check("x", "", short)]))[0]
    assert finding.need == "200 GiB"
    assert finding.origin == "profile requirements (recipe config.runtime.notes): “host RAM available”"


async def test_words_that_the_origin_quotes_are_not_said_twice() -> None:
    async def short(_: Case) -> Answer:
        return bad("too little")

    stated = Requirement("x", 1, "profile x (recipe notes: RAM ≥200 GB)", "RAM ≥200 GB; pinned 189 GiB")
    finding = (await run(case(None, stated), [Check("x", "", short)]))[0]
    assert finding.origin == "profile x (recipe notes: RAM ≥200 GB): “pinned 189 GiB”"


async def test_unknown_refuses_only_where_it_is_required() -> None:
    async def dark(_: Case) -> Answer:
        return unknown("no right to look")

    optional = await run(case(), [Check("x", "", dark)])
    required = await run(case(), [Check("x", "", dark, required=True)])
    stated = await run(case(None, need("x", 1)), [Check("x", "", dark)])
    assert [passed(found) for found in (optional, required, stated)] == [True, False, False]


async def test_a_requirement_that_nothing_answers_is_unknown_and_refuses() -> None:
    findings = await run(case(None, need("moon.phase", 1)), [])
    assert [(one.check, one.level, one.refuses) for one in findings] == [("moon.phase", Level.UNKNOWN, True)]


async def test_accepting_a_check_lets_it_pass() -> None:
    findings = await run(case(None, need("moon.phase", 1)), [])
    assert passed(findings, frozenset({"moon.phase"}))


async def test_a_healthy_host_passes_everything() -> None:
    asked = case(
        None,
        need("gpu.count", 4),
        need("gpu.memory", Bytes.gib(64)),
        need("gpu.architecture", "sm_80"),
        need("memory.available", Bytes.gib(200)),
        need("driver.version", "610.57.04"),
        host={**WITH_GPUS, "IpcMode": "private", "ShmSize": 16 << 30},
    )
    findings = await run(asked)
    assert {one.check: one.found for one in findings if one.level is not Level.PASS} == {}
    assert len(findings) > 15


async def test_a_host_that_answers_nothing_passes_nothing_in_silence() -> None:
    """Every source hangs: what is required refuses, and nothing is called good but what needs no source."""
    dark = {name: HANGS for name in vars(FakeFacts()) if name not in ("drivers", "processes", "listening", "disks")}
    dark |= {"paths": {}, "folders": {}, "contents": {}}
    facts = FakeFacts(drivers=driver(HANGS, HANGS, HANGS, HANGS), **dark)
    findings = await run(case(facts, need("memory.available", Bytes.gib(1)), host=WITH_GPUS))
    assert {one.check for one in findings if one.level is Level.PASS} <= {"port.free", "disk.free", "binds"}
    assert not passed(findings)


def test_every_check_has_its_own_id_and_a_row_in_the_table() -> None:
    ids = [check.id for check in (*CHECKS, *ON_REQUEST)]
    rows = re.findall(r"^\| `([a-z._]+)` \|", catalogue.__doc__ or "", re.MULTILINE)
    assert len(set(ids)) == len(ids)
    assert rows == ids


def test_what_is_checked_again_after_a_stop_exists() -> None:
    assert {check.id for check in only(AFTER_STOP)} == AFTER_STOP


def test_a_check_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        CHECKS[0].id = "other"  # type: ignore[misc]
    assert replace(CHECKS[0], id="other").id == "other"


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: str(check.id))
async def test_no_check_raises_on_an_odd_plan(check: Any) -> None:
    """A body of nulls, as JSON may hold them."""
    odd = case(
        None,
        *(need(one.id, Bytes(1)) for one in CHECKS),
        host={"Binds": None, "Mounts": None, "Ulimits": None, "DeviceRequests": None, "PortBindings": None},
        body={"Cmd": None, "Entrypoint": None, "User": None},
    )
    findings = await run(odd, [check])
    assert not any("the check itself failed" in one.found for one in findings)


@pytest.mark.parametrize(("name", "advice"), [("gpu.bussy", "did you mean gpu.busy?"), ("zzz", "names them all")])
def test_a_name_that_is_no_check_is_a_slip(name: str, advice: str) -> None:
    known(["gpu.busy", "gpu.touch", "weights.hash"])
    with pytest.raises(UsageError) as caught:
        known(["gpu.busy", name])
    assert advice in caught.value.advice
