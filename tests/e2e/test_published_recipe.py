"""A published recipe, letter by letter: deployed with one command, or refused with what it needs."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import recipes
from tests.e2e.rig import Rig
from tests.e2e.tap import Tap, tapped
from tests.lab.engine import Engine
from tests.lab.nvml.hosts import cmp170hx
from tests.lab.nvml.standin import StandIn

pytestmark = [pytest.mark.docker, pytest.mark.shared, pytest.mark.timeout(120)]

SLUG = "deepseek-v4-1-flash-764b-on-4x-cmp-170hx-pp4-shadow-kv-exl3-2bpw"
IMAGE = "pp4-exl3:v14"
QUICK = {"SIM_SCALE": "0.01", "SIM_START_S": "450", "SIM_CHECK_MODEL": "1"}
DEFAULTS = {"MemorySwappiness": -1, "ConsoleSize": [0, 0]}  # which the CLI sends with every container
LOWERED = {"requirements": {"memory_available": "1GiB", "memory_total": "1GiB", "disk": "1GB"}}


@pytest.fixture(scope="module")
def published(simulated: Engine) -> Engine:
    """The Engine with the recipe's image, which is the simulator in scaled time; the launch stays as it is."""
    changes = [word for name, value in QUICK.items() for word in ("--change", f"ENV {name}={value}")]
    simulated.docker("create", "--name", "published-base", recipes.IMAGE, "vllm")
    simulated.docker("commit", *changes, "published-base", IMAGE)
    simulated.docker("rm", "published-base")
    return simulated


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """What the launch mounts: a model that is whole, an overlay, a file, and a cache."""
    model = tmp_path / "home" / "models" / "v41-pollard-calibrated"
    overlay = tmp_path / "graft" / "dsv41reap" / "overlay"
    for folder in (model, overlay, tmp_path / "home" / "tilelang-cache"):
        folder.mkdir(parents=True)
    (tmp_path / "graft" / "v41_sitecustom.py").write_text("# nothing to patch\n")
    shard = "model-00001-of-00001.safetensors"
    header = json.dumps({"w": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}).encode()
    (model / shard).write_bytes(struct.pack("<Q", len(header)) + header + bytes(16))
    (model / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": {"w": shard}}))
    (model / "config.json").write_text("{}")
    return tmp_path


@pytest.fixture
def tap(published: Engine, tmp_path: Path) -> Iterator[Tap]:
    with tapped(tmp_path, published.socket) as found:
        yield found


@pytest.fixture
def host(published: Engine, tap: Tap, tree: Path, nvml: StandIn) -> Iterator[Rig]:
    """A rig with four CMP 170HX, its Docker socket tapped, and the site's two variables."""
    nvml.show(cmp170hx(4))
    rig = Rig(tree, published)
    rig.site["variables"] = {"HOME": str(tree / "home"), "GRAFT": str(tree / "graft")}
    rig.site["docker"] = {"host": f"unix://{tap.path}"}
    rig.slugs.add(SLUG)
    try:
        rig.start()
        yield rig
    finally:
        rig.close()


def test_a_published_recipe_is_deployed_verbatim(host: Rig, tap: Tap, tree: Path, shared: Path) -> None:
    """One command, exit 0, the endpoint as the last line; and Docker got what its own CLI would have sent."""
    (host.folder / "profiles" / f"{SLUG}.yaml").write_text(json.dumps(LOWERED))
    document = shared / "recipes" / f"{SLUG}.json"
    began = time.monotonic()
    said = host.ok("deploy", "--yes", str(document))
    print(f"deploy until the container runs {time.monotonic() - began:.2f} s")
    assert said.out.splitlines()[-1] == "http://127.0.0.1:8095/v1"
    host.until(SLUG, "ready", within=40)
    launch = json.loads(document.read_text())["config"]["launch"]
    (posted,) = tap.created()
    wanted = oracle(shared, [variables(word, tree) for word in launch])
    held_to(posted, wanted)
    labels = posted["Labels"]
    assert labels["recipe-agent.recipe"] == SLUG
    assert labels["recipe-agent.generation"] == "1"
    assert labels["recipe-agent.plan"] == host.status(SLUG)["plan_id"]
    assert posted["HostConfig"]["RestartPolicy"]["Name"] == "no"
    assert posted["HostConfig"]["AutoRemove"] is False
    assert posted["HostConfig"]["LogConfig"]["Config"]["max-size"]
    assert host.engine is not None
    seen = json.loads(host.engine.docker("inspect", "dsv41-pp4"))[0]
    assert seen["State"]["Running"]
    assert sorted(seen["HostConfig"]["Binds"]) == wanted["HostConfig"]["Binds"]
    held_to(host.ok("plan", str(document), "-o", "json").json["container"]["body"], wanted)


def test_what_the_host_lacks_is_said_and_nothing_is_created(host: Rig, tap: Tap, shared: Path) -> None:
    """200 GiB of available RAM: what is needed, where that is stated, what was found, and what to do; exit 3."""
    document = str(shared / "recipes" / f"{SLUG}.json")
    assert host.engine is not None
    before = host.engine.docker("ps", "--all", "--quiet")
    said = host.ctl("deploy", "--yes", document)
    assert said.code == 3
    line, hint = [text for text in said.err.splitlines() if text.startswith(("error: ", "hint: "))]
    assert "needs 200 GiB available" in line
    assert "config.runtime.notes" in line
    assert "GiB available, needs" in line
    assert "memory_available" in hint
    assert not tap.created()
    assert host.engine.docker("ps", "--all", "--quiet") == before
    assert not host.containers(SLUG)
    assert host.api("/v1/deployments") == []
    error = host.ctl("deploy", "--yes", document, "-o", "json")
    assert error.code == 3
    found = {one["check"]: one for one in error.error["details"]["findings"]}["memory.available"]
    assert found["level"] == "fail"
    assert all(found[key] for key in ("found", "need", "origin", "hint"))
    assert host.ctl("preflight", document, "-o", "json").json["ok"] is False


def variables(word: str, tree: Path) -> str:
    return word.replace("$HOME", str(tree / "home")).replace("$GRAFT", str(tree / "graft"))


def oracle(shared: Path, words: list[str]) -> dict[str, Any]:
    """What the docker CLI sends for these words."""
    program = [sys.executable, str(shared / "corpus" / "tools" / "oracle.py"), "--argv", json.dumps(words)]
    done = subprocess.run(program, capture_output=True, text=True, timeout=60, check=True)
    found: dict[str, Any] = json.loads(done.stdout)["request"]
    return found


def held_to(posted: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """The body against the CLI's, key by key: labels and restart policy apart, nothing and zero are the same."""
    for section, body in (("Config", posted), ("HostConfig", posted["HostConfig"])):
        for key, value in wanted[section].items():
            if key not in ("Labels", "RestartPolicy"):
                assert plain(body.get(key)) == plain(value), f"{section}.{key}"
    extra = {key for key, value in posted["HostConfig"].items() if plain(value) not in (None, DEFAULTS.get(key))}
    assert extra <= {*wanted["HostConfig"], "LogConfig"}


def plain(value: Any) -> Any:
    if (
        isinstance(value, list)
        and all(isinstance(item, str) for item in value)
        and any("=" in i or ":" in i for i in value)
    ):
        value = sorted(value)
    if isinstance(value, Mapping):
        value = {key: plain(item) for key, item in value.items() if plain(item) is not None}
    elif isinstance(value, list):
        value = [plain(item) if isinstance(item, Mapping) else item for item in value]
    return value if value not in ("", 0, False, [], {}, "default") else None
