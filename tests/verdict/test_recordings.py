"""What real engines showed under real faults, judged sample by sample with windows scaled to the recordings' length."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from agent.container.port import ContainerView, RunState
from agent.engines.model import EngineReading
from agent.engines.vllm import Vllm
from agent.plan.windows import derive
from agent.samples.model import Activity, Canary, Connections, Health, Miss, Missed, Sample, Window
from agent.samples.window import WindowBuilder
from agent.verdict.judge import judge
from agent.verdict.model import Judged, Verdict
from tests.verdict.series import PP4, PP4_CLAIMS, instant

WATCH = derive(
    PP4,
    PP4_CLAIMS,
    {
        "period": 1.0,
        "suspect": 4.0,
        "stall": 10.0,
        "stall_blind": 20.0,
        "jit": 0.0,
        "refused": 5.0,
        "zombie": 10.0,
        "canary_idle": 8.0,
    },
)
LINE = re.compile(r"\s*([\d.]+) /health=(\w+).*?/metrics=(\w+)(?: \(\d+ms\) (\{.*\}))?")
VIEW = ContainerView("c", "n", "s", "p", 1, RunState.RUNNING, pid=1)
GAUGES = ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc")


@dataclass(frozen=True)
class Look:
    """One line of a recording."""

    at: float
    health: Health | Missed
    scrape: EngineReading | Missed
    load: int | None


def looks(path: Path, section: str = "") -> Iterator[Look]:
    """The probes of one section (all of them when there are none)."""
    inside = not section
    for line in path.read_text(errors="replace").splitlines():
        if line.startswith("##"):
            inside = section in line
        match = LINE.match(line)
        if inside and match is not None:
            load = re.search(r'"server_load":(\d+)', line)
            yield Look(float(match[1]), health(match[2]), scrape(match[3], match[4]), int(load[1]) if load else None)


def missed(word: str) -> Missed:
    kind = Miss.TIMEOUT if "Timeout" in word else Miss.REFUSED if "Refused" in word else Miss.BROKEN
    return Missed(kind, word)


def health(word: str) -> Health | Missed:
    return Health(int(word), 0.01) if word.isdigit() else missed(word)


def scrape(word: str, values: str | None) -> EngineReading | Missed:
    """The recorded values as vLLM's own text again; the recordings leave zeros out."""
    if not word.isdigit():
        return missed(word)
    told = dict.fromkeys(GAUGES, "0.0") | (ast.literal_eval(values) if values else {})
    lines = []
    for name, value in told.items():
        base, _, label = name.partition("[")
        lines.append(f'vllm:{base}{{engine="0",{label.rstrip("]")}}} {value}')
    return Vllm().read_metrics("\n".join(lines))


def verdicts(found: Iterator[Look], **more) -> list[tuple[float, Verdict, Window]]:
    """Judge them one by one; `more` adds to every sample what the recordings do not hold."""
    builder = WindowBuilder(instant(-1000.0), WATCH, ready=instant(-1000.0))
    judged = []
    for look in found:
        sample = Sample(at=instant(look.at), container=VIEW, scrape=look.scrape, health=look.health, **more)
        window = builder.add(sample)
        judged.append((look.at, judge(window, WATCH, PP4), window))
    return judged


def acts(judged: list[tuple[float, Verdict, Window]]) -> list[tuple[float, str, str]]:
    return [(at, verdict.kind, verdict.why) for at, verdict, _ in judged if verdict.fault]


def test_normal_load_is_busy_and_ready_and_nothing_else(shared: Path):
    judged = verdicts(looks(shared / "captures/vllm/timeline-normal.txt"))
    assert {verdict.state for _, verdict, _ in judged} == {Judged.BUSY, Judged.READY}


@pytest.mark.parametrize("process", ["EngineCore", "Worker"])
def test_a_stopped_process_is_suspect_by_silence_and_stalled_with_a_second_sign(shared: Path, process: str):
    path = shared / "captures/vllm/timeline-sigstop.txt"
    judged = verdicts(looks(path, f"SIGSTOP {process} "))
    assert not acts(judged), "silence alone"
    states = [verdict.state for _, verdict, _ in judged]
    assert Judged.SUSPECT in states
    assert states[-1] in (Judged.BUSY, Judged.READY), "it goes on after SIGCONT"
    with_sign = verdicts(looks(path, f"SIGSTOP {process} "), activity=Activity(3, 1.0, stopped=(25492,)))
    assert {kind for _, kind, _ in acts(with_sign)} == {"busy"}


@pytest.mark.parametrize(
    ("name", "after"),
    [
        ("timeline-enginecore-sigkill", 2.72),
        ("timeline-run4-worker-sigkill", 1.10),
        ("timeline-run8-enginecore-sigkill-idle", 0.0),
        ("timeline-run9-keepalive-api_server-module", 1.11),
        ("timeline-worker-sigstop-exectimeout15", 16.0),
    ],
)
def test_a_dead_core_is_found_by_its_health_flag(shared: Path, name: str, after: float):
    found = acts(verdicts(looks(shared / f"captures/vllm/{name}.txt")))
    assert found
    assert found[0][1] == "engine_dead"
    assert after <= found[0][0] <= after + 5


def test_a_killed_api_server_refuses(shared: Path):
    found = acts(verdicts(looks(shared / "captures/vllm/timeline-run7-apiserver-sigkill.txt")))
    assert found[0][1] == "refused"
    assert found[0][0] <= 1.2 + WATCH.refused.value + 2


def test_a_core_stopped_while_idle_is_told_by_canaries_alone(shared: Path):
    """Gauges 0/0, health 200, clients waiting: the recording of what looks like a healthy idle engine."""
    path = shared / "captures/vllm/timeline-idle-enginecore-sigstop.txt"
    stopped = [look for look in looks(path, "SIGSTOP EngineCore while idle") if look.at < 15]
    clients = max(look.load or 0 for look in stopped)
    assert clients
    quiet = verdicts(iter(stopped), connections=Connections(clients))
    assert not acts(quiet)
    assert quiet[-1][1].wants_canary
    builder = WindowBuilder(instant(-1000.0), WATCH, ready=instant(-1000.0))
    found = []
    for index, look in enumerate(stopped):
        unanswered = Canary(False, 0.5, "no answer", timed_out=True)
        canary = unanswered if index in (len(stopped) - 3, len(stopped) - 2) else None
        sample = Sample(
            at=instant(look.at),
            container=VIEW,
            scrape=look.scrape,
            health=look.health,
            connections=Connections(clients),
            canary=canary,
            canary_out=index in (len(stopped) - 4, len(stopped) - 3),
        )
        found.append(judge(builder.add(sample), WATCH, PP4))
    assert (found[-1].state, found[-1].kind) == (Judged.STALLED, "idle")


def test_a_drain_is_no_fault(shared: Path):
    judged = verdicts(looks(shared / "captures/vllm/timeline-run10-drain-newreq.txt"))
    before_exit = [entry for entry in judged if isinstance(entry[2].last.scrape, EngineReading)]
    assert before_exit
    assert not acts(before_exit)
