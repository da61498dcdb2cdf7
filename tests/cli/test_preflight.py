"""`agentctl preflight` says no wherever deploy would."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent.cli.main import main
from tests.e2e import recipes


def test_what_a_plan_misses_refuses_as_deploy_would(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    site, recipe = tmp_path / "agent.yaml", tmp_path / "bare.json"
    paths = {name: str(tmp_path / name) for name in ("state", "cache", "recipes", "profiles")}
    site.write_text(json.dumps({"sources": [], "runtime": "process", "paths": paths}))
    recipe.write_text(json.dumps({"slug": "bare"}))
    assert main(["preflight", str(recipe), "--config", str(site)]) == 3
    out = capsys.readouterr().out
    assert "misses launch.line" in out
    assert "state launch.line in the site profile" in out
    assert out.splitlines()[-1].startswith("it cannot be deployed: ")
    assert main(["preflight", str(recipe), "--config", str(site), "-o", "json"]) == 3
    assert json.loads(capsys.readouterr().out)["ok"] is False


def test_what_is_logged_meanwhile_is_no_part_of_the_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A record that is torn and a check that breaks are told on standard error, and standard output stays JSON."""
    site, recipe = tmp_path / "agent.yaml", tmp_path / "small.json"
    paths = {name: str(tmp_path / name) for name in ("state", "cache", "recipes", "profiles")}
    site.write_text(json.dumps({"sources": [], "runtime": "process", "paths": paths}))
    recipe.write_text(json.dumps(recipes.recipe("small", 8000)))
    torn = tmp_path / "state" / "processes" / "torn" / "record.json"
    torn.parent.mkdir(parents=True)
    torn.write_text("{")
    main(["preflight", str(recipe), "--config", str(site), "-o", "json"])
    said = capsys.readouterr()
    assert {finding["check"] for finding in json.loads(said.out)["findings"]}
    assert "process record is not readable" in said.err
    assert str(torn) in said.err
