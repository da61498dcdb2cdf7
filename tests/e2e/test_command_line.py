"""`agentctl` against the real daemon: what each command prints, its JSON, and every exit code for its real cause."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from tests.e2e import recipes
from tests.e2e.rig import PROGRAMS, Rig, deployed, wait_for
from tests.lab.children import free_port
from tests.lab.recipesite import RecipeSite

pytestmark = [pytest.mark.docker, pytest.mark.timeout(120)]

STATUS_KEYS = {
    "slug", "state", "since", "why", "supervision", "plan_id", "generation", "runtime", "container", "endpoint", "step",
}  # fmt: skip
PLAN_KEYS = {
    "plan_id", "recipe", "runtime", "engine", "image", "container", "requirements", "watch", "claims", "missing",
    "unapplied", "warnings", "origins",
}  # fmt: skip
HEAVY = ("docker", "aiohttp", "apscheduler", "pydantic")


def test_a_whole_life_by_commands(shared_rig: Rig) -> None:
    """plan, deploy, status, logs, events, restart, stop, start, remove: text for people, JSON for scripts."""
    host, slug, port = shared_rig, "whole-life", free_port()
    host.publish(recipes.recipe(slug, port), recipes.profile())
    plan = host.ok("plan", slug, "-o", "json").json
    assert plan.keys() >= PLAN_KEYS
    assert not plan["missing"]
    began = time.monotonic()
    said = host.ok("deploy", slug, "--yes")
    print(f"deploy until the container runs {time.monotonic() - began:.2f} s")
    assert said.out.splitlines()[-1] == f"http://127.0.0.1:{port}/v1"
    host.until(slug, "ready")
    (one,) = host.ok("status", slug, "-o", "json").json
    assert one.keys() >= STATUS_KEYS
    assert (one["plan_id"], one["generation"], one["runtime"]) == (plan["plan_id"], 1, "docker")
    assert one["endpoint"] == f"http://127.0.0.1:{port}/v1"
    assert host.containers(slug) == [f"{one['container']} running"]
    text = host.ok("status").out
    assert slug in text
    assert one["why"].partition(";")[0] in text
    assert "Application startup complete" in host.ok("logs", slug).out
    assert len(host.ok("logs", slug, "--tail", "2").out.splitlines()) == 2
    events = host.ok("events", slug, "-o", "json").json
    assert [event["data"]["to"] for event in events if event["kind"] == "state"][-1] == "ready"
    assert "ready" in host.ok("events", slug).out
    again = host.ok("restart", slug, "-o", "json").json
    assert (again["generation"], again["restarts"]) == (2, 0)
    host.until(slug, "ready", generation=2)
    stopped = host.ok("stop", slug, "-o", "json").json
    assert (stopped["state"], stopped["desired"]) == ("stopped", "stopped")
    assert not host.containers(slug)
    assert "Application startup complete" in host.ok("logs", slug).out  # kept, though the container is gone
    started = host.ok("start", slug, "-o", "json").json
    assert started["generation"] == 3
    assert host.ok("remove", slug, "-o", "json").json == {"slug": slug, "state": "removed"}
    assert not host.containers(slug)
    assert host.ctl("status", slug).code == 4
    assert f'recipe="{slug}"' not in host.metrics()


def test_following_a_log_shows_lines_as_they_come(shared_rig: Rig) -> None:
    """`logs -f` prints while the engine starts, and ends when it is interrupted, with 130."""
    slug, port = "followed", free_port()
    shared_rig.publish(recipes.recipe(slug, port), recipes.profile())
    shared_rig.ok("deploy", slug, "--yes")
    words = [str(PROGRAMS / "agentctl"), "logs", slug, "-f"]
    with subprocess.Popen(words, env=shared_rig.environment, stdout=subprocess.PIPE, text=True) as follower:
        assert follower.stdout is not None
        seen = next((line for line in follower.stdout if "Application startup complete" in line), None)
        follower.send_signal(2)
        assert follower.wait(10) == 130
    assert seen is not None
    shared_rig.ok("remove", slug)


def test_each_exit_code_has_its_real_cause(shared_rig: Rig) -> None:
    """1 failed, 2 usage, 3 refused, 4 unknown, 6 timed out; the error is one line and a hint, or one JSON object."""
    host = shared_rig
    broken, slow, gap = (f"code-{name}" for name in ("broken", "slow", "gap"))
    host.publish(recipes.recipe(broken, free_port(), env={"SIM_FAULT": "start_fail:bad_flag"}), recipes.profile())
    host.publish(recipes.recipe(slow, free_port(), env={"SIM_START_S": "600"}), recipes.profile())
    document = recipes.recipe(gap, free_port())
    document["config"]["launch"][2:2] = ["-v", "$NOWHERE/models:/models"]
    host.publish(document, recipes.profile())
    failed = host.ctl("deploy", broken, "--yes", "--wait=60")
    assert (failed.code, host.status(broken)["state"]) == (1, "failed")
    answers = {
        2: [host.ctl("deploy", slow), host.ctl("deploy", slow, "--yes", "--no-such-option"), host.ctl("nonsense")],
        3: [host.ctl("deploy", gap, "--yes"), host.ctl("start", broken)],
        4: [host.ctl(*words.split()) for words in (
            "deploy nobody-has-it --yes", "status nobody", "logs nobody", "stop nobody", "plan nobody-has-it")],
        6: [host.ctl("deploy", slow, "--yes", "--wait=1")],
    }  # fmt: skip
    for code, said in answers.items():
        for one in said:
            assert one.code == code, f"{one.words} ended with {one.code}, not {code}: {one.err}"
            assert "Traceback" not in one.err
    for one in (failed, *answers[3], *answers[4], *answers[6]):
        lines = [line for line in one.err.splitlines() if line.startswith(("error: ", "hint: "))]
        assert re.match(r"error: cannot .+: .+", lines[0]), one.err
    assert "variables.NOWHERE" in answers[3][0].err
    error = host.ctl("deploy", gap, "--yes", "-o", "json").error
    assert error.keys() == {"code", "message", "hint", "details"}
    assert error["details"]["missing"][0]["key"] == "variables.NOWHERE"
    for slug in (broken, slow):
        host.ok("remove", slug)


def test_a_taken_port_and_a_taken_name_are_refused_with_who_has_them(shared_rig: Rig) -> None:
    """Nothing is stopped or created: preflight says who is in the way."""
    assert shared_rig.engine is not None
    slug, port = "taken", free_port()
    shared_rig.publish(recipes.recipe(slug, port), recipes.profile())
    with closing(socket.create_server(("127.0.0.1", port))):
        said = shared_rig.ctl("deploy", slug, "--yes", "-o", "json")
        assert (said.code, said.error["code"]) == (3, "preflight.port_free")
        assert str(os.getpid()) in said.error["message"]
    shared_rig.engine.docker("create", "--name", slug, recipes.IMAGE, "vllm")
    said = shared_rig.ctl("deploy", slug, "--yes", "-o", "json")
    assert (said.code, said.error["code"]) == (3, "preflight.name_free")
    shared_rig.engine.docker("rm", slug)
    assert not shared_rig.containers(slug)


def test_without_the_daemon_only_its_own_commands_end_with_5(tmp_path: Path) -> None:
    """What needs the daemon says where it looked; plan, preflight and version do without."""
    host = Rig(tmp_path)
    host.configure()
    slug = host.publish(recipes.recipe("alone", free_port()), recipes.profile())
    for words in ("status", f"deploy {slug} --yes", f"stop {slug}", f"logs {slug}", "events"):
        said = host.ctl(*words.split())
        assert said.code == 5, said
        assert str(tmp_path / "agent.sock") in said.err
    assert host.ok("version").out.startswith("recipe-agent ")
    assert host.ok("version", "-o", "json").json["version"]
    assert host.ok("plan", slug, "-o", "json").json["recipe"]["slug"] == slug
    assert host.ok("config", "check")


def test_status_imports_nothing_heavy(shared_rig: Rig) -> None:
    """None of docker, aiohttp, apscheduler, pydantic: together they cost a second."""
    words = [sys.executable, "-X", "importtime", "-m", "agent.cli.main", "status"]
    done = subprocess.run(
        words, env=shared_rig.environment, cwd=shared_rig.folder, capture_output=True, text=True, timeout=30, check=True
    )
    names = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines() if "|" in line}
    assert "agent" in names
    assert not names & set(HEAVY)
    bare = seconds_of(shared_rig, sys.executable, "-c", "pass")
    print(f"status takes {seconds_of(shared_rig, str(PROGRAMS / 'agentctl'), 'status') / bare:.2f} interpreter starts")


def seconds_of(rig: Rig, *words: str) -> float:
    """The quickest of ten runs."""
    took = []
    for _ in range(10):
        began = time.monotonic()
        subprocess.run(words, env=rig.environment, cwd=rig.folder, capture_output=True, check=True)
        took.append(time.monotonic() - began)
    return min(took)


def test_a_slug_comes_from_a_recipe_site(shared_rig: Rig, recipe_site: RecipeSite, tmp_path: Path) -> None:
    """`deploy SLUG` asks the site for the document, pins it, and says where it came from."""
    slug, port = "from-a-site", free_port()
    recipe_site.publish(json.dumps(recipes.recipe(slug, port)).encode())
    host = Rig(tmp_path, shared_rig.engine)
    host.site["sources"] = [recipe_site.url]
    host.slugs.add(slug)
    (tmp_path / "profiles" / f"{slug}.yaml").write_text(recipes.profile())
    try:
        host.start()
        host.ok("deploy", slug, "--yes", "--wait=60")
        assert any(asked.path == f"/api/v1/recipes/{slug}.json" for asked in recipe_site.asked)
        plan = host.ok("plan", slug, "-o", "json").json
        assert plan["recipe"]["source"].startswith(recipe_site.url)
        assert len(plan["recipe"]["sha256"]) == 64
        assert plan["plan_id"] == host.status(slug)["plan_id"]
    finally:
        host.close()


def test_deploy_pulls_the_image_that_a_registry_has(shared_rig: Rig, lab_registry: str) -> None:
    """By tag, with progress, before anything is created."""
    assert shared_rig.engine is not None
    reference, slug = f"{lab_registry}/engines/simulator:v1", "from-a-registry"
    shared_rig.engine.docker("tag", recipes.IMAGE, reference)
    shared_rig.engine.docker("push", "--quiet", reference)
    shared_rig.engine.docker("rmi", reference)
    shared_rig.publish(recipes.recipe(slug, free_port(), reference), recipes.profile())
    said = shared_rig.ok("deploy", slug, "--yes", "--wait=60")
    assert "pull" in said.err
    digest = shared_rig.engine.docker("image", "inspect", "--format", "{{index .RepoDigests 0}}", reference).strip()
    assert "@sha256:" in digest
    steps = [event["data"]["step"] for event in shared_rig.events(slug) if event["kind"] == "step"]
    assert steps.index("PrepareImage") < steps.index("Create")
    shared_rig.ok("remove", slug)
    wait_for(lambda: not shared_rig.containers(slug), "no container of it")


def test_deploying_again_replaces_only_when_the_new_plan_is_ready_to_take_over(shared_rig: Rig) -> None:
    """The same plan changes nothing; another one is checked first, and a refused one leaves the old engine alone."""
    slug = "again"
    port = deployed(shared_rig, slug)
    before = shared_rig.status(slug)
    shared_rig.ok("deploy", slug, "--yes")
    assert shared_rig.status(slug)["container"] == before["container"]
    refused = shared_rig.ctl("deploy", slug, "--yes", "--set", "requirements.memory_available=900GiB")
    assert refused.code == 3, refused
    assert shared_rig.status(slug)["container"] == before["container"]
    shared_rig.ok("deploy", slug, "--yes", "--wait=60", "--set", "env.NEW=1")
    after = shared_rig.status(slug)
    assert (after["generation"], after["restarts"]) == (2, 0)
    assert after["plan_id"] != before["plan_id"]
    assert after["endpoint"] == f"http://127.0.0.1:{port}/v1"
    shared_rig.ok("remove", slug)
