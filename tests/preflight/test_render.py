"""Findings for people and for machines."""

from __future__ import annotations

import json

from agent.host.reading import Known
from agent.preflight.model import Finding, Level
from agent.preflight.render import as_json, as_text
from agent.quantity import Bytes
from tests.preflight.build import known

SHORT = Finding(
    check="memory.available",
    level=Level.FAIL,
    found="163 GiB available",
    need="200 GiB available",
    origin="profile requirements: “host RAM available ≥200 GB”",
    hint="63 GiB are locked by pid 4121 (llama-server)",
    details={"bytes": Bytes.gib(163)},
    required=True,
)
DARK = Finding("gpu.count", Level.UNKNOWN, "no card can be read: it hangs", hint="look at the driver", required=True)
ALSO_DARK = Finding("gpu.busy", Level.UNKNOWN, "no card can be read: it hangs", required=True)
OLD = Finding("toolkit", Level.WARN, "the hook alone", hint="use CDI")
GOOD = Finding("shm", Level.PASS, "190 GiB")


def test_failures_stand_first_and_what_passed_takes_one_line() -> None:
    text = as_text((GOOD, OLD, DARK, SHORT, ALSO_DARK))
    assert text.splitlines() == [
        "fail     memory.available  163 GiB available",
        "                           needed: 200 GiB available",
        "                           stated: profile requirements: “host RAM available ≥200 GB”",
        "                           to do:  63 GiB are locked by pid 4121 (llama-server)",
        "unknown  gpu.count, gpu.busy: no card can be read: it hangs",
        "         to do:  look at the driver",
        "warn     toolkit           the hook alone",
        "                           to do:  use CDI",
        "pass     shm",
        "it cannot be deployed: 3 of 5 checks refuse (gpu.count, memory.available, gpu.busy)",
    ]


def test_colour_only_when_told() -> None:
    assert "\x1b[" not in as_text((SHORT, DARK, GOOD))
    assert "\x1b[31mfail" in as_text((SHORT, DARK, GOOD), colour=True)


def test_what_was_accepted_is_said() -> None:
    accepted = frozenset({"memory.available"})
    text = as_text((SHORT, GOOD), accepted)
    assert "163 GiB available  (accepted)" in text
    assert text.endswith("it can be deployed, with memory.available accepted")


def test_json_is_as_the_contract_says() -> None:
    document = as_json((SHORT, GOOD))
    assert document["ok"] is False
    assert list(document["findings"][0]) == ["check", "level", "found", "need", "origin", "hint", "details"]
    assert document["findings"][0]["level"] == "fail"
    assert json.loads(json.dumps(document)) == document


def test_accepted_findings_are_marked_in_json() -> None:
    document = as_json((SHORT, GOOD), frozenset({"memory.available", "shm"}))
    assert document["ok"] is True
    assert [one.get("accepted", False) for one in document["findings"]] == [True, False]


def test_details_of_any_kind_become_json() -> None:
    odd = Finding("x", Level.PASS, "", details={"reading": known(Bytes(5)), "tuple": (1, 2)})
    assert isinstance(odd.details["reading"], Known)
    json.dumps(as_json((odd,)))


def test_on_a_terminal_a_long_sentence_stays_in_its_column() -> None:
    long = Finding("binds", Level.FAIL, "is missing", hint=" ".join(["word"] * 30), required=True)
    lines = as_text((long, DARK), colour=False, columns=80).splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[1].startswith("                to do:  word")
    assert lines[2].startswith("                        word")


def test_elsewhere_it_stays_one_line_for_whoever_searches() -> None:
    long = Finding("binds", Level.FAIL, "is missing", hint=" ".join(["word"] * 30), required=True)
    assert len(as_text((long,)).splitlines()) == 3
