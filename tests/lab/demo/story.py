"""What happens in the demo, act by act; each waits for what the agent says, never for a clock."""

from __future__ import annotations

import json
import re
import subprocess
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from agent.cli.output import bar
from tests.lab.demo.agent import Agent, Events, Failed
from tests.lab.demo.screen import Screen
from tests.lab.demo.traffic import Traffic

PATIENCE_S = 60.0
LOOK_S = 0.2
SHOWN_BUSY_S = 4.0
GIVEN_UP = ("failed", "quarantined")
COUNTERS = ("suspects_total", "stalls_total", "incidents_total", "restarts_total")
EXPECTED = {"stalls_total": 1, "incidents_total": 1, "restarts_total": 1}


@dataclass(frozen=True, slots=True)
class Stage:
    """What an act works with."""

    screen: Screen
    agent: Agent
    events: Events
    traffic: Traffic
    port: int
    said: set[str] = field(default_factory=set)


def deploy(stage: Stage) -> None:
    """From the document to an engine that is ready."""
    stage.screen.gap()
    stage.screen.title("1. A recipe becomes a running engine")
    stage.screen.event("$", "agentctl deploy demo --yes --wait")
    command = stage.agent.ctl("deploy", "demo", "--yes", "--wait", "--quiet")
    while command.poll() is None:
        watch(stage, LOOK_S)
    watch(stage, 0.0)
    stage.screen.event("endpoint", said(command).strip())


def serve(stage: Stage) -> None:
    """Clients come."""
    stage.screen.gap()
    stage.screen.title("2. It serves, then it stalls, and nothing else would notice")
    stage.traffic.start()
    stage.screen.event("clients", "3 clients ask for long answers")
    until(stage, "busy")
    watch(stage, SHOWN_BUSY_S)
    stage.screen.event("served", f"{stage.traffic.tokens} tokens so far")


def stall(stage: Stage) -> None:
    """The engine hangs; the agent finds it, keeps the evidence and starts a new one."""
    before = {name: stage.agent.metric(name) for name in COUNTERS}
    began = time.monotonic()
    ask(stage.port, "/sim/fault", {"kind": "stall"})
    stage.screen.event("fault", "the engine's scheduler hangs now: no token comes, and no error either")
    stage.screen.event("health", f"GET /health still answers {ask(stage.port, '/health')}, the clients just wait")
    until(stage, "suspect")
    until(stage, "stalled")
    found = time.monotonic() - began
    until(stage, "stopping")
    show_evidence(stage)
    until(stage, "ready", "busy")
    again = time.monotonic() - began
    stage.screen.event("mended", f"found {found:.1f} s after the fault, serving again after {again:.1f} s")
    until_busy(stage)
    show_counters(stage, before)


def show_evidence(stage: Stage) -> None:
    """What was kept before anything was touched."""
    incident = stage.agent.incidents()[-1]
    files = incident["evidence"]
    size = sum(files.values()) / 1000
    stage.screen.event("evidence", f"kept {len(files)} files, {size:.0f} kB: {', '.join(sorted(files))}")
    stage.screen.more(f"agentctl incidents show {incident['id']}")


def show_counters(stage: Stage, before: dict[str, dict[str, float]]) -> None:
    """The metrics that an alert sees."""
    stage.screen.event("metrics", stage.agent.metrics_url)
    for name in COUNTERS:
        now = stage.agent.metric(name)
        moved = {labels: value for labels, value in now.items() if value != before[name].get(labels)}
        if name in EXPECTED and sum(moved.values()) != EXPECTED[name]:
            raise Failed(f"recipe_agent_{name} should have risen by {EXPECTED[name]}, and is {now}")
        for labels, value in moved.items():
            was = before[name].get(labels, 0.0)
            stage.screen.more(f"recipe_agent_{name}{labels}  {was:.0f} → {value:.0f}")


