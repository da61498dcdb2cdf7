"""What Prometheus gets from the real daemon, and what the shipped rules make of it."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest

from agent.metrics import names
from tests.e2e import recipes, traffic
from tests.e2e.rig import Rig, deployed, running, wait_for
from tests.lab import prometheus
from tests.lab.children import free_port, get
from tests.lab.nvml.hosts import cmp170hx
from tests.lab.nvml.standin import StandIn
from tests.lab.place import REPOSITORY

pytestmark = [pytest.mark.prometheus, pytest.mark.timeout(120)]
RULES = REPOSITORY / "config" / "prometheus"

SEEN_S = 30.0
"""What is shown of an engine is there after a look at it while it works: the first may come too soon."""
# Series that need what this engine or this moment does not have.
NOT_YET = {
    "recipe_agent_claim_ratio",  # a measurement that a person asked for
    "recipe_agent_gpu_xid_total",  # the driver has reported none
    "recipe_agent_spec_decode_acceptance_ratio",  # this launch does not speculate
}


def contract_names(shared: Path) -> set[str]:
    """Every metric of the contract, by its name on the wire."""
    text = (shared / "contract.md").read_text()
    section = text.partition("## Metrics")[2].partition("\nCounters exist")[0]
    return {f"recipe_agent_{name}" for name in re.findall(r"`([a-z_]+)(?:\{[a-z_,]+\})?`", section)} - {
        "recipe_agent_recipe_agent_"
    }


def exposed(text: str) -> set[str]:
    return set(re.findall(r"^([a-z_]+)(?:\{| )", text, re.MULTILINE))


def test_every_name_of_the_contract_has_a_series(tmp_path: Path, nvml: StandIn, shared: Path) -> None:
    """With cards, an engine that works and one sample behind it; what cannot be known yet has no series."""
    nvml.show(cmp170hx(2))
    with running(tmp_path) as host:
        port = free_port()
        document = recipes.recipe("measured", port, flags=("-tp", "2"))
        document["config"]["launch"][2:2] = ["--gpus", "all"]
        host.publish(document, recipes.profile())
        host.ok("deploy", "measured", "--yes", "--wait=60")
        with traffic.client(port):
            host.until("measured", "busy")
            wanted = contract_names(shared)
            assert len(wanted) > 35
            end = time.monotonic() + SEEN_S
            while missing := wanted - exposed(text := host.metrics()) - NOT_YET:
                assert time.monotonic() < end, missing
                time.sleep(0.2)
            wait_for(lambda: host.value("recipe_agent_generation_tokens_total", recipe="measured"), "tokens")
        known = {family.full for family in names.FAMILIES}
        assert exposed(text) <= known
        assert host.value("recipe_agent_prompt_tokens_total", recipe="measured") == 64
        assert host.value("recipe_agent_engine_up", recipe="measured") == 1
        assert host.value("recipe_agent_gpu_memory_total_bytes", gpu="0") == 64 << 30


def test_counters_stand_at_zero_from_the_first_moment(process_rig: Rig) -> None:
    """A stall lasts seconds and a scrape comes every fifteen: the first one must be an increase from 0."""
    slug = "fresh"
    port = free_port()
    process_rig.publish(recipes.recipe(slug, port, env={"SIM_START_S": "600"}), recipes.profile())  # a minute
    process_rig.ok("deploy", slug, "--yes", "-q")
    for name, labels in {
        "stalls": {"kind": "busy"},
        "suspects": {"reason": "busy"},
        "restarts": {"reason": "exit"},
        "would_restart": {"reason": "exit"},
        "incidents": {"kind": "busy"},
        "prompt_tokens": {},
        "generation_tokens": {},
    }.items():
        assert process_rig.value(f"recipe_agent_{name}_total", recipe=slug, **labels) == 0, name
    assert process_rig.value("recipe_agent_deployment_state", recipe=slug, state="starting") == 1
    process_rig.ok("remove", slug)
    assert slug not in process_rig.metrics()


def test_promtool_accepts_metrics_and_rules(process_rig: Rig, prometheus_tools: prometheus.Tools) -> None:
    """`check metrics` on a live exposition, `check rules` and `test rules` on what is shipped."""
    deployed(process_rig, "checked")
    for words, text in {
        ("check", "metrics"): process_rig.metrics(),
        ("check", "rules", str(RULES / "rules.yaml")): "",
        ("test", "rules", str(RULES / "rules_test.yaml")): "",
    }.items():
        said = prometheus_tools.promtool_run(*words, stdin=text)
        assert (said.returncode, said.stderr if words[1] == "metrics" else "") == (0, ""), said


def test_a_real_prometheus_scrapes_it_and_sees_the_first_stall(
    process_rig: Rig, prometheus_tools: prometheus.Tools, tmp_path: Path
) -> None:
    """The alert's own expression becomes true by a stall that lasted seconds."""
    port = deployed(process_rig, "scraped", {"stall": 3, "canary_timeout": 1})
    jobs = [
        {
            "job_name": "recipe-agent",
            "scrape_interval": "1s",
            "scrape_timeout": "1s",
            "static_configs": [{"targets": [f"127.0.0.1:{process_rig.port}"]}],
        }
    ]
    with prometheus.running(prometheus_tools, tmp_path, {"scrape_configs": jobs}) as at:

        def ask(query: str) -> float | None:
            status, body = get(at, f"/api/v1/query?query={query}")
            found = json.loads(body)["data"]["result"] if status == 200 else []
            return float(found[0]["value"][1]) if found else None

        wait_for(lambda: ask("up") == 1, "a scrape")
        wait_for(lambda: ask("recipe_agent_stalls_total%7Bkind%3D%22busy%22%7D") == 0, "the counter at 0")
        with traffic.client(port):
            process_rig.until("scraped", "busy")
            traffic.fault(port, "stall")
            process_rig.until("scraped", "ready", generation=2)
        expression = "sum(increase(recipe_agent_stalls_total%5B5m%5D))>0"
        wait_for(lambda: (ask(expression) or 0) > 0, "the first stall to be an increase")
