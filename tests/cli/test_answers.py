"""Commands that show what the agent answered: told once, whole, and with what to do next."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from agent.cli import deploy, events, incidents, output, upgrade
from agent.cli.main import main, parser_for, settle

Answers = dict[str, Any]


class Agent:
    """An agent that answers each path with what stands here; an exception is raised."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers

    def get(self, path: str) -> Any:
        found = self._answers[path.partition("?")[0]]
        if isinstance(found, BaseException):
            raise found
        return found

    def call(self, _method: str, path: str, _body: Any) -> Any:
        return self.get(path)

    def events(self, _path: str) -> Iterator[Any]:
        return iter(())


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Answers:
    known: Answers = {}
    for module in (deploy, events, incidents, upgrade):
        monkeypatch.setattr(module, "connect", lambda _arguments: Agent(known))
    return known


def event(kind: str, text: str, slug: str = "one", **data: str) -> dict[str, Any]:
    return {"at": "T", "slug": slug, "kind": kind, "text": text, "data": data, "seq": 1}


def test_a_step_that_says_no_more_than_its_state_is_told_once(
    answers: Answers, capsys: pytest.CaptureFixture[str]
) -> None:
    answers["/v1/events"] = [
        event("state", "creates generation 1", to="starting"),
        event("step", "creates generation 1", slug="other"),
        event("step", "creates generation 1"),
        event("step", "starts generation 1"),
    ]
    assert main(["events"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "T  one  starting: creates generation 1",
        "T  other  step: creates generation 1",
        "T  one  step: starts generation 1",
    ]


@pytest.mark.parametrize("word", ["show", "export"])
def test_incidents_that_lack_an_id_are_a_wrong_call(word: str, answers: Answers) -> None:
    answers["/v1/incidents"] = []
    assert main(["incidents", word]) == 2


def test_each_incident_is_its_id_and_why(answers: Answers, capsys: pytest.CaptureFixture[str]) -> None:
    answers["/v1/incidents"] = [{"id": "I1", "kind": "busy", "at": "T", "why": "nothing moved", "slug": "one"}]
    assert main(["incidents", "one"]) == 0
    assert capsys.readouterr().out == "I1\n  busy at T: nothing moved\n"


def test_no_incident_is_said_of_whom(answers: Answers, capsys: pytest.CaptureFixture[str]) -> None:
    answers["/v1/incidents"] = []
    assert main(["incidents", "one"]) == 0
    assert capsys.readouterr().out == "no incidents are kept of one\n"


def test_whoever_stops_looking_is_told_that_the_agent_goes_on(
    answers: Answers, capsys: pytest.CaptureFixture[str]
) -> None:
    answers["/v1/deployments/one"] = {"plan_id": "p1", "state": "ready"}
    answers["/v1/deployments/one/upgrade"] = {"state": "running", "id": "O1", "progress": {}, "error": None}
    answers["/v1/operations/O1"] = KeyboardInterrupt()
    assert main(["upgrade", "one"]) == 130
    assert capsys.readouterr().err.splitlines()[-1] == (
        "the agent goes on: agentctl status one; to end it: agentctl stop one"
    )


def test_a_deploy_that_asks_nobody_still_warns(answers: Answers, capsys: pytest.CaptureFixture[str]) -> None:
    answers["/v1/plans"] = {"plan_id": "p1", "missing": [], "warnings": ["the pinned one is used"]}
    answers["/v1/deployments"] = KeyboardInterrupt()
    assert main(["deploy", "one", "--yes"]) == 130
    assert capsys.readouterr().err == "warning: the pinned one is used\n"


def progress(*words: str) -> output.Progress:
    parser = parser_for("deploy")
    deploy.add_arguments(parser)
    arguments = parser.parse_args(["one", *words])
    settle(arguments)
    return output.Progress(arguments)


def test_a_log_is_told_of_each_step_and_not_of_each_second(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown, clock = progress(), [0.0]
    monkeypatch.setattr("agent.cli.output.time.monotonic", lambda: clock[0])
    for second in range(65):
        clock[0] = float(second)
        shown.show(f"loads, {second} s", step="load")
    shown.show("compiles, 65 s", step="compile")
    assert capsys.readouterr().err.splitlines() == ["loads, 0 s", "loads, 30 s", "loads, 60 s", "compiles, 65 s"]


def test_progress_says_nothing_where_json_is_wanted(capsys: pytest.CaptureFixture[str]) -> None:
    progress("-o", "json").show("loads", step="load")
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("state", "plan", "said"),
    [("ready", "p1", "nothing changes: one has this plan already\n"), ("failed", "p1", ""), ("ready", "p2", "")],
    ids=["the same plan", "the same plan, started again", "another plan"],
)
def test_an_upgrade_that_changes_nothing_says_so(
    answers: Answers, capsys: pytest.CaptureFixture[str], state: str, plan: str, said: str
) -> None:
    one = {"slug": "one", "state": state, "plan_id": "p1", "why": "w", "since": "T", "endpoint": None}
    answers["/v1/deployments/one"] = one | {"supervision": "active"}
    answers["/v1/deployments/one/upgrade"] = {"id": "1", "slug": "one", "plan_id": plan, "state": "done", "error": None}
    assert main(["upgrade", "one"]) == 0
    assert capsys.readouterr().err == said


def test_a_recipe_after_wait_is_told_where_to_stand(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["deploy", "--wait", "one"]) == 2
    assert "'one' is no number of seconds; --wait alone stands after the recipe" in capsys.readouterr().err
