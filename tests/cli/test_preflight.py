"""`agentctl preflight` says no wherever deploy would."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent.cli.main import main


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
