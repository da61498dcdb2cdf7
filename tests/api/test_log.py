"""The agent's log: one line a fact, with its deployment and operation, at a priority that the journal understands."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from agent.adapters.journal import Journal, field, is_journal
from agent.daemon.log import Hiding, ToJournal, sentence
from agent.incident.veil import Veil
from tests.api.conftest import open_rig
from tests.e2e import recipes
from tests.e2e.rig import Rig
from tests.lab.children import free_port

SAYS = """
import asyncio, logging, sys
from agent.daemon import log
import structlog
log.set_up("info", sys.argv[1])
structlog.get_logger().debug("unseen")
structlog.get_logger().warning("seen", token="hf_ABCDEFGHIJKLMNOP", recipe="a")
logging.getLogger("asyncio").error("of a library")
log.set_level("debug")
structlog.get_logger().debug("seen later")
try:
    raise ValueError("why, said https://user:hunter2hunter2@registry and HF_TOKEN=hf_ABCDEFGHIJKLMNOP")
except ValueError:
    structlog.get_logger().exception("broke")
"""


def said(form: str, environ: dict[str, str] | None = None) -> list[str]:
    """The lines that a process with this log writes to stderr, which is a pipe."""
    reader, writer = os.pipe()
    found = os.fstat(writer)
    environment = {**os.environ, **(environ or {})}
    if environment.get("JOURNAL_STREAM") == "this":
        environment["JOURNAL_STREAM"] = f"{found.st_dev}:{found.st_ino}"
    with open(reader) as lines:
        subprocess.run([sys.executable, "-c", SAYS, form], stderr=writer, env=environment, check=True)
        os.close(writer)
        return lines.read().splitlines()


def test_lines_are_json_in_a_pipe_and_levels_change_while_it_runs() -> None:
    lines = [json.loads(line) for line in said("auto")]
    assert [line["event"] for line in lines] == ["seen", "of a library", "seen later", "broke"]
    assert [line["level"] for line in lines] == ["warning", "error", "debug", "error"]
    assert lines[0]["token"] == "[removed]"
    assert "ValueError: why" in lines[3]["exception"]


def test_under_the_service_manager_each_line_begins_with_its_priority() -> None:
    """For a journal whose own socket is not there (a container), or where JSON was asked for."""
    lines = said("json", {"JOURNAL_STREAM": "this"})
    assert [line[:3] for line in lines] == ["<4>", "<3>", "<7>", "<3>"]
    assert json.loads(lines[0][3:])["recipe"] == "a"


def test_another_processs_journal_is_not_ours() -> None:
    assert said("json", {"JOURNAL_STREAM": "1:2"})[0].startswith("{")
    assert not is_journal(99, {"JOURNAL_STREAM": "1:2"})


def test_text_is_for_people() -> None:
    lines = said("text")
    assert "[warning" in lines[0]
    assert "[removed]" in lines[0]


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_traceback_is_written_without_the_secrets_in_its_words(form: str) -> None:
    told = "\n".join(said(form))
    assert "ValueError: why, said" in told
    assert "hf_ABCDEFGHIJKLMNOP" not in told
    assert "hunter2" not in told


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[tuple[Journal, socket.socket]]:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    listener.bind(str(tmp_path / "journal"))
    listener.settimeout(5)
    sender = Journal(str(tmp_path / "journal"))
    yield sender, listener
    sender.close()
    listener.close()


def fields_of(datagram: bytes) -> dict[str, str]:
    """The native protocol, read back."""
    found, at = {}, 0
    while at < len(datagram):
        end = datagram.index(b"\n", at)
        name, equals, value = datagram[at:end].partition(b"=")
        at = end + 1
        if not equals:
            size = int.from_bytes(datagram[at : at + 8], "little")
            value = datagram[at + 8 : at + 8 + size]
            at += 8 + size + 1
        found[name.decode()] = value.decode()
    return found


def test_the_journal_gets_fields_and_a_sentence(journal: tuple[Journal, socket.socket]) -> None:
    sender, listener = journal
    event = {"event": "tick", "why": "it stalls\nfor long", "recipe": "sim", "level": "warning", "count": 3}
    ToJournal(sender).warning(event)
    found = fields_of(listener.recv(65536))
    assert found == {
        "MESSAGE": "tick: it stalls\nfor long recipe=sim count=3",
        "PRIORITY": "4",
        "SYSLOG_IDENTIFIER": "recipe-agent",
        "RECIPE_AGENT_EVENT": "tick",
        "RECIPE_AGENT_WHY": "it stalls\nfor long",
        "RECIPE_AGENT_RECIPE": "sim",
        "RECIPE_AGENT_COUNT": "3",
    }


def test_a_journal_that_hangs_costs_lines_and_says_how_many(journal: tuple[Journal, socket.socket]) -> None:
    sender, listener = journal
    for number in range(500):
        sender.send(f"line {number}", 6, {})
    assert sender.dropped > 0
    dropped = sender.dropped
    while sender.dropped:
        listener.recv(65536)
        sender.send("after", 6, {})
    listener.setblocking(False)
    messages = []
    while True:
        try:
            messages.append(fields_of(listener.recv(65536)))
        except BlockingIOError:
            break
    assert messages[-1] == {**messages[-1], "MESSAGE": "after", "RECIPE_AGENT_DROPPED": str(dropped)}


def test_a_huge_value_is_cut_and_odd_names_are_mended(journal: tuple[Journal, socket.socket]) -> None:
    sender, listener = journal
    sender.send("m", 6, {"odd-name.é": "x" * 1_000_000})
    found = fields_of(listener.recv(1 << 20))
    assert len(found["RECIPE_AGENT_ODD_NAME__"]) == 48 * 1024
    assert field("A", "\ud800") == b"A=?\n"


def test_what_is_known_is_hidden_whatever_its_name() -> None:
    veil = Veil()
    veil.learn("correct-horse-battery")
    event = Hiding(veil)(None, "info", {"event": "said correct-horse-battery", "list": ["a correct-horse-battery"]})
    assert event == {"event": "said [removed]", "list": ["a [removed]"]}
    assert sentence({"event": "only"}) == "only"


def test_an_exception_keeps_its_traceback_for_the_renderer() -> None:
    error = ValueError("x")
    assert Hiding(Veil())(None, "error", {"event": "e", "exc_info": error})["exc_info"] is error


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Rig]:
    rig = open_rig(tmp_path)
    rig.site["logs"] = {"form": "json", "level": "debug"}
    try:
        rig.start()
        yield rig
    finally:
        rig.close()


def lines_of(rig: Rig) -> list[dict[str, Any]]:
    """Whole ones: the daemon writes on meanwhile."""
    return [json.loads(line) for line in rig.log.read_text().rpartition("\n")[0].splitlines()]


def test_lines_are_found_by_deployment_and_operation(own: Rig) -> None:
    own.publish(recipes.recipe("sim", free_port()), recipes.profile())
    own.ok("deploy", "sim", "--yes", "-q", "--wait=60")
    own.ok("stop", "sim", "-q")
    deploy, stop = own.api("/v1/operations")
    lines = lines_of(own)
    about = [line for line in lines if line.get("recipe") == "sim"]
    by = {one["id"]: [line for line in about if line.get("operation") == one["id"]] for one in (deploy, stop)}
    assert [line["event"] for line in by[deploy["id"]]][:1] == ["asked"]
    steps = [line["step"] for line in by[deploy["id"]] if line["event"] == "tick"]
    assert {"Preflight", "Create", "Start"} <= set(steps)
    assert {"Signal", "Remove"} <= {line.get("step") for line in by[stop["id"]]}
    ticks = [line for line in about if line["event"] == "tick" and line["state"] == "ready"]
    assert ticks
    assert not [line for line in ticks if line.get("operation") == deploy["id"]], "it was over by then"


def test_each_fact_is_told_once(own: Rig) -> None:
    own.publish(recipes.recipe("sim", free_port()), recipes.profile())
    own.ok("deploy", "sim", "--yes", "-q", "--wait=60")
    own.ok("remove", "sim", "-q")
    told = [json.dumps({k: v for k, v in line.items() if k != "timestamp"}) for line in lines_of(own)]
    assert not [one for one, after in pairwise(told) if one == after]
    moves = [json.loads(line) for line in told if '"state": "' in line]
    assert len([line for line in moves if line["level"] == "info"]) < 25, "a whole life is a page, not a book"
