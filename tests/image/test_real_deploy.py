"""`agentctl pull`, `build` and `deploy` of images that a registry has and that are built from steps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import recipes, rig
from tests.lab import images
from tests.lab.children import free_port
from tests.lab.engine import Engine
from tests.lab.gitserver import GitServer

pytestmark = [pytest.mark.docker, pytest.mark.slow]


def published(engine: Engine, registry: str) -> str:
    """The simulator's image in the registry, and not on the Engine under that name."""
    reference = f"{registry}/simulator:1"
    images.simulator(engine, reference)
    engine.docker("push", "--quiet", reference)
    engine.docker("rmi", reference)
    return reference


def test_an_image_of_a_registry_is_pulled_and_its_digest_told(
    lab_engine: Engine, lab_registry: str, tmp_path: Path
) -> None:
    """As lines where there is no terminal, as JSON with its lock; what is not there ends with 1."""
    reference = published(lab_engine, lab_registry)
    host = rig.Rig(tmp_path, lab_engine)
    host.publish(recipes.recipe("pulled", free_port(), reference))
    host.publish(recipes.recipe("nowhere", free_port(), f"{lab_registry}/nowhere:1"))
    host.configure()
    said = host.ok("pull", "pulled")
    assert f"{reference} is here: sha256:" in said.out
    assert f"pulling {reference}" in said.err
    told = host.ok("pull", "pulled", "-o", "json").json
    assert told["image"]["digest"].startswith("sha256:")
    assert told["lock"]["image"] == told["image"]
    missing = host.ctl("pull", "nowhere", "-o", "json")
    assert (missing.code, missing.error["code"]) == (1, "image.not_found")
    assert host.ctl("build", "pulled").code == 2
    carried_and_pruned(host, lab_engine, reference)


def carried_and_pruned(host: rig.Rig, engine: Engine, reference: str) -> None:
    """Saved with its lock, removed by `prune --yes` after it was listed, and loaded again; then it is nobody's."""
    assert host.ctl("image", "save", "nowhere", "x.tar").code == 1
    host.ok("image", "save", "pulled", "pulled.tar")
    assert reference in host.ok("image", "prune").out
    listed = host.ok("image", "prune", "--yes", "-o", "json").json
    assert [(one["image"], one["removed"]) for one in listed] == [(reference, True)]
    assert engine.docker("images", "--quiet", reference) == ""
    assert reference in host.ok("image", "load", "pulled.tar").out
    assert engine.docker("images", "--quiet", reference) != ""
    images.busybox(engine, reference)
    lock = host.folder / "pulled.tar.lock.json"
    lock.write_text(lock.read_text().replace("sha256:", "sha256:0"))
    assert host.ctl("image", "load", "pulled.tar", "-o", "json").error["code"] == "image.digest_mismatch"


def steps(server: GitServer, base: str, **source: str) -> str:
    """A site's profile with build steps and windows that fit."""
    stated: dict[str, Any] = {"git": server.url("overlay"), "license": "AGPL-3.0", **source}
    entries = [{"copy": {"source": "overlay", "path": "marks", "to": "/marks"}}, {"files": {"exist": ["/marks/one"]}}]
    image = {"base": base, "how": "build", "sources": {"overlay": stated}, "steps": entries}
    return json.dumps({**json.loads(recipes.profile()), "image": image})


def test_a_built_image_is_what_the_deployment_runs(
    lab_engine: Engine, lab_registry: str, git_server: GitServer, tmp_path: Path
) -> None:
    """Under its own name, whatever has the launch's; the daemon finds what the command built."""
    base, commit = published(lab_engine, lab_registry), git_server.commit("overlay", {"marks/one": "1\n"})
    with rig.running(tmp_path, lab_engine) as host:
        own = "somebody/own:v1"
        images.busybox(lab_engine, own)
        document = recipes.recipe("built", free_port(), own)
        host.publish(document, steps(git_server, base))
        refused = host.ctl("build", "built", "-o", "json")
        assert (refused.code, refused.error["code"]) == (3, "plan.missing")
        host.publish(document, steps(git_server, base, commit=commit))
        assert "COPY steps/01/ /marks/" in host.ok("build", "built", "--print").out
        said = host.ok("build", "built")
        assert f"overlay {commit[:12]}, license AGPL-3.0" in said.out
        assert "building recipe-agent/built:" in said.err
        name = said.out.split()[0]
        host.ok("deploy", "built", "--yes", "--wait", "60")
        (container,) = (line.split()[0] for line in host.containers("built"))
        assert lab_engine.docker("inspect", "--format", "{{.Config.Image}}", container).strip() == name
        assert lab_engine.docker("exec", container, "cat", "/marks/one").strip() == "1"
        kept = json.loads(next((tmp_path / "state" / "locks").glob("*.json")).read_text())
        assert kept["sources"]["overlay"]["commit"] == commit
