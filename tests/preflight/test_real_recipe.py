"""The recipe of four 64 GB cards with 189 GiB of pinned RAM, with its shipped profile and no site profile."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.plan.compile import compile_plan
from agent.plan.inputs import Inputs
from agent.plan.model import Plan
from agent.preflight.case import Case
from agent.preflight.catalogue import CHECKS
from agent.preflight.facts import PathFact
from agent.preflight.model import Level, passed
from agent.preflight.render import as_text
from agent.preflight.run import run
from agent.profile.load import shipped
from agent.quantity import Bytes
from agent.recipe.read import read_recipe
from agent.settings.model import Settings
from tests.preflight.build import FakeFacts, cards, disk, file, folder, known, memory

pytestmark = pytest.mark.shared
SLUG = "deepseek-v4-1-flash-764b-on-4x-cmp-170hx-pp4-shadow-kv-exl3-2bpw"
SITE = Settings.model_validate({"runtime": "docker", "variables": {"HOME": "/home/a", "GRAFT": "/srv/graft"}})


@pytest.fixture
def recipe(shared: Path) -> Plan:
    source = shared / "recipes" / f"{SLUG}.json"
    document = read_recipe(source.read_bytes(), str(source))
    return compile_plan(Inputs(document, SITE, shipped=shipped(SLUG), gpus=known(cards(4))))


def there(plan: Plan) -> dict[str, PathFact]:
    """Everything that its mounts want."""
    kinds = {"/srv/graft/v41_sitecustom.py": file}
    binds = [text.partition(":")[0] for text in plan.container.body["HostConfig"]["Binds"]] if plan.container else []
    model = "/home/a/models/v41-pollard-calibrated"
    return {path: kinds.get(path, folder)(path) for path in (*binds, model)}


def rig(plan: Plan, available: Bytes) -> FakeFacts:
    """The author's rig, with so much RAM to be had."""
    header = b'{"w": {"data_offsets": [0, 2]}}'
    whole = len(header).to_bytes(8, "little") + header + b"xx"
    shard = "/home/a/models/v41-pollard-calibrated/model.safetensors"
    return FakeFacts(
        disks={"/dev/shm": known(disk("/dev/shm", Bytes.gib(188)))},
        ram=known(memory(Bytes.gib(377), available)),
        paths={path: known(fact) for path, fact in there(plan).items()},
        folders={"/home/a/models/v41-pollard-calibrated": (file(shard, size=Bytes(len(whole))),)},
        contents={shard: whole},
    )


async def test_the_authors_own_rig_passes(recipe: Plan) -> None:
    findings = await run(Case(recipe, rig(recipe, Bytes.gib(210))))
    assert passed(findings), as_text(findings)


async def test_without_200_gib_it_is_refused_with_need_origin_and_what_to_do(recipe: Plan) -> None:
    findings = await run(Case(recipe, rig(recipe, Bytes.gib(163))))
    refusing = [one for one in findings if one.refuses]
    assert [one.check for one in refusing] == ["memory.available"]
    assert refusing[0].level is Level.FAIL
    assert refusing[0].found == "163 GiB available"
    assert refusing[0].need == "200 GiB available"
    assert "config.runtime.notes" in refusing[0].origin
    assert "host RAM available ≥200 GB (engram pin 189 GiB)" in refusing[0].origin
    assert "requirements.memory_available in the site's profile" in refusing[0].hint


async def test_every_requirement_of_the_plan_has_its_check(recipe: Plan) -> None:
    assert {need.id for need in recipe.requirements} <= {check.id for check in CHECKS}
    assert {"gpu.count", "gpu.busy", "memory.available", "driver.version"} <= {need.id for need in recipe.requirements}


async def test_its_mounts_are_asked_for_one_by_one(recipe: Plan) -> None:
    facts = rig(recipe, Bytes.gib(210))
    facts.paths = {}
    findings = {one.check: one for one in await run(Case(recipe, facts))}
    assert [Path(one["source"]).name for one in findings["binds"].details["wrong"]] == [
        "models",
        "overlay",
        "v41_sitecustom.py",
        "tilelang-cache",
    ]
