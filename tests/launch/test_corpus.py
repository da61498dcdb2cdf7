"""Hundreds of real launches and the docker CLI's own answers: the same container, or a refusal."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from agent.launch import cli
from agent.launch.body import launch_of
from agent.launch.equal import differing
from agent.launch.model import CommandLaunch, ContainerLaunch, Context, SetupStep
from agent.launch.read import read_argv, read_compose, read_shell
from agent.launch.refusal import LaunchRefused
from agent.launch.write import to_docker_run

pytestmark = pytest.mark.shared

HOME = {"HOME": "/home/op", "PWD": "/home/op/work", "USER": "op"}
ENV_FILE = "# a comment\nSTUB_FROM_ENV_FILE=1\nNOT_SET_ANYWHERE\n"
ENV_FILES = dict.fromkeys((".env", "VAR_ENV_FILE", "var_env_file"), ENV_FILE)


def rows(shared: Path, name: str) -> Iterator[dict[str, Any]]:
    with (shared / "corpus" / name).open() as lines:
        yield from (json.loads(line) for line in lines)


@pytest.fixture(scope="module")
def harness(shared: Path) -> ModuleType:
    """The corpus's own way to normalise a request."""
    import sys

    folder = shared / "corpus" / "tools"
    sys.path.insert(0, str(folder))
    try:
        spec = importlib.util.spec_from_file_location("corpus_harness", folder / "harness.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    finally:
        sys.path.remove(str(folder))


def context_of(row: dict[str, Any]) -> Context:
    given = row.get("env", HOME)
    variables = {name: value for name, value in given.items() if isinstance(value, str)}
    arguments = [value for name, value in given.items() if not isinstance(value, str)]
    variables |= {str(at): text for at, text in enumerate(arguments[0], 1)} if arguments else {}
    return Context(variables, row.get("substitutions", {}), variables["PWD"], ENV_FILES)


def containers(row: dict[str, Any]) -> list[ContainerLaunch]:
    pieces = read_shell(row.get("oracle_command") or row["command"], context_of(row))
    return [piece for piece in pieces if isinstance(piece, ContainerLaunch)]


def request_of(harness: ModuleType, launch: ContainerLaunch) -> dict[str, Any]:
    named = {"name": launch.name, "platform": launch.platform}
    return dict(harness.norm_request({key: value for key, value in named.items() if value}, launch.body))


def test_what_the_cli_accepts_is_the_same_container(shared: Path, harness: ModuleType):
    """Every published command that the CLI takes gives the request that the CLI sends."""
    wrong = []
    for row in rows(shared, "docker_run.jsonl"):
        if row["cli"]["accepted"]:
            found = differing(row["request"], request_of(harness, containers(row)[0]))
            wrong += [(row["id"], found)] if found else []
    assert wrong == []


def test_what_the_cli_rejects_is_refused_in_words(shared: Path):
    """What the CLI rejects, or what only its author's machine could know, is refused with something to do."""
    for row in rows(shared, "docker_run.jsonl"):
        if row["cli"]["accepted"]:
            continue
        with pytest.raises(LaunchRefused) as caught:
            containers(row)
        assert caught.value.text.startswith("cannot convert"), row["id"]
        assert caught.value.advice, row["id"]


def test_what_only_the_author_knows_is_named(shared: Path):
    """An unknown substitution is in the message, so that a person can supply it."""
    unknown = [row for row in rows(shared, "docker_run.jsonl") if row["cli"]["accepted"] is None]
    assert len(unknown) == 7
    for row in unknown:
        with pytest.raises(LaunchRefused) as caught:
            containers(row)
        named = row["cli"]["error"].removeprefix("not run: substitution: ")
        assert named in caught.value.text, row["id"]


def test_probes_at_the_edges_of_every_flag(shared: Path, harness: ModuleType):
    """Synthetic argument lists: accepted alike, and what differs from the defaults is the same."""
    wrong: list[Any] = []
    for row in rows(shared, "probes.jsonl"):
        try:
            launch = read_argv(row["argv"], Context(HOME, {}, HOME["PWD"]))
        except LaunchRefused as refusal:
            wrong += [(row["id"], refusal.text)] if row["accepted"] else []
            continue
        assert isinstance(launch, ContainerLaunch)
        wrong += [] if row["accepted"] else [(row["id"], "accepted")]
        wrong += [(row["id"], key) for key in beside(row, request_of(harness, launch))]
    assert wrong == []


def beside(row: dict[str, Any], got: dict[str, Any]) -> list[str]:
    """Keys of the row's answer that came out otherwise."""
    wanted = row.get("request_nondefault") or {}
    return [
        f"{part}.{key}"
        for part, values in wanted.items()
        for key, value in values.items()
        if differing({key: value}, {key: (got.get(part) or {}).get(key)})
    ]


def test_accepted_launches_survive_the_way_back(shared: Path):
    """To docker run and read again: the same container."""
    accepted = [row for row in rows(shared, "docker_run.jsonl") if row["cli"]["accepted"]]
    for row in accepted:
        launch = containers(row)[0]
        line = cli.parse(to_docker_run(launch), Context())
        again = launch_of(line, Context())
        assert differing(launch.body, again.body) == [], row["id"]
        assert (again.name, again.platform) == (launch.name, launch.platform)
    assert len(accepted) > 200


def test_bare_command_lines(shared: Path):
    """Program, arguments and environment of every bare command; steps are steps and nothing else."""
    for row in rows(shared, "bare.jsonl"):
        if row.get("expand_error") == "unterminated quote":
            with pytest.raises(LaunchRefused):
                read_shell(row["command"], context_of(row))
            continue
        first = read_shell(row.get("oracle_command") or row["command"], context_of(row))[0]
        if row["kind"].startswith("step-"):
            assert isinstance(first, SetupStep), row["id"]
            assert first.kind.replace("hf_", "").replace("_", "-") == row["kind"].removeprefix("step-")
        elif isinstance(first, CommandLaunch):
            assert [*first.wrapper, *first.argv] == row["argv"], row["id"]
            assert [f"{name}={value}" for name, value in first.env.items()] == row.get("env_prefix", []), row["id"]


def test_a_recipes_own_launch(shared: Path):
    """A recipe's argument list comes out with its variables filled in, word for word."""
    name = "deepseek-v4-1-flash-764b-on-4x-cmp-170hx-pp4-shadow-kv-exl3-2bpw.json"
    argv = json.loads((shared / "recipes" / name).read_text())["config"]["launch"]
    launch = read_argv(argv, Context({"HOME": "/home/op", "GRAFT": "/srv/graft"}))
    assert isinstance(launch, ContainerLaunch)
    assert launch.name == "dsv41-pp4"
    assert launch.body["HostConfig"]["Binds"][1] == "/srv/graft/dsv41reap/overlay:/overlay:ro"
    assert launch.body["Cmd"] == argv[argv.index("pp4-exl3:v14") + 1 :]
    assert launch.warnings == ()


@pytest.mark.parametrize("number", range(1, 16))
def test_compose_files(shared: Path, number: int):
    """Every file gives its engines once the variables it asks for are supplied, or says that it has none."""
    text = (shared / "corpus" / "compose" / f"{number:02}.yaml").read_text()
    variables = HOME | {"HF_TOKEN": "t", "NGC_API_KEY": "k"}
    context = Context(variables, {}, "/home/op/work", {".env": "A=1\n"})
    if number == 1:
        with pytest.raises(LaunchRefused, match="compose/models-gpt"):
            read_compose(text, context)
        return
    for launch in read_compose(text, context):
        assert launch.body["Image"]
        assert launch.name
