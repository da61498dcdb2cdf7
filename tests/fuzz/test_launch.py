"""Random launches against the judges: the docker CLI for command lines, bash for words, a clock for everything.

The docker CLI talks to an engine that only records, so nothing is created. Where the parser refuses what a judge
takes, it must be one of the few things that no container body, or no reader without a shell, can carry.

`RECIPE_AGENT_FUZZ_EXAMPLES` sets how many examples are tried (300; the words and texts three times as many).
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from agent.errors import AgentError
from agent.launch.equal import differing
from agent.launch.expand import Expander
from agent.launch.model import ContainerLaunch, Context
from agent.launch.read import read_argv, read_compose, read_shell
from agent.launch.refusal import LaunchRefused, NotCarried, ShellConstruct
from agent.launch.statements import statements
from tests.launch.strategies import command_lines

pytestmark = pytest.mark.fuzz

EXAMPLES = int(os.environ.get("RECIPE_AGENT_FUZZ_EXAMPLES", "300"))
SLOW = list(HealthCheck)
VERSION = "28.2.2"


@pytest.fixture(scope="module")
def judge(shared: Path) -> ModuleType:
    """The recording engine, with the real CLI of the version that the parser follows before it."""
    docker = shutil.which("docker")
    said = subprocess.run([docker, "--version"], capture_output=True, text=True, check=True).stdout if docker else ""
    if VERSION not in said:
        pytest.skip(f"needs the docker CLI {VERSION}, and found {said.strip() or 'none'}")
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


@given(argv=command_lines())
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=SLOW)
@example(argv=["docker", "run", "--gpus", "device=0,1", "img"])
@example(argv=["docker", "run", "--pull=always", "c" * 64])
@example(argv=["docker", "run", "--dns-search", "aU", "img"])
def test_the_docker_cli_agrees(judge: ModuleType, argv: list[str]) -> None:
    """Accepted alike; the same body, name and platform."""
    accepted, captured, _, error = judge.cli(argv, judge.BASE)
    try:
        launch = read_argv(argv, Context(judge.BASE, {}, judge.PWD))
    except NotCarried:
        return
    except LaunchRefused as refusal:
        assert not accepted, refusal.text  # noqa: PT017 - both answers are compared
        return
    assert accepted, error
    assert isinstance(launch, ContainerLaunch)
    query, body = captured
    assert differing(body, launch.body) == []
    assert (query.get("name"), query.get("platform")) == (launch.name, launch.platform)


SHELL = {
    "HOME": "/home/op",
    "PWD": "/w",
    "A": "x y",
    "B": "",
    "C": "a,b/c",
    "D": " lead trail ",
    "F": "abc.tar.gz",
    "N": "7",
}
FRAGMENTS = [
    "a", "b c", '"', "'", "\\", "$A", "${A}", '"$A"', "$B", '"$B"', "$D", '"$D"', "${X:-d}", "${X-d e}",
    '"${X:-d e}"', '${X:-"d e"}',
    "${A:+s t}", "${X:+s}", "${C//,/-}", "${C/,/-}", "${C%/*}", "${C#*,}", '"${F%%.*}"', "${F##*.}", "${F:1:3}",
    "${#F}", "${F^^}",
    "${F: -2}", "${X:-${B:-in}}", "$((N+1))", "$((2*(N-1)))", "~", "~/x", "A=~/x", "{a,b}", "{1..3}", "{}", ",", " ",
    "\t", "\\\n",
    "#c", " #d", "$", "\\$A", "'$A'", "$'t\\tn'", "*", '""', "''", "=", "-", "--x=", "$X", "[a]", '{"a":1,"b":2}',
    "\\\\", "é", "${X:=v}",
]  # fmt: skip


@given(pieces=st.lists(st.sampled_from(FRAGMENTS), min_size=1, max_size=7))
@settings(max_examples=EXAMPLES * 3, deadline=None, suppress_health_check=SLOW)
def test_bash_agrees(pieces: list[str]) -> None:
    """Words come out of quotes, variables and braces as bash makes them; what is doubtful is refused."""
    text = "".join(pieces)
    script = "set -fu\nprintf '%s\\0' cmd " + text
    done = subprocess.run(["/bin/bash", "-c", script], env=SHELL, capture_output=True, check=False, cwd="/")
    words = done.stdout.decode().split("\0")[:-1] if not done.returncode and not done.stderr else None
    mine = our_words(text)
    if mine is not None and words is not None:
        assert mine == words


def our_words(text: str) -> list[str] | None:
    """The words with the command's name; None where they are refused or want a value that nobody has."""
    try:
        commands = list(statements("cmd " + text))
        if len(commands) != 1 or commands[0].broken is not None:
            return None
        expander = Expander(Context(SHELL, {}, "/w"))
        words = [field for word in commands[0].words for field in expander.fields(word)]
    except ShellConstruct:
        return None
    return None if expander.missing or expander.unknown_commands else words


