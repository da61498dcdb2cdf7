"""`agentctl build` and `pull` as far as they go without an Engine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent.cli.main import main

PP4 = "deepseek-v4-1-flash-764b-on-4x-cmp-170hx-pp4-shadow-kv-exl3-2bpw"
DEEPINFER = "deepseek-v4-1-flash-sm80-deepinfer-kernel-port-6x-a100-dspark-k5"


@pytest.fixture
def site(tmp_path: Path) -> tuple[str, ...]:
    """A site on Docker whose Engine nobody could reach."""
    paths = {name: str(tmp_path / name) for name in ("state", "cache", "recipes", "profiles")}
    docker = {"host": f"unix://{tmp_path}/docker.sock"}
    file = tmp_path / "agent.yaml"
    file.write_text(
        json.dumps({"runtime": "docker", "image": "build", "paths": paths, "docker": docker, "sources": []})
    )
    return ("--config", str(file))


@pytest.mark.shared
@pytest.mark.parametrize(
    ("slug", "lines", "gaps"),
    [
        (
            PP4,
            [
                "FROM docker.io/vllm/vllm-openai:deepseekv41-flash-0909",
                "# 1. copy overlay/vllm of dsv41reap-pp (54 files)",
                "COPY steps/01/ {package:vllm}/",
                "COPY steps/03/ {package:vllm}/models/deepseek_v4_1/ampere/",
                "# 4. run patches/pp_relay_img_ids.py of recipe, idempotent",
                "# 8. pip install vllm-exl3 --no-deps",
                "# 9. build the extension exllamav3 for compute capability 8.0",
            ],
            ["image.sources.vllm-backport.commit", "image.sources.vllm-exl3.commit"],
        ),
        (
            DEEPINFER,
            ["FROM base-image.not-stated", "# 2. set SETUPTOOLS_SCM_PRETEND_VERSION", "# 3. pip install vllm"],
            ["image.base"],
        ),
    ],
)
def test_the_shipped_build_plans_can_be_read_anywhere(
    slug: str,
    lines: list[str],
    gaps: list[str],
    site: tuple[str, ...],
    shared: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Nothing is fetched, and what is missing is said beside it; to build is refused."""
    recipe = str(shared / "recipes" / f"{slug}.json")
    assert main(["build", "--print", recipe, *site]) == 0
    said = capsys.readouterr()
    assert [line for line in lines if line not in said.out.splitlines()] == []
    assert [line.split(":")[1].strip() for line in said.err.splitlines()] == gaps
    assert main(["build", recipe, *site, "-o", "json"]) == 3
    error = json.loads(capsys.readouterr().err)["error"]
    assert [one["key"] for one in error["details"]["missing"]] == gaps
    assert main(["pull", recipe, *site]) == 2


@pytest.mark.parametrize("command", [["build", "--print"], ["build"], ["pull"]], ids=" ".join)
def test_an_image_that_nobody_names_is_missing_and_no_wrong_call(
    command: list[str], site: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "recipes").mkdir(exist_ok=True)
    recipe = tmp_path / "recipes" / "bare.json"
    recipe.write_text(json.dumps({"slug": "bare", "config": {"launch": ["vllm", "serve", "m"]}}))
    assert main([*command, str(recipe), *site, "--set", "runtime=docker", "-o", "json"]) == 3
    error = json.loads(capsys.readouterr().err)["error"]
    assert [one["key"] for one in error["details"]["missing"]] == ["image.reference"]


@pytest.mark.parametrize("words", [["save", "x"], ["load"], ["prune", "x"], ["load", "a", "b"]], ids=" ".join)
def test_an_action_of_image_wants_its_words(words: list[str], site: tuple[str, ...]) -> None:
    """Too few and too many end with 2."""
    assert main(["image", *words, *site]) == 2


def test_without_an_engine_the_answer_is_a_sentence(
    site: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of the family, with a hint."""
    assert main(["image", "prune", *site]) == 1
    assert "Docker does not answer" in capsys.readouterr().err
    assert main(["image", "load", str(tmp_path / "none.tar"), *site]) == 1
    assert "no lock beside" in capsys.readouterr().err
