"""Scrape job and alert rules, judged by Prometheus's own tools and held against the metrics that exist."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent.metrics import names, reference
from agent.metrics.render import Exposition
from agent.metrics.snapshot import Snapshot
from tests.lab.place import REPOSITORY
from tests.lab.prometheus import Tools

FOLDER = REPOSITORY / "config" / "prometheus"
FAMILIES = {family.full: family for family in names.FAMILIES}
TARGET_LABELS = {"instance", "job"}


def read(name: str) -> Any:
    """A file of the folder."""
    return yaml.safe_load((FOLDER / name).read_text())


def alerts() -> list[dict[str, Any]]:
    """Every alerting rule."""
    return [rule for group in read("rules.yaml")["groups"] for rule in group["rules"] if "alert" in rule]


def recorded() -> dict[str, str]:
    """Every recording rule: its name and what it is made of."""
    return {rule["record"]: rule["expr"] for group in read("rules.yaml")["groups"] for rule in group["rules"] if
            "record" in rule}  # fmt: skip


def metrics_of(expression: str) -> set[str]:
    """The agent's own metrics that an expression reads, also through recorded ones."""
    for name, made_of in recorded().items():
        expression = expression.replace(name, made_of)
    assert ":" not in re.sub(r'"[^"]*"', "", expression), "a recorded name that nothing records"
    return set(re.findall(r"recipe_agent_\w+", expression))


def labels_of(expression: str) -> set[str]:
    """Those that its series may have."""
    return TARGET_LABELS.union(*(FAMILIES[name].labels for name in metrics_of(expression)))


def anchors(text: str) -> dict[str, str]:
    """Each section of a Markdown text by its anchor, as GitHub makes them of single words."""
    parts = re.split(r"^## (\S+)$", text, flags=re.MULTILINE)
    return {name.lower(): body for name, body in zip(parts[1::2], parts[2::2], strict=True)}


@pytest.mark.prometheus
@pytest.mark.parametrize(
    "words",
    [("check", "config", "scrape.yaml"), ("check", "rules", "rules.yaml"), ("test", "rules", "rules_test.yaml")],
)
def test_promtool_accepts_the_files(prometheus_tools: Tools, words: tuple[str, ...]) -> None:
    """The configuration, the rules, and their behaviour over time."""
    done = prometheus_tools.promtool_run(*words[:2], FOLDER / words[2])
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.prometheus
def test_promtool_would_notice_a_rule_that_does_not_fire(prometheus_tools: Tools, tmp_path: Path) -> None:
    """The tests of the rules can fail: with a threshold that no stall reaches they do."""
    for name in ("rules.yaml", "rules_test.yaml"):
        shutil.copy(FOLDER / name, tmp_path)
    rules = tmp_path / "rules.yaml"
    rules.write_text(rules.read_text().replace("[5m]) > 0", "[5m]) > 9"))
    assert prometheus_tools.promtool_run("test", "rules", tmp_path / "rules_test.yaml").returncode != 0


@pytest.mark.prometheus
def test_promtool_finds_nothing_in_the_metrics(prometheus_tools: Tools) -> None:
    """Names, types and help of all of them."""
    text = Exposition(lambda: Snapshot(version="1.2.3")).text().decode()
    done = prometheus_tools.promtool_run("check", "metrics", stdin=text)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_every_metric_is_shown_and_no_other() -> None:
    """The list of names is what a scrape has, also with no deployment."""
    text = Exposition(lambda: Snapshot(version="1.2.3")).text().decode()
    assert set(re.findall(r"^# TYPE (\S+)", text, re.MULTILINE)) == set(FAMILIES)


@pytest.mark.parametrize("rule", alerts(), ids=lambda rule: str(rule["alert"]))
def test_rules_name_metrics_and_labels_that_exist(rule: dict[str, Any]) -> None:
    """A misspelt metric never fires, and a label that is not there is an empty word in a message at night."""
    assert metrics_of(rule["expr"]) <= set(FAMILIES)
    assert set(re.findall(r"\$labels\.(\w+)", str(rule["annotations"]))) <= labels_of(rule["expr"])
    assert set(rule["annotations"]) == {"summary", "description", "runbook"}
    assert rule["labels"]["severity"] in {"info", "warning", "critical"}


@pytest.mark.parametrize("expression", recorded().values(), ids=list(recorded()))
def test_recorded_rules_are_made_of_metrics_that_exist(expression: str) -> None:
    """A dashboard on a recorded name would be empty otherwise."""
    assert metrics_of(expression) <= set(FAMILIES)


@pytest.mark.parametrize("rule", alerts(), ids=lambda rule: str(rule["alert"]))
def test_every_alert_has_its_section_in_the_runbook(rule: dict[str, Any]) -> None:
    """Found by the link in the alert, with all four answers that a woken person wants."""
    file, _, anchor = rule["annotations"]["runbook"].partition("#")
    section = anchors((FOLDER / file).read_text())[anchor]
    assert anchor == rule["alert"].lower()
    for question in ("What it means.", "What the agent did.", "What to look at.", "What to do."):
        assert f"**{question}**" in section


def test_the_runbook_has_no_section_that_nothing_rings_for() -> None:
    """A renamed alert takes its section along."""
    assert set(anchors((FOLDER / "runbook.md").read_text())) == {rule["alert"].lower() for rule in alerts()}


def test_every_alert_is_shown_to_fire_and_to_stay_silent() -> None:
    """Both ways, in the rules' own tests."""
    told = [case for test in read("rules_test.yaml")["tests"] for case in test["alert_rule_test"]]
    fires = {case["alertname"] for case in told if case["exp_alerts"]}
    silent = {case["alertname"] for case in told if not case["exp_alerts"]}
    assert fires == silent == {rule["alert"] for rule in alerts()}


def test_the_reference_is_current() -> None:
    """The table is made from the names."""
    assert (FOLDER / "METRICS.md").read_text() == reference.document(), (
        "run: python -m agent.metrics.reference > config/prometheus/METRICS.md"
    )
