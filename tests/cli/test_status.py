"""What `agentctl status SLUG` says of one deployment."""

from __future__ import annotations

import html
import re
from typing import Any

import pytest

from agent.action.record import State
from agent.api.view.deployment import deployment
from agent.cli.detail import detail
from tests.metrics.boards import board

ONE: dict[str, Any] = {
    "slug": "one", "why": "ready, nothing runs", "step": "starts generation 2", "generation": 2, "container": "a" * 64,
    "runtime": "docker", "plan_id": "p1", "restarts": 1, "restart_budget": 2, "incident": None, "accepted": [],
    "blind": [], "figures": {},
}  # fmt: skip


def rows(**changes: Any) -> dict[str, str]:
    lines = [line.strip() for line in detail(ONE | changes)]
    return {label: text.strip() for label, _, text in (line.partition("  ") for line in lines)}


@pytest.mark.parametrize(
    ("name", "value", "label", "text"),
    [
        ("requests_running", 3.0, "requests running", "3"),
        ("generation_tokens", 1234567.0, "generation tokens, since its start", "1,234,567"),
        ("kv_cache_usage_ratio", 0.0003690848053756116, "KV cache in use", "0.0%"),
        ("decode_tokens_per_second", 75.05640441426074, "tokens a second", "75.1"),
        ("spec_decode_acceptance_ratio", 0.38432, "drafts accepted", "38%"),
        ("seconds_since_progress", {"0": 3.2}, "silent for", "3 s"),
        ("seconds_since_progress", {"0": 0.4, "1": 61.0}, "silent for", "0 s (engine 0), 61 s (engine 1)"),
        ("requests_running", None, "requests running", "unknown"),
        ("seconds_since_progress", None, "silent for", "unknown"),
        ("startup_left_seconds", 5.6, "start-up left, about", "6 s"),
        ("some_new_figure", 7, "some new figure", "7"),
    ],
)
def test_a_figure_has_its_unit_and_no_more_digits_than_it_is_worth(
    name: str, value: Any, label: str, text: str
) -> None:
    assert rows(figures={name: value})[label] == text


def test_a_step_that_is_the_reason_is_not_said_twice() -> None:
    assert rows()["last step"] == "starts generation 2"
    assert "last step" not in rows(step=ONE["why"])


def test_a_step_that_is_not_known_yet_is_not_said() -> None:
    """A person has just asked for another mode."""
    assert "last step" not in rows(step="")


def test_terminal_and_page_say_the_same_words() -> None:
    """Of one board: what is a `zombie` in the API, the metrics and the README is one everywhere."""
    figures = {"zombie_requests": 2.0, "client_connections": 1.0, "decode_tokens_per_second": 5.0}
    shown = board("one", State.ZOMBIE, **figures)
    page = html.unescape(re.sub("<[^>]*>", " ", str(deployment(shown, (), (), shown.at))))
    terminal = rows(figures=figures, blind=["connections"])
    for words in ("zombie requests", "client connections", "tokens a second"):
        assert words in terminal
        assert words in page.lower()
    assert terminal["cannot see"] in page


@pytest.mark.parametrize(
    ("verification", "expect"),
    [
        ({"at": "T", "text": "rates are 0.98", "next": None}, {"verified": "T: rates are 0.98"}),
        ({"at": None, "text": "", "next": "N"}, {"verified next": "N, if nobody uses it then"}),
        ({"at": None, "text": "", "next": None}, {}),
        (None, {}),
    ],
)
def test_a_verification_is_said_where_there_was_one_and_where_one_is_to_come(
    verification: dict[str, Any] | None, expect: dict[str, str]
) -> None:
    """An agent of an earlier version says nothing of it."""
    found = rows(verification=verification)
    assert {label: text for label, text in found.items() if label.startswith("verified")} == expect


def test_what_cannot_be_seen_is_said_in_words() -> None:
    assert rows(blind=["connections", "new_signal"])["cannot see"] == "its clients' connections; new signal"


def test_the_evidence_of_a_fault_is_a_command_to_copy() -> None:
    assert rows(incident="I1")["evidence"] == "agentctl incidents show I1"


@pytest.mark.parametrize(("runtime", "thing"), [("docker", "container"), ("process", "process")])
def test_what_runs_is_called_by_its_name(runtime: str, thing: str) -> None:
    assert rows(runtime=runtime)["generation"] == f"2, {thing} {'a' * 12}"
