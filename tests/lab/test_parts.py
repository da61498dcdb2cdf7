"""The lab's servers behave as the real ones that they stand for."""

from __future__ import annotations

import json
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.lab import children, gitserver, images, prometheus, recipesite
from tests.lab.engine import Engine
from tests.lab.recipesite import Fault, RecipeSite


def document(slug: str, **more: object) -> bytes:
    """A small recipe document."""
    return json.dumps({"slug": slug, "title": slug.title(), "revision": {"content_hash": "ab"}, **more}).encode()


def fetch(url: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body."""
    request = urllib.request.Request(url, headers={name.replace("_", "-"): text for name, text in headers.items()})
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:
            return answer.status, dict(answer.headers), answer.read()
    except urllib.error.HTTPError as answer:
        with answer:
            return answer.code, dict(answer.headers), answer.read()


@pytest.mark.docker
def test_an_image_is_pushed_and_pulled_by_digest(lab_engine: Engine, lab_registry: str) -> None:
    """The registry gives back what it was given, under the digest that it named."""
    name = f"{lab_registry}/busybox:1"
    images.busybox(lab_engine, name)
    lab_engine.docker("push", name)
    (digest,) = json.loads(lab_engine.docker("inspect", name))[0]["RepoDigests"]
    lab_engine.docker("rmi", name)
    lab_engine.docker("pull", digest)
    assert lab_engine.docker("run", "--rm", digest, "echo", "here").strip() == "here"


@pytest.mark.docker
def test_the_simulators_image_holds_a_whole_python(lab_engine: Engine) -> None:
    """What an engine's server needs of the library is there, with the shared objects under it."""
    images.simulator(lab_engine, "sim:lab")
    modules = "import asyncio, ctypes, http.server, json, mmap, socket, sqlite3, ssl, zlib; print('ok')"
    assert lab_engine.docker("run", "--rm", "sim:lab", "python3", "-c", modules).strip() == "ok"


@pytest.mark.docker
@pytest.mark.parametrize(
    ("entrypoint", "words"),
    [
        ("vllm", ("serve", "/models/m", "--host", "0.0.0.0", "--port", "8095")),
        ("python3", ("-m", "sglang.launch_server", "--model-path", "/models/m", "--host", "0.0.0.0", "--port", "8095")),
        ("llama-server", ("-m", "/models/m.gguf", "--host", "0.0.0.0", "--port", "8095")),
    ],
    ids=["vLLM", "SGLang", "llama.cpp"],
)
def test_an_engine_starts_as_recipes_start_it(lab_engine: Engine, entrypoint: str, words: tuple[str, ...]) -> None:
    """With the recipe's own words, a PYTHONPATH of its own, and a port that answers on loopback."""
    images.simulator(lab_engine, "engine:lab")
    quick = ("-e", "SIM_START_S=0.5", "-e", "SIM_BOOT_S=0.1", "-e", "PYTHONPATH=/overlay")
    asked = ("-d", "--name", "engine", "-p", "127.0.0.1:18095:8095", *quick, "--entrypoint", entrypoint, "engine:lab")
    lab_engine.docker("run", *asked, *words)
    try:
        deadline = time.monotonic() + 30
        while not healthy(18095):
            assert time.monotonic() < deadline, lab_engine.docker("logs", "engine")
            time.sleep(0.1)
    finally:
        lab_engine.docker("rm", "--force", "engine")


def healthy(port: int) -> bool:
    """Whether an engine says that it is ready."""
    try:
        return children.get(port, "/health")[0] == 200
    except OSError:
        return False


@pytest.mark.prometheus
def test_promtool_tells_good_rules_from_bad(prometheus_tools: prometheus.Tools, tmp_path: Path) -> None:
    """Its exit status can be trusted both ways."""
    rules = tmp_path / "rules.yml"
    rules.write_text('{"groups": [{"name": "a", "rules": [{"alert": "Down", "expr": "up == 0"}]}]}')
    assert prometheus_tools.promtool_run("check", "rules", rules).returncode == 0
    rules.write_text('{"groups": [{"name": "a", "rules": [{"alert": "Down", "expr": "up = = 0"}]}]}')
    assert prometheus_tools.promtool_run("check", "rules", rules).returncode != 0


@pytest.mark.docker
@pytest.mark.prometheus
@pytest.mark.usefixtures("lab_session")
def test_prometheus_and_alertmanager_run(prometheus_tools: prometheus.Tools, tmp_path: Path) -> None:
    """Both become ready on loopback."""
    route = {"route": {"receiver": "none"}, "receivers": [{"name": "none"}]}
    with (
        prometheus.running(prometheus_tools, tmp_path, {"scrape_configs": []}) as port,
        prometheus.alertmanager(prometheus_tools, tmp_path, route) as alerts,
    ):
        assert children.get(port, "/-/healthy")[0] == 200
        assert children.get(alerts, "/-/healthy")[0] == 200


def test_any_commit_is_fetched_by_its_hash(git_server: gitserver.GitServer, tmp_path: Path) -> None:
    """Also one that no branch ends in, shallow, as builds do it."""
    first = git_server.commit("overlay", {"src/a.py": "1"})
    second = git_server.commit("overlay", {"src/a.py": "2"})
    assert first != second
    clone = str(tmp_path / "clone")
    gitserver.git("init", "--quiet", clone)
    gitserver.git("-C", clone, "fetch", "--quiet", "--depth=1", git_server.url("overlay"), first)
    assert gitserver.git("-C", clone, "show", "FETCH_HEAD:src/a.py") == "1"
    with pytest.raises(subprocess.CalledProcessError):
        gitserver.git("-C", clone, "fetch", "--quiet", git_server.url("nothing"))


def test_the_listing_has_pages_and_says_what_it_applied() -> None:
    """A filter that the site does not know is null in `meta.applied`."""
    recipes = [document(f"r{number}", tier="official" if number % 2 else "community") for number in range(5)]
    with recipesite.running(recipes, per_page=2) as site:
        listing = json.loads(fetch(f"{site.url}/api/v1/recipes.json?page=2&tier=community&vram=64")[2])
    assert [entry["slug"] for entry in listing["recipes"]] == ["r4"]
    assert listing["meta"]["pages"] == 2
    assert listing["meta"]["applied"]["tier"] == "community"
    assert listing["meta"]["applied"]["vram"] is None


def test_a_document_is_served_as_it_is_and_only_when_it_changed(recipe_site: RecipeSite) -> None:
    """Byte for byte, with an ETag that a second request can hold against it."""
    body = document("one") + b" \n"
    recipe_site.publish(body)
    url = f"{recipe_site.url}/api/v1/recipes/one.json"
    status, headers, got = fetch(url)
    assert (status, got) == (200, body)
    assert fetch(url, If_None_Match=headers["ETag"])[0] == 304
    recipe_site.publish(document("one", tier="official"))
    assert fetch(url, If_None_Match=headers["ETag"])[0] == 200
    assert [asked.headers.get("if-none-match") for asked in recipe_site.asked] == [
        None,
        headers["ETag"],
        headers["ETag"],
    ]


@pytest.mark.parametrize(
    ("fault", "status", "kind"),
    [
        (Fault.BROKEN, 500, "text/plain"),
        (Fault.WRONG_TYPE, 200, "text/html"),
        (Fault.WRONG_SHAPE, 200, "application/json"),
        (Fault.HUGE, 200, "application/json"),
    ],
)
def test_a_fault_shows_and_passes(recipe_site: RecipeSite, fault: Fault, status: int, kind: str) -> None:
    """Every answer has it until it is taken back."""
    recipe_site.publish(document("one"))
    url = f"{recipe_site.url}/api/v1/recipes/one.json"
    recipe_site.fault = fault
    got, headers, body = fetch(url)
    assert (got, headers["Content-Type"]) == (status, kind)
    assert (len(body) > 5_000_000) == (fault is Fault.HUGE)
    recipe_site.fault = Fault.NONE
    assert fetch(url)[2] == document("one")


def test_a_slow_site_answers_when_the_fault_is_taken_back(recipe_site: RecipeSite) -> None:
    """Until then a client waits in vain."""
    recipe_site.publish(document("one"))
    recipe_site.fault = Fault.SLOW
    with pytest.raises(TimeoutError):
        urllib.request.urlopen(f"{recipe_site.url}/api/v1/recipes/one.json", timeout=0.2)
