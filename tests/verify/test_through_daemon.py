"""`agentctl verify` as a person runs it: the real daemon, an engine as a plain process, rates that are known."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import recipes, traffic
from tests.e2e.rig import PROGRAMS, Rig, running, wait_for
from tests.lab.children import free_port

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(180)]

DECODE, PREFILL, BATCH_COST = 60.0, 4000.0, 0.2
RATES = {
    "SIM_SCALE": "1",
    "SIM_START_S": "1",
    "SIM_BOOT_S": "0.2",
    "SIM_DECODE_TOK_S": f"{DECODE:g}",
    "SIM_PREFILL_TOK_S": f"{PREFILL:g}",
    "SIM_BATCH_COST": f"{BATCH_COST:g}",
}
TOGETHER = 4
AGGREGATE = TOGETHER * DECODE / (1 + BATCH_COST * (TOGETHER - 1))
CONTEXT, TOO_LONG = 4000, 1_000_000
LEAST, MOST = 0.6, 1.1
"""Of what the engine gives, what is measured on a machine that others use: it may lose, it cannot win."""


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """One daemon for the whole file; each test has an engine of its own."""
    with running(tmp_path_factory.mktemp("verify")) as rig:
        yield rig


def claiming(rig: Rig, slug: str, times: float = 1.0) -> int:
    """Deploys an engine whose recipe claims so many times what it does; its port."""
    port = free_port()
    document = recipes.recipe(slug, port, env=RATES) | {
        "perf_points": [
            {"id": 1, "context_len": CONTEXT, "concurrency": 1, "decode_tok_s": DECODE * times,
             "prefill_tok_s": PREFILL * times},
            {"id": 2, "context_len": 1, "concurrency": TOGETHER, "decode_tok_s": AGGREGATE * times},
            {"id": 3, "context_len": TOO_LONG, "concurrency": 1, "decode_tok_s": 10},
        ]
    }  # fmt: skip
    rig.publish(document, recipes.profile())
    rig.ok("deploy", slug, "--yes", "-q", "--wait=60")
    return port


def requests_in(port: int) -> float:
    """What the engine itself says that it runs."""
    lines = traffic.get(port, "/metrics")[1].splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith("vllm:num_requests_running{"))


def rows(report: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    return {f"{row['point']} {row['metric']}": row for row in report["rows"]}


@pytest.mark.parametrize(("slug", "times"), [("honest", 1.0), ("boastful", 2.0)])
def test_a_ratio_is_what_the_engine_does_of_what_is_claimed(host: Rig, slug: str, times: float) -> None:
    """Alone, in company and in prefill; doubled claims are kept by half; the export says the same as the report."""
    claiming(host, slug, times)
    report = host.ok("verify", slug, "--quick", "-o", "json").json
    found = rows(report)
    names = {f"decode c1 @{CONTEXT} decode_tok_s", f"decode c{TOGETHER} decode_tok_s"}
    assert set(found) == names | {f"prefill c1 @{CONTEXT} prefill_tok_s", f"prefill c1 @{CONTEXT} ttft_ms"}
    for name in found.keys() - {f"prefill c1 @{CONTEXT} ttft_ms"}:
        assert found[name]["dropped"] == ""
        assert LEAST <= found[name]["ratio"] * times <= MOST, name
        assert host.value("recipe_agent_claim_ratio", recipe=slug, point=name) == pytest.approx(found[name]["ratio"])
    assert [(one["point"], "context" in one["why"]) for one in report["left_out"]] == [(f"decode c1 @{TOO_LONG}", True)]
    assert host.ctl("verify", slug, "--last", "--full").code == 4
    again = host.ok("verify", slug, "--last").out
    assert f"left out   decode c1 @{TOO_LONG}: the launch's context is 524,288 tokens" in again
    host.ok("remove", slug)
    assert host.value("recipe_agent_claim_ratio", recipe=slug) is None


def test_ctrl_c_leaves_no_request_behind(host: Rig) -> None:
    """130, as every interrupted command; the engine has nothing to do any more, and another one may begin."""
    slug = "interrupted"
    port = claiming(host, slug)
    words: list[str | Path] = [PROGRAMS / "agentctl", "verify", slug, "--points", f"c{TOGETHER}"]
    with subprocess.Popen(
        words, env=host.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as verify:
        wait_for(lambda: requests_in(port) >= TOGETHER, "the requests to run", within=60)
        verify.send_signal(signal.SIGINT)
        _, said = verify.communicate(timeout=30)
    assert verify.returncode == 130
    assert "cancelled; nothing of it runs on" in said
    wait_for(lambda: requests_in(port) == 0, "the engine to be idle", within=10)
    (operation,) = [one for one in host.api("/v1/operations") if one["slug"] == slug and one["kind"] == "verify"]
    assert operation["error"]["code"] == "verify.cancelled"
    assert host.ctl("verify", slug, "--last").code == 4
    host.ok("remove", slug)


def test_a_point_in_foreign_traffic_has_no_number(host: Rig) -> None:
    """Somebody else is served all the time: dropped, with the reason, and nothing in the export."""
    slug = "shared"
    port = claiming(host, slug)
    with traffic.client(port):
        wait_for(lambda: requests_in(port) == 1, "the other client to be served")
        report = host.ok("verify", slug, "--quick", "--points", "prefill", "-o", "json").json
    assert report["rows"]
    for row in report["rows"]:
        assert (row["measured"], row["ratio"]) == (None, None)
        assert "others are served" in row["dropped"]
    assert host.value("recipe_agent_claim_ratio", recipe=slug) is None
    host.ok("remove", slug)
