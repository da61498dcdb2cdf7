"""The agent against Docker's own: `agentctl status` and `docker ps`, a deploy and `docker run`, restarts after a crash.

    python -m tests.lab.inside -- python -m tests.bench.bench_docker_life

The same simulator in a container, in turns, medians. A deploy is `agentctl deploy --wait` to its end, less its checks,
against `docker run` until the engine answers. A crash is a SIGKILL of the container's first process; it counts until
the next container's start, by the Engine's own `StartedAt`: of the next generation under the agent with backoff 0, of
the same container under `--restart always`, each after it has run for 11 s, since Docker's pause begins at 0.1 s and
doubles unless a container has run for 10 s. What the agent's steps between take is told apart: evidence and the saved
log, the old container's removal, the proof of release, the new one's creation and start. Prints one line of JSON.
"""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.bench.bench_life import AT_ONCE, checked, until_healthy
from tests.e2e import recipes
from tests.e2e.rig import PROGRAMS, Rig, UnixConnection, running
from tests.lab import engine, images
from tests.lab.children import free_port

DEPLOYS, CRASHES, COMMANDS = 5, 5, 15
RAN_S, LOOK_S, LIMIT_S = 11.0, 0.005, 60.0
ENGINE = {"SIM_SCALE": "1", "SIM_START_S": "1", "SIM_BOOT_S": "0.2"}


def main() -> int:
    with tempfile.TemporaryDirectory() as folder, engine.running("bench-life") as docker:
        images.simulator(docker, recipes.IMAGE)
        with running(Path(folder), docker) as rig:
            rig.site["budget"] = {"restarts": 100, "host_restarts": 1000, "backoff_s": [0]}
            rig.terminate()
            rig.start()
            figures = deploys(rig, docker) | commands(rig, docker) | crashes(rig, docker)
    print(json.dumps(figures))
    return 0


# -- deploy against run -----------------------------------------------------------------------------------------------


def deploys(rig: Rig, docker: engine.Engine) -> dict[str, float]:
    deploy(rig, "warms-up")  # the first imports what the others use
    by_run, by_agent, checks = [], [], []
    for number in range(DEPLOYS):
        by_run.append(run(docker, f"run-{number}"))
        took, preflight = deploy(rig, f"deployed-{number}")
        by_agent.append(took)
        checks.append(preflight)
    over = [mine - check - theirs for mine, check, theirs in zip(by_agent, checks, by_run, strict=True)]
    return {
        "docker_run_s": median(by_run),
        "deploy_s": median(by_agent),
        "preflight_s": median(checks),
        "deploy_overhead_s": median(over),
    }


def run(docker: engine.Engine, name: str) -> float:
    """`docker run` as the recipe's author types it, until the engine answers."""
    port = free_port()
    words = list(map(str, recipes.recipe(name, port, env=ENGINE)["config"]["launch"]))
    began = time.monotonic()
    docker.docker(*words[1:])
    until_healthy(port)
    took = time.monotonic() - began
    docker.docker("rm", "--force", name)
    return took


def deploy(rig: Rig, slug: str) -> tuple[float, float]:
    """Until it is ready by the agent's own word; and how long its checks took."""
    rig.publish(recipes.recipe(slug, free_port(), env=ENGINE), recipes.profile(**AT_ONCE))
    began = time.monotonic()
    rig.ok("deploy", slug, "--yes", "-q", "--wait=60")
    took = time.monotonic() - began
    checks = checked(rig.events(slug))
    rig.ok("remove", slug)
    return took, checks


# -- status against ps ------------------------------------------------------------------------------------------------


def commands(rig: Rig, docker: engine.Engine) -> dict[str, float]:
    """Milliseconds of each, in turns, with one engine running."""
    slug = "shown"
    rig.publish(recipes.recipe(slug, free_port(), env=ENGINE), recipes.profile(**AT_ONCE))
    rig.ok("deploy", slug, "--yes", "-q", "--wait=60")
    status, ps = [str(PROGRAMS / "agentctl"), "status"], ["docker", "ps"]
    taken: dict[str, list[float]] = {"status": [], "ps": []}
    for _ in range(COMMANDS):
        taken["status"].append(timed(status, rig.environment))
        taken["ps"].append(timed(ps, docker.environment))
    rig.ok("remove", slug)
    status_ms, ps_ms = (1000 * statistics.median(taken[name]) for name in ("status", "ps"))
    return {
        "status_ms": round(status_ms, 1),
        "docker_ps_ms": round(ps_ms, 1),
        "status_by_docker_ps": round(status_ms / ps_ms, 2),
    }


