"""Evidence is gathered under one deadline, appears whole, and stays as long as it may."""

from __future__ import annotations

import asyncio
import io
import json
import os
import tarfile
from pathlib import Path

import pytest

from agent.errors import NotFound, RuntimeTrouble
from agent.incident.keep import keep
from agent.incident.model import Case
from agent.incident.shelf import export, incidents, show, tidy
from agent.incident.veil import Veil
from agent.samples.recording import read_recording


def case(kind: str = "busy", at: float = 1_800_000_000.0) -> Case:
    return Case(
        slug="demo", kind=kind, why="nothing moves", at=at, generation=2, container="c2", plan_id="p", verdict={"a": 1}
    )


async def text() -> str:
    return "HF_TOKEN=hf_abcdefgh12345678 and a fact"


async def fails() -> str:
    raise RuntimeTrouble(action="inspect the container", why="no answer")


async def late() -> str:
    await asyncio.Event().wait()
    return ""


async def test_what_fails_or_is_late_is_named_and_costs_nothing_else(tmp_path: Path) -> None:
    """Two of three sources give nothing: the third is kept and the reasons are."""
    incident = await keep(tmp_path, case(), {"log.txt": text, "inspect.json": fails, "gpus.json": late}, deadline_s=0.2)
    assert set(incident.evidence) == {"log.txt"}
    assert "no answer" in incident.missing["inspect.json"]
    assert "within" in incident.missing["gpus.json"]
    assert "hf_abcdefgh" not in (tmp_path / incident.id / "log.txt").read_text()
    assert show(tmp_path, incident.id)["verdict"] == {"a": 1}


async def test_a_recording_stays_one_without_its_secrets(tmp_path: Path) -> None:
    """Each line of JSON Lines is cleaned value by value: text cut out of the middle of one would break it."""
    line = {"t": 1.0, "container": "exited", "log": [{"text": 'HF_TOKEN=hf_abcdefgh12345678" --api-key s3cret\\'}]}

    async def window() -> str:
        return json.dumps(line) + "\n" + json.dumps({**line, "t": 2.0})

    incident = await keep(tmp_path, case(), {"window.jsonl": window})
    kept = (tmp_path / incident.id / "window.jsonl").read_text()
    assert len(read_recording(kept.splitlines()).samples) == 2
    assert "hf_abcdefgh" not in kept
    assert "s3cret" not in kept


async def test_a_kill_midway_leaves_no_half_incident(tmp_path: Path) -> None:
    """A cancelled gathering shows nothing in the list."""
    task = asyncio.create_task(keep(tmp_path, case(), {"x.txt": late}))
    await asyncio.sleep(0.05)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert incidents(tmp_path) == []


async def test_export_is_one_archive_with_every_file(tmp_path: Path) -> None:
    """The archive holds what the folder holds, under the incident's name."""
    incident = await keep(tmp_path, case(), {"log.txt": text})
    with tarfile.open(fileobj=io.BytesIO(export(tmp_path, incident.id)), mode="r:gz") as archive:
        names = archive.getnames()
        member = archive.extractfile(f"{incident.id}/incident.json")
        assert member is not None
        assert json.load(member)["kind"] == "busy"
    assert sorted(names) == [f"{incident.id}/incident.json", f"{incident.id}/log.txt"]


@pytest.mark.parametrize("name", ["../secret", "a/b", ".hidden", "none"])
def test_an_id_is_no_path(tmp_path: Path, name: str) -> None:
    """Only a name of a kept incident is one."""
    with pytest.raises(NotFound):
        show(tmp_path, name)


async def test_old_and_large_evidence_goes_oldest_first(tmp_path: Path) -> None:
    """Age first, then size; the newest always stays."""
    old = await keep(tmp_path, case(at=1_700_000_000.0), {"log.txt": text})
    middle = await keep(tmp_path, case(at=1_800_000_000.0), {"log.txt": text})
    newest = await keep(tmp_path, case(at=1_800_000_100.0), {"log.txt": text})
    os.utime(tmp_path / old.id, (1_700_000_000, 1_700_000_000))
    assert tidy(tmp_path, keep_days=90, max_bytes=10**9, now=1_800_000_200.0) == [old.id]
    assert tidy(tmp_path, keep_days=90_000, max_bytes=1) == [middle.id]
    assert [one.id for one in incidents(tmp_path, "demo")] == [newest.id]


def test_what_a_killed_agent_left_unfinished_goes(tmp_path: Path) -> None:
    """A folder that never became an incident; one that may still be written stays."""
    old, young = tmp_path / ".old.partial", tmp_path / ".young.partial"
    for folder in (old, young):
        folder.mkdir()
    os.utime(old, (1000.0, 1000.0))
    os.utime(young, (9000.0, 9000.0))
    assert tidy(tmp_path, keep_days=90, max_bytes=1, now=10_000.0) == []
    assert (old.exists(), young.exists()) == (False, True)


async def test_too_much_is_cut_where_it_may_be_and_left_out_where_half_would_be_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Text keeps its end, a recording its head and its newest lines, JSON is whole or missing; the sum is bounded."""
    monkeypatch.setattr("agent.incident.keep.LARGEST_PIECE", 1000)
    monkeypatch.setattr("agent.incident.keep.LARGEST_INCIDENT", 2300)

    async def window() -> str:
        return "\n".join(["{}", *(json.dumps({"t": number, "container": "exited"}) for number in range(200))])

    async def large() -> str:
        return json.dumps(list(range(1000)))

    async def log() -> str:
        return "first\n" + "middle\n" * 1000 + "last"

    sources = {"window.jsonl": window, "inspect.json": large, "log.txt": log, "kernel.txt": text, "stacks.txt": log}
    incident = await keep(tmp_path, case(), sources)
    folder = tmp_path / incident.id
    lines = (folder / "window.jsonl").read_text().splitlines()
    assert lines[0] == "{}"
    assert json.loads(lines[-1])["t"] == 199
    assert (folder / "log.txt").read_text().endswith("last")
    assert "no JSON" in incident.missing["inspect.json"]
    assert sum(incident.evidence.values()) <= 2300
    assert "left out" in incident.missing["stacks.txt"]


async def test_a_source_that_gives_broken_json_costs_only_itself(tmp_path: Path) -> None:
    async def broken() -> str:
        return "{no json"

    incident = await keep(tmp_path, case(), {"plan.json": broken, "log.txt": text})
    assert set(incident.evidence) == {"log.txt"}
    assert "plan.json" in incident.missing


async def test_a_known_secret_leaves_a_recording_without_breaking_it(tmp_path: Path) -> None:
    """The veil hides what looks like a secret too, and `"key": null` in raw JSON looks like one."""
    veil = Veil()
    veil.learn("topsecret")

    async def window() -> str:
        head = {"engine": {"kind": "vllm", "api_key": None}, "learned": {"max_token": 4}}
        return json.dumps(head) + "\n" + json.dumps({"t": 1.0, "container": "exited", "log": ["with topsecret"]})

    incident = await keep(tmp_path, case(), {"window.jsonl": window}, hide=veil.text)
    lines = (tmp_path / incident.id / "window.jsonl").read_text().splitlines()
    assert json.loads(lines[0])["engine"]["kind"] == "vllm"
    assert "topsecret" not in lines[1]