MARKS = ["docker run ", "${", "$(", "<<E\n", "services:\n", "  a: ", "--gpus "]
ALPHABET = st.sampled_from([*"$`\"'{}()[]\\ \n\t;|&<>#~=*:,-?!@%^abAB01é\0", *MARKS])


@given(pieces=st.lists(ALPHABET, max_size=60))
@settings(max_examples=EXAMPLES * 3, deadline=None, suppress_health_check=SLOW)
def test_any_text_is_read_or_refused(pieces: list[str]) -> None:
    """Never a foreign exception, whatever stands there."""
    text = "".join(pieces)
    context = Context({"A": "x"}, {"a": "b"}, "/w", {"a": text})
    for read in (read_shell, read_compose, lambda text, context: read_argv(text.split(" "), context)):
        try:
            read(text, context)
        except AgentError as error:
            assert error.text  # noqa: PT017 - any refusal has words


MEGABYTE = 1_000_000
HEAVY = [
    "'", '"', "`", "$(", "${a:-", "(", ")", " ", "\n", "\\", "\\\n", "docker run img\n", "it's\n", "x ${a-\n",
    "x $(a\n", "{a,b}", "{", "a ",
    "export A=$A$A\n", "A+=(1)\n", "cat <<EOF\n", "cd a\n", "# x\n", "> x ", "<a b> ", "a && ", "~ ", "if ",
    "%A% ^\n", "a `\n", "sudo ",
    "services:\n  a: {image: vllm/a}\n", "- ", "? ", "[", "&a [*a]\n", "a: &a\n", "! ", "\t", "| ", "x: 'y\n",
]  # fmt: skip
WITHIN = [
    "{}",
    "docker run {} img",
    "docker run img {}",
    "docker run --gpus {} img",
    "docker run img $(({}))",
    "docker run img ${{A%{}}}",
]


LARGEST = 199_000
"""Letters, below what is refused unread."""
TIMES_PLAIN = 3


@pytest.fixture(scope="module")
def plain() -> float:
    """Processor time of reading as many plain words, on this machine as it is now (0.6 s on a quiet one)."""
    return processor_time("docker run img " + "a " * (LARGEST // 2))


@pytest.mark.parametrize("size", [LARGEST, MEGABYTE])
@pytest.mark.parametrize("unit", HEAVY, ids=[repr(unit) for unit in HEAVY])
def test_no_text_costs_much_more_than_plain_words(unit: str, size: int, plain: float) -> None:
    """It is read or refused by one walk over the text: what grows faster would cost a hundred times that."""
    for form in WITHIN:
        text = form.format((unit * (size // len(unit) + 1))[:size])
        assert processor_time(text) < TIMES_PLAIN * plain


def processor_time(text: str) -> float:
    """Of this process, in seconds, for both readers."""
    context = Context({"A": "x y " * 50, "B": "b"}, {"x": "y"}, "/w")
    started = time.process_time()
    for read in (read_shell, read_compose):
        try:
            read(text, context)
        except AgentError as error:
            assert error.text  # noqa: PT017 - any refusal has words
    return time.process_time() - started
