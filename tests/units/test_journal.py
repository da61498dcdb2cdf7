"""The agent's log in a real journal: fields to search by, one entry a fact, priorities, and no secret."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from tests.lab.systemd import Machine
from tests.units.hosted import HOME, SECRET, SLUG, engine_pid, interpreter, ready, until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.docker,
    pytest.mark.systemd,
    pytest.mark.usefixtures("systemd_tools"),
    pytest.mark.timeout(240),
]

SAYS = f"""
import logging
from agent.daemon import log
log.set_up("info", "auto")
logging.getLogger("asyncio").warning("a task took %.1f s", 2.5)
logging.getLogger("asyncio").warning("not %d", "a number")
raise ValueError("the service said no to {SECRET}")
"""
Entry = dict[str, str]


def journal(machine: Machine, *words: str) -> list[Entry]:
    """Entries as `journalctl` finds them, oldest first."""
    out = machine.run("journalctl", "--no-pager", "--output", "json", "--all", *words)
    return [json.loads(line) for line in out.splitlines()]


def since(machine: Machine) -> str:
    """A cursor behind what is there."""
    out = machine.run("journalctl", "--no-pager", "--lines", "1", "--output", "json")
    return str(json.loads(out)["__CURSOR"])


@pytest.fixture(scope="module")
def entries(machine: Machine) -> list[Entry]:
    """What the agent says while an engine is deployed, dies, is started again and removed."""
    machine.run("systemctl", "start", "recipe-agent")
    before = since(machine)
    machine.run("agentctl", "deploy", SLUG, "--yes", "--wait")
    engine = engine_pid(machine)
    machine.run("kill", "-9", engine)
    assert until(lambda: engine_pid(machine) not in ("", engine) and ready(machine))
    machine.run("agentctl", "remove", SLUG)
    machine.run("journalctl", "--sync")
    return journal(machine, "--after-cursor", before, "_SYSTEMD_UNIT=recipe-agent.service")


def operations(entries: list[Entry]) -> list[str]:
    """Ids of what was asked, in order."""
    return [one["RECIPE_AGENT_OPERATION"] for one in entries if one["RECIPE_AGENT_EVENT"] == "asked"]


def test_every_entry_has_its_facts_in_fields_of_their_own(entries: list[Entry]) -> None:
    """Through the journal's own socket, and nothing a second time as a line of text."""
    assert len(entries) > 10
    assert {one["_TRANSPORT"] for one in entries} == {"journal"}
    assert {one["SYSLOG_IDENTIFIER"] for one in entries} == {"recipe-agent"}
    assert all(one["RECIPE_AGENT_EVENT"] for one in entries)
    about = [one for one in entries if one.get("RECIPE_AGENT_RECIPE") == SLUG]
    assert {one["RECIPE_AGENT_EVENT"] for one in about} >= {"asked", "tick"}
    assert all({"RECIPE_AGENT_STATE", "RECIPE_AGENT_STEP"} <= set(one) for one in about if "tick" in one["MESSAGE"])


def test_an_operation_is_found_by_its_id(machine: Machine, entries: list[Entry]) -> None:
    """`journalctl RECIPE_AGENT_OPERATION=…` is its whole story, and nothing of what the agent did by itself."""
    deploy, remove = operations(entries)
    steps = [one.get("RECIPE_AGENT_STEP") for one in journal(machine, f"RECIPE_AGENT_OPERATION={deploy}")]
    assert steps == [None, "Preflight", "PrepareImage", "Create", "Start"]
    assert {"Signal", "Remove"} <= {
        one.get("RECIPE_AGENT_STEP") for one in journal(machine, f"RECIPE_AGENT_OPERATION={remove}")
    }
    assert any("RECIPE_AGENT_OPERATION" not in one for one in entries if one["RECIPE_AGENT_EVENT"] == "tick")


def test_each_fact_is_one_entry(entries: list[Entry]) -> None:
    """No two say the same within a generation's life, which is counted by its start."""
    lives = Counter(one.get("RECIPE_AGENT_STEP") for one in entries)
    assert lives["Create"] == lives["Start"] == 2
    told = Counter(one["MESSAGE"] for one in entries if "generation" in one["MESSAGE"])
    assert [text for text, times in told.items() if times > 1] == []


def test_priorities_tell_what_went_wrong_from_what_went_on(entries: list[Entry]) -> None:
    """`journalctl -p warning` has the death of the engine, and none of the steps."""
    loud = [one for one in entries if int(one["PRIORITY"]) <= 4]
    assert "dead" in {one.get("RECIPE_AGENT_STATE") for one in loud}
    quiet = [one for one in entries if int(one["PRIORITY"]) > 4]
    assert {one["PRIORITY"] for one in quiet} == {"6"}
    assert {"Create", "Start", "Remove"} <= {one.get("RECIPE_AGENT_STEP") for one in quiet}
    assert "asked" not in {one["RECIPE_AGENT_EVENT"] for one in loud}


def test_no_secret_and_no_line_of_an_engine_is_in_it(machine: Machine, entries: list[Entry]) -> None:
    """The engine's output is in its own log; the journal is read by more people."""
    whole = machine.run("journalctl", "--no-pager", "--output", "export")
    assert (SECRET in whole, "Uvicorn running" in whole) == (False, False)


def test_libraries_and_crashes_come_the_same_way(machine: Machine) -> None:
    """One entry each, with its priority and its traceback in a field; one that cannot be made costs only itself."""
    paths = f"PYTHONPATH={HOME}/checkout:{HOME}/packages"
    unit = ("systemd-run", "--quiet", "--wait", "--unit=says", f"--setenv={paths}")
    machine.run(*unit, interpreter(machine), "-c", SAYS, check=False)
    machine.run("journalctl", "--sync")
    warned, crashed = journal(machine, "_SYSTEMD_UNIT=says.service", "_TRANSPORT=journal")
    assert (warned["PRIORITY"], warned["RECIPE_AGENT_EVENT"]) == ("4", "a task took 2.5 s")
    assert warned["RECIPE_AGENT_LOGGER"] == "asyncio"
    assert (crashed["PRIORITY"], crashed["RECIPE_AGENT_EVENT"]) == ("2", "crashed")
    assert "Traceback" in crashed["RECIPE_AGENT_EXCEPTION"]
    assert "ValueError: the service said no to [removed]" in crashed["RECIPE_AGENT_EXCEPTION"]


def test_an_agent_that_cannot_start_says_why_as_an_error(machine: Machine) -> None:
    """Before there is a log; with what to do in the same entry."""
    machine.run("systemd-run", "--quiet", "--wait", "--unit=refused", "recipe-agent", "--config=/no/such", check=False)
    machine.run("journalctl", "--sync")
    (said,) = journal(machine, "_SYSTEMD_UNIT=refused.service")
    assert said["PRIORITY"] == "3"
    assert said["MESSAGE"].startswith("error: ")
    assert "; hint: " in said["MESSAGE"]
