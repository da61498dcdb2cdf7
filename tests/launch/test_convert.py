"""`agentctl convert`: files in, a container body or a command line out, refusals in words."""

from __future__ import annotations

import argparse
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agent.cli import convert
from agent.errors import AgentError, InvalidInput, UsageError
from agent.launch.refusal import LaunchRefused, NoLaunch, NotCarried, OtherDocument, ShellConstruct, UnknownVariable


@pytest.fixture
def call(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Run the command on a text; what it printed, read as JSON where it is."""

    def run(text: str, *options: str, name: str = "launch.sh", target: str = "engine-api", output: str = "text") -> Any:
        path = tmp_path / name
        path.write_text(text)
        parser = argparse.ArgumentParser()
        convert.add_arguments(parser)
        arguments = parser.parse_args([str(path), "--to", target, *options])
        arguments.output = output
        assert convert.run(arguments) == 0
        printed = capsys.readouterr().out
        return json.loads(printed) if printed.startswith(("{", "[")) else printed

    return run


@pytest.fixture
def variables(tmp_path: Path) -> str:
    """A file of variables, in the form of an env file."""
    path = tmp_path / "vars"
    path.write_text('# the site\'s\nHOME=/home/a\nTOKEN=a=b "c"\nBARE\n1=first\n')
    return str(path)


def test_a_body_with_its_name_and_platform(call, variables: str):
    """The contract's object; variables from the file alone, literally."""
    text = "docker run --name n --platform arm64 -v ~/m:/m -e TOKEN -e BARE img $TOKEN $1"
    got = call(text, "--env-file", variables)
    assert set(got) == {"name", "platform", "body", "warnings"}
    assert (got["name"], got["platform"]) == ("n", "linux/arm64")
    assert got["body"]["HostConfig"]["Binds"] == ["/home/a/m:/m"]
    assert got["body"]["Env"] == ['TOKEN=a=b "c"', "BARE"]
    assert got["body"]["Cmd"] == ["a=b", '"c"', "first"]
    assert "BARE" in got["warnings"][0]


def test_variables_never_come_from_the_environment(call, monkeypatch: pytest.MonkeyPatch):
    """Neither into words nor into `-e NAME`."""
    monkeypatch.setenv("OF_THIS_PROCESS", "x")
    assert call("docker run -e OF_THIS_PROCESS img")["body"]["Env"] == ["OF_THIS_PROCESS"]
    with pytest.raises(UnknownVariable) as caught:
        call("docker run img $OF_THIS_PROCESS $OTHER")
    assert caught.value.details["missing"] == ["OF_THIS_PROCESS", "OTHER"]
    assert caught.value.exit_code == 3


def test_substitutions_may_hold_equals_signs(call):
    """COMMAND=VALUE is parted where the launch says."""
    text = "docker run -u $(id -u) -w $(pwd) img $(env A=1 x --y=2)"
    got = call(text, "--cwd", "/w", "--substitute", "id -u=7", "--substitute", "env A=1 x --y=2=v=w")["body"]
    assert (got["User"], got["WorkingDir"], got["Cmd"]) == ("7", "/w", ["v=w"])


def test_several_launches_are_a_list(call):
    """One object for one, a list for more."""
    got = call("docker pull a\ndocker run a\ndocker run b")
    assert [document["body"]["Image"] for document in got] == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "name", "options"),
    [
        ('["docker", "run", "img", "a b"]', "x.json", []),
        ("docker run img 'a b'", "x.txt", []),
        ("docker run img 'a b'", "x.txt", ["--from", "docker-run"]),
        ("services:\n  a: {image: vllm/x, command: [a b]}", "x.yml", ["--cwd", "/p"]),
        ("services:\n  a: {image: vllm/x, command: [a b]}", "x", ["--cwd", "/p"]),
    ],
)
def test_the_form_is_found_out(call, text: str, name: str, options: list[str]):
    """Argument lists, shell lines and compose files look like what they are."""
    assert call(text, *options, name=name)["body"]["Cmd"] == ["a b"]


def test_a_bare_command_line_says_what_it_lacks(call):
    """Its words and environment, and that no image is named."""
    got = call("A=1 nohup vllm serve m &", "--from", "shell")
    assert got["body"] == {"Cmd": ["vllm", "serve", "m"], "Env": ["A=1"]}
    assert got["command"]["wrapper"] == ["nohup"]
    assert "Image" in got["warnings"][-1]
    with pytest.raises(NotCarried):
        call("vllm serve m", target="docker-run")


def test_the_other_way(call):
    """A line for a shell, and a list of words as JSON."""
    text = "services:\n  a: {image: vllm/x, command: [a b], ports: ['1:2']}"
    line = call(text, "--cwd", "/p", target="docker-run")
    assert line == "docker run --name p-a-1 -p 1:2 vllm/x 'a b'\n"
    got = call(text, "--cwd", "/p", target="docker-run", output="json")
    assert got["argv"] == ["docker", "run", "--name", "p-a-1", "-p", "1:2", "vllm/x", "a b"]


