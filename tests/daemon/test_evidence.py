"""What an incident of a real loop holds, and what it says of what it could not have."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from agent.clock import Instant
from agent.daemon.evidence import BRIEF, Means, Witnesses, runs_python
from agent.daemon.housekeeping import Steadiness
from agent.host.model import HostFacts
from agent.host.process import Connection
from agent.host.reading import Known, Reading, Unknown
from agent.incident.model import Case, Incident
from agent.incident.veil import Veil
from agent.plan.tojson import to_json
from agent.samples.recording import read_recording
from tests.daemon.engines import StageProbe, process
from tests.daemon.stage import Stage, deploy, plan_of

SECRET = "s3cr3t-value"


class Kernel:
    def __init__(self, reading: Reading[tuple[str, ...]]) -> None:
        self._reading = reading

    async def lines(self) -> Reading[tuple[str, ...]]:
        return self._reading


class Sockets:
    async def table(self, pid: int, port: int) -> Reading[tuple[Connection, ...]]:
        return Known((Connection("ESTABLISHED", "10.0.0.7", 51000, True),), Instant(1.0, 1.0))


async def facts() -> HostFacts:
    none: Unknown = Unknown("a test")
    return HostFacts(hostname="h", kernel="6", machine="x86_64", cpus=2, boot_id=none, booted=none)


async def recipe() -> bytes:
    return b'{"slug": "demo", "token": "hf_abcdefgh12345678"}'


async def stack(pid: int) -> str:
    return f"Thread {pid} (idle): MainThread {SECRET}"


async def kept(folder: Path, kernel: Reading[tuple[str, ...]], *, brief: bool) -> tuple[Incident, Path]:
    """One incident of a deployment that runs."""
    stage = Stage(folder)
    await deploy(stage, plan_of("demo", "plan-1"))
    await stage.run(stage.runs(generation=1))
    assert stage.agent is not None
    loop = stage.agent.fleet.loops["demo"]
    host: Any = stage.host
    host.facts = facts
    veil = Veil()
    veil.learn(SECRET)
    means = Means(
        runtime=loop._rooms.runtime, probe=StageProbe(stage), gpus=host, host=host, processes=host,
        sockets=Sockets(), kernel=Kernel(kernel), stacks=stack, recipe=recipe, veil=veil,  # type: ignore[arg-type]
    )  # fmt: skip
    case = Case("demo", "busy", f"stuck with {SECRET}", 1_800_000_000.0, 1, loop.record.container, "plan-1")
    witnesses = Witnesses(means, loop._observer)
    found = await witnesses.keep(folder / "incidents", case, to_json(loop.plan), stage.clock, brief=brief)
    await stage.leave()
    return found, folder / "incidents" / found.id


async def test_an_incident_of_a_running_engine_has_everything(tmp_path: Path) -> None:
    """Each piece by its name, replayable, and without a secret."""
    xid = ("2026-11-30T00:00:05.000Z NVRM: Xid 79",)
    found, folder = await kept(tmp_path, Known(xid, Instant(1.0, 1.0)), brief=False)
    assert set(found.evidence) == {
        "plan.json", "recipe.json", "window.jsonl", "connections.json", "processes.json", "host.json", "kernel.txt",
        "inspect.json", "log.txt", "metrics-1.txt", "metrics-2.txt", "metrics-3.txt",
    }  # fmt: skip
    assert (folder / "kernel.txt").read_text() == xid[0]
    rows = json.loads((folder / "connections.json").read_text())["rows"]
    assert rows == [{"state": "ESTABLISHED", "peer": "10.0.0.7", "peer_port": 51000, "accepted": True}]
    assert len(read_recording((folder / "window.jsonl").read_text().splitlines()).samples) >= 1
    assert "no process of the engine runs Python" in found.missing["stacks.txt"]
    everything = "".join(path.read_text() for path in folder.iterdir())
    assert SECRET not in everything
    assert "hf_abcdefgh" not in everything


async def test_a_kernel_log_that_may_not_be_read_is_missing_with_its_reason(tmp_path: Path) -> None:
    found, _ = await kept(tmp_path, Unknown("no right to read /dev/kmsg: this wants CAP_SYSLOG"), brief=False)
    assert "CAP_SYSLOG" in found.missing["kernel.txt"]


async def test_of_an_exited_engine_only_what_its_removal_would_lose(tmp_path: Path) -> None:
    found, _ = await kept(tmp_path, Unknown("never asked"), brief=True)
    assert set(found.evidence) | set(found.missing) == set(BRIEF)


def test_pythons_are_known_under_the_names_that_engines_give_them() -> None:
    one = process(7)
    assert runs_python(replace(one, cmdline=("/opt/venv/bin/python3.11", "-m", "vllm")))
    assert runs_python(replace(one, cmdline=("VLLM::EngineCore",)))
    assert not runs_python(replace(one, cmdline=("/usr/bin/llama-server", "-m", "python.gguf")))


def test_evidence_is_not_removed_for_its_age_after_the_clock_was_set() -> None:
    """A jump by a year makes everything old; for a day age says nothing."""
    steady = Steadiness()
    assert steady.by_age(Instant(0.0, 1_000.0))
    assert steady.by_age(Instant(3_600.0, 4_600.0))
    assert not steady.by_age(Instant(7_200.0, 31_540_000.0))
    assert not steady.by_age(Instant(10_800.0, 31_543_600.0))
    assert steady.by_age(Instant(7_200.0 + 86_400.0, 31_540_000.0 + 86_400.0))