def timed(words: Sequence[str], environment: Mapping[str, str]) -> float:
    began = time.monotonic()
    subprocess.run(words, env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=True)
    return time.monotonic() - began


# -- a crash ----------------------------------------------------------------------------------------------------------


def crashes(rig: Rig, docker: engine.Engine) -> dict[str, float]:
    """Both at the same time of day: one crash under Docker's policy, one under the agent, and again."""
    port, policy_port, slug = free_port(), free_port(), "crashing"
    rig.publish(recipes.recipe(slug, port, env=ENGINE), recipes.profile(**AT_ONCE))
    rig.ok("deploy", slug, "--yes", "-q", "--wait=60")
    words = list(map(str, recipes.recipe("policy", policy_port, env=ENGINE)["config"]["launch"]))
    docker.docker("run", "--restart", "always", *words[2:])
    first = rig.events(slug)[-1]["seq"]
    own, docker_s = [], []
    for _ in range(CRASHES):
        until_healthy(port)
        until_healthy(policy_port)
        time.sleep(RAN_S)
        docker_s.append(crash(docker, "name", "^/policy$"))
        own.append(crash(docker, "label", f"recipe-agent.recipe={slug}"))
    took = {name: statistics.median(values) for name, values in steps(rig.events(slug, first)).items()}
    docker.docker("rm", "--force", "policy")
    agent, policy, proof = statistics.median(own), statistics.median(docker_s), took["Released"]
    return {
        "crash_started_s": round(agent, 3),
        "docker_restart_s": round(policy, 3),
        "proof_of_release_s": round(proof, 3),
        "crash_ratio": round((agent - proof) / policy, 3),
        **{f"crash_{name.lower()}_s": round(took[name], 3) for name in ("SaveEvidence", "Remove", "Create", "Start")},
    }


def crash(docker: engine.Engine, kind: str, value: str) -> float:
    """From the kill of the first process to the start that follows, by the Engine's clock, which is ours."""
    with closing(UnixConnection(docker.socket)) as connection:
        before = newest(connection, kind, value)
        assert before is not None
        began = time.time()
        os.kill(before["State"]["Pid"], signal.SIGKILL)
        end = time.monotonic() + LIMIT_S
        while time.monotonic() < end:
            now = newest(connection, kind, value)
            if now and now["State"]["Running"] and (at := moment(now)) > moment(before):
                return at - began
            time.sleep(LOOK_S)
    raise SystemExit(f"nothing started again within {LIMIT_S:.0f} s")


def newest(connection: UnixConnection, kind: str, value: str) -> dict[str, Any] | None:
    """The newest container that fits, whole."""
    found = asked(connection, f"/containers/json?all=1&filters={quote(json.dumps({kind: [value]}))}")
    if not found:
        return None
    one = asked(connection, f"/containers/{found[0]['Id']}/json")
    return one if isinstance(one, dict) and "State" in one else None


def asked(connection: UnixConnection, path: str) -> Any:
    connection.request("GET", path)
    return json.loads(connection.getresponse().read())


def moment(container: Mapping[str, Any]) -> float:
    """Its start, in seconds of the epoch; Go writes nanoseconds, Python reads six digits."""
    text = str(container["State"]["StartedAt"])
    head, _, rest = text.partition(".")
    return datetime.fromisoformat(f"{head}.{rest.rstrip('Z')[:6].ljust(6, '0')}+00:00").timestamp()


def steps(events: Sequence[Mapping[str, Any]]) -> dict[str, list[float]]:
    """By step: seconds since what was told before it, which is how long it took."""
    found: dict[str, list[float]] = {}
    for before, event in pairwise(events):
        if event["kind"] == "step":
            took = datetime.fromisoformat(event["at"]) - datetime.fromisoformat(before["at"])
            found.setdefault(event["data"]["step"], []).append(took.total_seconds())
    return found


def median(values: Sequence[float]) -> float:
    return round(statistics.median(values), 3)


if __name__ == "__main__":
    raise SystemExit(main())
