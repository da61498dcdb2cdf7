"""The OpenAPI document is true: schemathesis asks the live daemon for everything in it, well and badly."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from agent.api.app import every_endpoint
from tests.api.conftest import TOKEN
from tests.api.tcp import ask
from tests.e2e.rig import Rig

HERE = Path(__file__).parent
EXAMPLES = os.environ.get("API_TEST_EXAMPLES", "10")
RUN_S = 280
needs_schemathesis = pytest.mark.skipif(
    importlib.util.find_spec("schemathesis") is None, reason="needs schemathesis (pip install 'recipe-agent[api-test]')"
)

# A recipe's text, a check's name or a plan's id is any text to a schema; whether it is one is for the agent to say.
SETTINGS = """\
[checks.positive_data_acceptance]
expected-statuses = ["2xx", "401", "403", "404", "409", "422", "502", "503", "504"]
"""


def schemathesis(rig: Rig, folder: Path, *words: str) -> None:
    """Runs it over the whole document; every failure that it finds is in the message."""
    settings = folder / "schemathesis.toml"
    settings.write_text(SETTINGS)
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(settings), "run"]
    command += [f"http://127.0.0.1:{rig.port}/openapi.json", "--phases=examples,coverage,fuzzing", "--no-color"]
    command += ["--max-examples", EXAMPLES, "--seed=1", "--request-timeout=15", "--generation-deterministic", *words]
    environment = {**os.environ, "SCHEMATHESIS_HOOKS": "hooks_schemathesis", "PYTHONPATH": str(HERE)}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=RUN_S, check=False
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    assert "request_failed" not in rig.log.read_text()


def with_token(*words: str) -> Sequence[str]:
    return ["-H", f"Authorization: Bearer {TOKEN}", *words]


@needs_schemathesis
@pytest.mark.slow
@pytest.mark.timeout(RUN_S + 20)
def test_over_tcp_with_a_token_every_answer_is_as_documented(rig: Rig, tmp_path: Path) -> None:
    """On a live deployment, which is stopped, started and upgraded by it; removing it is the next test's."""
    schemathesis(rig, tmp_path, *with_token("--exclude-operation-id=remove"))


@needs_schemathesis
@pytest.mark.slow
@pytest.mark.timeout(RUN_S + 20)
def test_over_tcp_with_nothing_every_answer_is_as_documented(rig: Rig, tmp_path: Path) -> None:
    schemathesis(rig, tmp_path, "--exclude-checks=positive_data_acceptance")


@needs_schemathesis
@pytest.mark.slow
@pytest.mark.timeout(RUN_S + 20)
def test_removing_is_as_documented(rig: Rig, tmp_path: Path) -> None:
    schemathesis(rig, tmp_path, *with_token("--include-operation-id=remove"))


def test_every_route_is_in_the_document_and_says_who_may_ask(rig: Rig) -> None:
    paths = ask(rig.port, "/openapi.json").json["paths"]
    written = {(method.upper(), path) for path, methods in paths.items() for method in methods}
    assert written == {(one.method, one.path) for one in every_endpoint()}
    for path, methods in paths.items():
        for method, operation in methods.items():
            closed = ask(rig.port, path.replace("{slug}", "x").replace("{id}", "x"), method.upper()).status == 401
            assert closed is (operation["security"] != []), (method, path)
            assert operation["summary"]
            assert set(operation["responses"]) >= {"400", "405", "429"}


def test_names_in_the_document_are_used_once(rig: Rig) -> None:
    paths = ask(rig.port, "/openapi.json").json["paths"]
    names = [operation["operationId"] for methods in paths.values() for operation in methods.values()]
    assert len(names) == len(set(names))
