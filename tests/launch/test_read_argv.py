"""An argument list becomes the container that the docker CLI would have asked for."""

from __future__ import annotations

import pytest

from agent.launch.model import CommandLaunch, ContainerLaunch, Context
from agent.launch.read import read_argv
from agent.launch.refusal import CliRejects, NoLaunch, UnknownFlag, UnknownSubstitution, UnknownVariable

SITE = Context(variables={"HOME": "/home/a", "MODEL": "org/name"}, cwd="/srv")


def container(*words: str, context: Context = SITE) -> ContainerLaunch:
    launch = read_argv(["docker", "run", *words], context)
    assert isinstance(launch, ContainerLaunch)
    return launch


def test_variables_are_expanded_in_place():
    """A word stays one word whatever its variables hold."""
    launch = container("-v", "$HOME/my models:/m", "img", "serve", "${MODEL}", "--x={$MODEL}")
    assert launch.body["HostConfig"]["Binds"] == ["/home/a/my models:/m"]
    assert launch.body["Cmd"] == ["serve", "org/name", "--x={org/name}"]


def test_nothing_but_names_is_expanded():
    """Quotes, backslashes, tildes and lone dollar signs are letters in an argument list."""
    words = ['{"a": "b\\n"}', "~/x", "it's", "5$", "$1", "^a$"]
    assert container("img", *words).body["Cmd"] == words


def test_all_missing_variables_are_named_at_once():
    """One refusal lists everything that the site must supply."""
    with pytest.raises(UnknownVariable) as caught:
        container("-v", "$GRAFT/a:/b", "-v", "$HOME/c:/d", "img", "$KEY", "$GRAFT")
    assert caught.value.details["missing"] == ["GRAFT", "KEY"]
    assert caught.value.exit_code == 3


def test_defaults_need_no_variable():
    """`${NAME:-default}` has a value of its own."""
    assert container("img", "${PORT:-8000}", "${MODEL:-x}", "${KEY:+--key}").body["Cmd"] == ["8000", "org/name", ""]


def test_the_environment_of_this_process_is_never_asked(monkeypatch):
    """Variables come from the context alone."""
    monkeypatch.setenv("SECRET_OF_THE_HOST", "x")
    assert container("-e", "SECRET_OF_THE_HOST", "img").body["Env"] == ["SECRET_OF_THE_HOST"]
    with pytest.raises(UnknownVariable):
        container("img", "$SECRET_OF_THE_HOST")


def test_a_substitution_is_known_or_named():
    """Nothing is run: `pwd` is the given directory, everything else is given or missing."""
    context = Context(substitutions={"id  -u": "1000"}, cwd="/srv")
    assert container("-u", "$(id -u)", "-w", "$(pwd)", "img", context=context).body["User"] == "1000"
    with pytest.raises(UnknownSubstitution) as caught:
        container("img", "$(nproc)")
    assert caught.value.details["missing"] == ["nproc"]


def test_a_bare_command_keeps_its_environment():
    """Assignments before the program are its environment, wrappers are set aside."""
    launch = read_argv(["sudo", "-E", "A=1", "vllm", "serve", "$MODEL"], SITE)
    assert isinstance(launch, CommandLaunch)
    assert (launch.argv, launch.env, launch.wrapper) == (("vllm", "serve", "org/name"), {"A": "1"}, ("sudo", "-E"))


@pytest.mark.parametrize("words", [[], ["docker", "ps"], ["sudo"], ["A=1"]])
def test_what_starts_nothing_is_no_launch(words):
    """Words without a program, or with a client's verb that makes no container."""
    with pytest.raises((NoLaunch, CliRejects)):
        read_argv(words, SITE)


def test_an_unknown_flag_comes_with_advice():
    """podman's own flags say what to do instead; a slip of the pen names the likely flag."""
    with pytest.raises(UnknownFlag) as caught:
        container("--replace", "img")
    assert "podman" in caught.value.advice
    with pytest.raises(UnknownFlag) as caught:
        container("--priviliged", "img")
    assert "--privileged" in caught.value.advice