def lose_the_agent(stage: Stage) -> None:
    """The agent dies; the engine must not notice, and the next agent must know it."""
    stage.screen.gap()
    stage.screen.title("3. The agent dies, the engine does not")
    before = stage.agent.deployment()
    stage.agent.kill()
    tokens = stage.traffic.tokens
    stage.screen.event("fault", "the agent gets SIGKILL")
    wait_for(lambda: stage.traffic.tokens >= tokens + 100, "tokens without an agent")
    stage.screen.event("engine", f"serves on: {stage.traffic.tokens - tokens} tokens since")
    stage.agent.start()
    stage.screen.event("agent", "is started again")
    wait_for(lambda: bool(stage.agent.deployments()), "the engine to be found again")
    until_busy(stage)
    after = stage.agent.deployment()
    if (before["generation"], before["container"]) != (after["generation"], after["container"]):
        raise Failed(f"the agent did not adopt its engine: {before['container']} became {after['container']}")
    stage.screen.event("adopted", f"generation {after['generation']}, {after['container'][:12]}: {after['why']}")


def finish(stage: Stage) -> None:
    """What a person would look at, and the end of the deployment."""
    stage.screen.gap()
    stage.screen.title("4. Everything is taken away again")
    show_command(stage, "status")
    stage.traffic.stop()
    show_command(stage, "remove", "demo")


def show_command(stage: Stage, *words: str) -> None:
    """A command of agentctl and what it says."""
    stage.screen.event("$", f"agentctl {' '.join(words)}")
    stage.screen.more(*said(stage.agent.ctl(*words)).splitlines())


def said(command: subprocess.Popen[str]) -> str:
    """What a command of agentctl prints. Raises Failed where it fails, with its own words."""
    text, trouble = command.communicate(timeout=PATIENCE_S)
    if command.returncode != 0:
        raise Failed(f"the command ended with {command.returncode}: {' '.join(trouble.split())}")
    return text


# ── waiting ───────────────────────────────────────────────────────────────────────────────────────────────────────


def until(stage: Stage, *states: str) -> None:
    """Shows every change of state until one of these; raises Failed where it does not come."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        event = stage.events.next(LOOK_S)
        if event is None:
            show_progress(stage)
            continue
        if show(stage, event) in states:
            return
        if event["data"]["to"] in GIVEN_UP:
            break
    raise Failed(f"{' or '.join(states)} did not come: {stage.agent.deployment()['why']}")


def watch(stage: Stage, seconds: float) -> None:
    """Shows what happens for a while, and what has happened already."""
    end = time.monotonic() + seconds
    while True:
        left = end - time.monotonic()
        if (event := stage.events.next(min(max(left, 0.0), LOOK_S))) is not None:
            show(stage, event)
        elif left <= 0:
            return
        else:
            show_progress(stage)


def until_busy(stage: Stage) -> None:
    """Until the clients are served again, which may have been said already."""
    while (event := stage.events.next(0.0 if stage.agent.deployment()["state"] == "busy" else LOOK_S)) is not None:
        show(stage, event)
    wait_for(lambda: stage.agent.deployment()["state"] == "busy", "the clients to be served again")


def show(stage: Stage, event: dict[str, Any]) -> str:
    """One change of state; the state it came to."""
    state = str(event["data"]["to"])
    stage.screen.event(state, news(stage, event["text"]))
    return state


def news(stage: Stage, text: str) -> str:
    """What a sentence adds to those before it, where the same thing lasts for some seconds more."""
    clauses = {clause: re.sub(r"[0-9.]+ s\b", "", clause) for clause in text.split("; ")}
    new = [clause for clause, shape in clauses.items() if shape not in stage.said]
    stage.said.update(clauses.values())
    return "; ".join(new) or "for that reason"


def show_progress(stage: Stage) -> None:
    """The sentence of the moment, with a bar where the engine's start has one."""
    if not stage.agent.alive:
        raise Failed(f"the agent ended: {stage.agent.last_words()}")
    for one in stage.agent.deployments():
        ratio = one["startup"]["ratio"] if one["state"] == "starting" else None
        stage.screen.passing(one["state"], f"{bar(ratio)} {one['why']}" if ratio is not None else one["why"])


def wait_for(true: Callable[[], bool], what: str) -> None:
    """Raises Failed where it does not come true."""
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        if time.monotonic() > deadline:
            raise Failed(f"waited {PATIENCE_S:.0f} s for {what}")
        time.sleep(0.05)


def ask(port: int, path: str, body: object = None) -> int:
    """The status of an answer of the engine."""
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", data, timeout=10) as answer:
        return int(answer.status)
