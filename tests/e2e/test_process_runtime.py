"""The same life with no container engine: plain processes, on a rented pod or a host without Docker."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from tests.e2e import recipes, traffic
from tests.e2e.rig import Rig, deployed, running, wait_for
from tests.lab.children import free_port
from tests.lab.nvml.hosts import cmp170hx
from tests.lab.nvml.standin import StandIn
from tests.lab.procs import descendants, ended, state, stop

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


def gone(pids: list[int]) -> bool:
    return all(ended(pid) for pid in pids)


def tree(port: int) -> list[int]:
    """The engine's processes: its server, its cores, their workers."""
    server = traffic.server(port)
    return [server, *descendants(server)]


def test_a_stall_is_found_kept_as_evidence_and_restarted(process_rig: Rig) -> None:
    """The same states, the same evidence and the same budget as in a container."""
    slug = "plain"
    began = time.monotonic()
    port = deployed(process_rig, slug)
    print(f"deploy until ready {time.monotonic() - began:.2f} s, of which the engine's own start is 2 s")
    assert process_rig.status(slug)["runtime"] == "process"
    with traffic.client(port):
        process_rig.until(slug, "busy")
        traffic.fault(port, "stall")
        again = process_rig.until(slug, "ready", generation=2)
    path = process_rig.path(slug)
    begin = path.index("busy")
    assert path[begin : begin + 5] == ["busy", "suspect", "stalled", "stopping", "releasing"]
    assert (again["restarts"], again["restart_budget"]) == (1, 2)
    (incident,) = process_rig.incidents(slug)
    assert incident["kind"] == "busy"
    assert {"inspect.json", "log.txt", "metrics-1.txt", "processes.json"} <= set(incident["evidence"])
    (saved,) = (process_rig.folder / "state" / "logs" / slug).iterdir()
    assert "Application startup complete" in saved.read_text()


def test_an_agent_that_is_killed_adopts_the_process_by_pid_and_start_time(process_rig: Rig) -> None:
    """The same processes, the same state; nothing is started a second time."""
    slug = "adopted"
    port = deployed(process_rig, slug)
    before, engine = process_rig.status(slug), tree(port)
    process_rig.kill()
    assert not gone(engine)
    print(f"the agent answers {process_rig.start():.2f} s after its start")
    after = process_rig.until(slug, "ready")
    for key in ("container", "generation", "plan_id", "restarts"):
        assert after[key] == before[key], key
    assert tree(port) == engine
    assert not process_rig.incidents(slug)


def test_a_stop_ends_the_whole_tree(tmp_path: Path, nvml: StandIn) -> None:
    """Server, core and workers: none of them outlives a stop, also with a client that holds its connection."""
    nvml.show(cmp170hx(2))
    slug, port = "felled", free_port()
    with running(tmp_path) as host:
        host.publish(recipes.recipe(slug, port, flags=("-pp", "2")), recipes.profile())
        host.ok("deploy", slug, "--yes", "--wait=60", "-q")
        engine = tree(port)
        assert len(engine) >= 4
        with traffic.client(port):
            host.until(slug, "busy")
            host.ok("stop", slug)
        assert gone(engine)
        assert host.status(slug)["state"] == "stopped"
        assert host.containers(slug) == []


def test_a_tree_whose_server_was_killed_is_ended_before_the_next_start(process_rig: Rig) -> None:
    """The server's death leaves its core as an orphan that holds the GPUs: ended first, then started again."""
    slug = "orphaned"
    port = deployed(process_rig, slug)
    first = tree(port)
    os.kill(first[0], signal.SIGKILL)
    process_rig.until(slug, "ready", generation=2)
    assert gone(first)
    assert process_rig.status(slug)["restarts"] == 1


def test_an_exit_with_0_and_a_process_that_nobody_reaps_are_exits(process_rig: Rig) -> None:
    """Also where its parent does not reap it (state Z): it has ended, and is started again."""
    slug = "ended"
    port = deployed(process_rig, slug)
    began = time.monotonic()
    traffic.fault(port, "exit", "0")
    process_rig.until(slug, "ready", generation=2)
    print(f"exit 0 → ready again {time.monotonic() - began:.2f} s, of which the engine's own start is 2 s")
    server = traffic.server(port)
    (wrapper,) = [int(Path(f"/proc/{server}/stat").read_text().rpartition(") ")[2].split()[1])]
    stop(wrapper)
    try:
        os.kill(server, signal.SIGKILL)
        wait_for(lambda: state(server) == "Z", "the engine to be a zombie process")
        process_rig.until_status(slug, lambda one: one["generation"] > 2, "a new generation", within=30)
    finally:
        os.kill(wrapper, signal.SIGCONT)
    process_rig.until(slug, "ready", generation=3)


def test_a_launch_with_mounts_is_refused_in_words(process_rig: Rig) -> None:
    """A plain process has no mounts: the plan says so, and what to do instead."""
    document = recipes.recipe("mounted", free_port())
    document["config"]["launch"][2:2] = ["-v", "/srv/models:/models:ro"]
    process_rig.publish(document, recipes.profile())
    said = process_rig.ctl("deploy", "mounted", "--yes")
    assert said.code == 3
    assert "/srv/models" in said.err
    assert "hint: " in said.err
    assert process_rig.api("/v1/deployments") == []


def test_an_agent_of_before_leaves_a_state_that_this_one_takes_up(process_rig: Rig) -> None:
    """A state file of the first version, written back into its form: the engine runs on as it was, the old file is
    kept, and an older agent's deployment has all that newer ones have."""
    slug = "older"
    port = deployed(process_rig, slug)
    process_rig.kill()
    path = process_rig.folder / "state" / "state.db"
    with closing(sqlite3.connect(path)) as db, db:
        (text,) = db.execute("SELECT record FROM deployment").fetchone()
        record = json.loads(text)
        for name in ("wearing", "restart_waits", "window_used"):
            del record[name]
        db.execute("UPDATE deployment SET record = ?", (json.dumps(record),))
        db.execute("DROP INDEX operation_open")
        db.execute("DROP INDEX operation_created")
        db.execute("PRAGMA user_version = 1")
    seen = process_rig.ok("plan", slug, "--diff").out
    assert seen
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (1,), "a command that reads changes nothing"
    before = tree(port)
    process_rig.start()
    one = process_rig.until(slug, "ready", generation=1)
    assert tree(port) == before
    assert (one["restarts"], one["restart_waits"]) == (0, None)
    assert (process_rig.folder / "state" / "state.db.version-1").is_file()
    assert process_rig.incidents(slug) == []