def test_files_of_the_client_are_read_below_cwd(call, tmp_path: Path):
    """As the docker client would."""
    (tmp_path / "my.env").write_text("A=1\n")
    assert call("docker run --env-file my.env img", "--cwd", str(tmp_path))["body"]["Env"] == ["A=1"]
    with pytest.raises(LaunchRefused, match="No such file"):
        call("docker run --env-file no.env img", "--cwd", str(tmp_path))
    (tmp_path / "latin").write_bytes(b"A=\xff\n")
    with pytest.raises(LaunchRefused, match="UTF-8"):
        call("docker run --env-file latin img", "--cwd", str(tmp_path))


@pytest.mark.parametrize(
    ("text", "options", "kind", "code"),
    [
        ("git clone https://h/r", [], LaunchRefused, 3),
        ("vllm serve m", ["--from", "docker-run"], LaunchRefused, 3),
        ("", [], LaunchRefused, 3),
        ("docker run img", ["--substitute", "no sign"], UsageError, 2),
        ("docker run img", ["--env-file", "/nowhere"], InvalidInput, 1),
        ("[1]", [], InvalidInput, 1),
        ('["docker", "run", "a\\u0000"]', [], InvalidInput, 1),
        ("[[", ["--from", "argv"], InvalidInput, 1),
        ("a\0b", [], InvalidInput, 1),
    ],
)
def test_errors(call, text: str, options: list[str], kind: type[AgentError], code: int):
    """Each with the contract's exit status."""
    with pytest.raises(kind) as caught:
        call(text, *options)
    assert caught.value.exit_code == code


def test_a_refusal_lists_the_steps_it_found(call):
    """What was recognised is not lost."""
    with pytest.raises(LaunchRefused) as caught:
        call("git clone https://h/r\nhf download org/m")
    assert [step["kind"] for step in caught.value.details["steps"]] == ["git_clone", "hf_download"]


def test_standard_input(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    """`-` is the launch itself."""
    monkeypatch.setattr(sys, "stdin", argparse.Namespace(buffer=io.BytesIO(b"docker run img")))
    parser = argparse.ArgumentParser()
    convert.add_arguments(parser)
    assert convert.run(parser.parse_args(["-", "--to", "engine-api"])) == 0
    assert json.loads(capsys.readouterr().out)["body"]["Image"] == "img"


def test_the_parser_costs_no_imports():
    """Building the command line of agentctl loads none of the launch package."""
    code = "import sys, argparse; from agent.cli import convert; convert.add_arguments(argparse.ArgumentParser()); "
    code += "print([name for name in sys.modules if name.startswith('agent.launch') or name in ('yaml', 'json')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_compose_file_is_meant_from_its_own_folder(call, tmp_path: Path):
    """And is known by its first word, in whichever style the YAML is written."""
    text = "services: {llm: {image: vllm/vllm-openai, command: --model m, volumes: ['./m:/m']}}\n"
    for name in ("compose.yaml", "launch.txt"):
        assert call(text, name=name)["body"]["HostConfig"]["Binds"] == [f"{tmp_path}/m:/m"]
    assert call(text, "--cwd", "/srv/p")["name"] == "p-llm-1"


@pytest.mark.parametrize("prompt", ["$", "%", "❯"])
def test_a_prompt_is_no_program(call, prompt: str):
    """Its line is none that can be run, and no bare command of that name."""
    with pytest.raises(NoLaunch):
        call(f"{prompt} docker run img")
    with pytest.raises(NoLaunch, match="begins with a prompt"):
        call(json.dumps([prompt, "docker", "run", "img"]))
    assert call(f"{prompt} docker run img\ndocker run other")["body"]["Image"] == "other"


RECIPE = {"slug": "x", "config": {"launch": ["docker run x"]}}


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize(
    ("document", "why", "how"),
    [
        (RECIPE, "it is a recipe already", "agentctl plan {file} shows"),
        ({"slug": "x", "perf_points": []}, "it is a recipe already", "agentctl deploy {file} runs it"),
        ({"plan_id": "p", "recipe": {"slug": "x"}, "container": {}}, "it is a plan already", "container.body"),
        ({"name": "n", "platform": None, "body": {"Image": "i"}, "warnings": []}, "a body of the Engine's API", "POST"),
        ({"Image": "i", "Cmd": ["a"]}, "a body of the Engine's API", "POST"),
        ({"items": []}, "a JSON object that is no launch", "expected are"),
        ({}, "a JSON object that is no launch", "expected are"),
    ],
)
def test_another_document_is_called_by_its_name(
    call, tmp_path: Path, document: dict[str, Any], why: str, how: str, indent: int | None
):
    """Its keys are no words of a command, however it is laid out."""
    with pytest.raises(OtherDocument) as refused:
        call(json.dumps(document, indent=indent), name="x.json")
    assert why in refused.value.text
    assert how.format(file=tmp_path / "x.json") in refused.value.advice


def test_a_group_of_a_shell_is_no_json(call):
    """It begins with the same brace, and is refused as what it is."""
    with pytest.raises(ShellConstruct):
        call("{ docker run img; }")


def test_a_compose_file_may_be_json(call):
    """YAML holds JSON."""
    text = json.dumps({"services": {"a": {"image": "vllm/vllm-openai:v0.11.0", "command": ["--model", "m"]}}})
    assert call(text, name="x.json")["body"]["Image"] == "vllm/vllm-openai:v0.11.0"
