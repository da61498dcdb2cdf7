"""Shell text becomes launches and steps by the shell's own rules, and no shell is run."""

from __future__ import annotations

import pytest

from agent.launch.model import CommandLaunch, ContainerLaunch, Context, SetupStep, StepKind
from agent.launch.read import read_shell
from agent.launch.refusal import (
    CliRejects,
    LaunchRefused,
    NoLaunch,
    Placeholder,
    ShellConstruct,
    UnknownSubstitution,
    UnknownVariable,
)

SITE = Context(
    {"HOME": "/home/a", "TWO": "x y", "EMPTY": "", "IDS": "0,1", "FILE": "a.tar.gz"}, {"id -u": "1000"}, "/srv"
)


def command(text: str, context: Context = SITE) -> list[str]:
    """The words that the container's program would get."""
    launch = only(read_shell(f"docker run img {text}", context))
    assert isinstance(launch, ContainerLaunch)
    return launch.body["Cmd"] or []


def only(pieces):
    assert len(pieces) == 1
    return pieces[0]


WORDS = [
    ("a  b", ["a", "b"]),
    ("'a  b' \"c d\" e\\ f", ["a  b", "c d", "e f"]),
    ("a'b'\"c\"d", ["abcd"]),
    ("\"\" ''", ["", ""]),
    ("$TWO \"$TWO\" '$TWO'", ["x", "y", "x y", "$TWO"]),
    ("x$TWO/z", ["xx", "y/z"]),
    ('$EMPTY "$EMPTY" a$EMPTY', ["", "a"]),
    ("~ ~/m a~ --x=~/m", ["/home/a", "/home/a/m", "a~", "--x=~/m"]),
    ("A=~/m", ["A=/home/a/m"]),
    ("${NO:-d} ${NO-d e} \"${NO:-d e}\" ${TWO:+set} ${NO:+set}", ["d", "d", "e", "d e", "set"]),
    ("${IDS//,/-} ${FILE%.*} ${FILE%%.*} ${FILE#a.} ${FILE##*.}", ["0-1", "a.tar", "a", "tar.gz", "gz"]),
    ('"${FILE%%.*}" ${#FILE} ${FILE:2} ${FILE:2:3} ${FILE^^}', ["a", "8", "tar.gz", "tar", "A.TAR.GZ"]),
    ("$(id -u):`id -u` \"$(pwd)\" $PWD", ["1000:1000", "/srv", "/srv"]),
    ("a \\\n  b", ["a", "b"]),
    ("a # a comment 'with a quote", ["a"]),
    ("a#b", ["a#b"]),
    ("$'a\\tb' \"a\\$b\" \"a\\nb\"", ["a\tb", "a$b", "a\\nb"]),
    ("{a,b}c '{a,b}' \"{a,b}\" {x}", ["ac", "bc", "{a,b}", "{a,b}", "{x}"]),
    ("v{1..3}", ["v1", "v2", "v3"]),
    ('{"a":1,"b":2}', ["a:1", "b:2"]),
    ("'{\"a\": [1,2]}'", ['{"a": [1,2]}']),
    ("$((2*(3+4))) $((7/2)) $((-7%3))", ["14", "3", "-1"]),
    ("a > /dev/null", ["a"]),
    ("a 2>&1 | tee log", ["a"]),
    ("5 > x", ["5"]),
    ("a 5> x", ["a"]),
    ('"$@" b', ["b"]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "words"), WORDS, ids=[text for text, _ in WORDS])
def test_words(text: str, words: list[str]):
    """Quoting, splitting and expansion as bash does them."""
    pieces = read_shell(f"docker run img {text}", SITE)
    launch = pieces[0]
    assert isinstance(launch, ContainerLaunch)
    assert (launch.body["Cmd"] or []) == words


REFUSED = [
    ("docker run img $NO", UnknownVariable, "NO"),
    ("docker run img ${NO%x} $OTHER", UnknownVariable, "NO, OTHER"),
    ("docker run img ${NO:?must be set}", UnknownVariable, "NO"),
    ("docker run img ~bob/x", ShellConstruct, "~bob"),
    ("docker run img $(nproc)", UnknownSubstitution, "nproc"),
    ("docker run img `nproc`", UnknownSubstitution, "nproc"),
    ("docker run img $(($(nproc) - 1))", UnknownSubstitution, "nproc"),
    ("docker run img 'make fills $(TEST_FLAKES)'", UnknownSubstitution, "TEST_FLAKES"),
    ("docker run img $$", UnknownVariable, "$$"),
    ("docker run img 'a", ShellConstruct, "never closed"),
    ('docker run img "a', ShellConstruct, "never closed"),
    ("docker run img ${A", ShellConstruct, "${"),
    ("docker run img $(a", ShellConstruct, "never closed"),
    ("docker run img --model <MODEL>", Placeholder, "<MODEL>"),
    ("docker run img --model <your model>", Placeholder, "<your"),
    ("if true; then\ndocker run img\nfi", ShellConstruct, "condition"),
    ("for i in 1 2; do docker run img; done", ShellConstruct, "loop"),
    ("run() {\ndocker run img\n}", ShellConstruct, "function"),
    ("(cd x && docker run img)", ShellConstruct, "condition"),
    ("docker run a || docker run b", ShellConstruct, "depends"),
    ("[ -d x ] && docker run a", ShellConstruct, "condition"),
    ("if [ -d x ]; then A=1; else A=2; fi\ndocker run img $A", UnknownVariable, "A"),
    ("[ -z x ] && A=1\ndocker run img $A", UnknownVariable, "A"),
    ("A=1 || A=2\ndocker run img $A", UnknownVariable, "A"),
    ("docker run -it (--rm) img", CliRejects, "image"),
    ("docker run -d --name x\n  -p 80:80 img", CliRejects, "backslash"),
    ("docker run -v a:/b \\ # a comment\n img", CliRejects, "reference"),
    ("docker run $EMPTY", CliRejects, "image"),
    ("docker run img $[1+1]", ShellConstruct, "$["),
    ("docker run img ${!NAME}", ShellConstruct, "${!"),
]


@pytest.mark.parametrize(("text", "kind", "words"), REFUSED, ids=[text for text, _, _ in REFUSED])
def test_refusals_name_the_word(text: str, kind: type[LaunchRefused], words: str):
    """What has no exact meaning is refused: which word, why, what to do."""
    with pytest.raises(kind) as caught:
        read_shell(text, SITE)
    assert words in caught.value.text
    assert caught.value.advice
    assert caught.value.exit_code == 3


def test_a_script_with_its_preamble():
    """Assignments, exports, lists and cd change what the lines after them mean."""
    text = """
        # Which model?
        MODEL=org/name
        export HF_TOKEN="a b"
        COMMON=(--gpus all \\
                --ipc=host)
        COMMON+=(-e HF_TOKEN -e MODEL)
        cd models && docker run "${COMMON[@]}" -v $PWD:/m -v ./x:/x img $MODEL 2>&1 | tee log
    """
    launch = next(piece for piece in read_shell(text, SITE) if isinstance(piece, ContainerLaunch))
    host = launch.body["HostConfig"]
    assert (host["IpcMode"], host["DeviceRequests"][0]["Count"]) == ("host", -1)
    assert host["Binds"] == ["/srv/models:/m", "/srv/models/x:/x"]
    assert launch.body["Env"] == ["HF_TOKEN=a b", "MODEL"]
    assert launch.body["Cmd"] == ["org/name"]


def test_a_list_filled_elsewhere_is_nothing_and_says_so():
    """A shell makes no argument of an unset list; the reader is told."""
    launch = only(read_shell('docker run "${COMMON[@]}" img "${ARGS[@]}"', SITE))
    assert launch.body["Cmd"] is None
    assert [warning.code for warning in launch.warnings] == ["shell.list_unset", "shell.list_unset"]


def test_an_unknown_assignment_makes_a_later_use_unknown():
    """A value that nobody knows is not quietly the old one or empty."""
    with pytest.raises(UnknownVariable) as caught:
        read_shell("THREADS=$(nproc)\ndocker run img $THREADS", SITE)
    assert caught.value.details["missing"] == ["THREADS"]


def test_assignments_before_the_command_are_its_environment():
    """`A=1 docker run -e A` hands the value on, and expands no `$A` of the same line."""
    assert only(read_shell("A=1 docker run -e A img", SITE)).body["Env"] == ["A=1"]
    with pytest.raises(UnknownVariable):
        read_shell("A=1 docker run img $A", SITE)


def test_a_value_to_be_filled_in_does_not_hide_the_sites():
    """`export TOKEN="<your token>"` is a place, and the site may have filled it."""
    text = 'export TWO="<your value>" NEW="<your other>"\ndocker run -e TWO img "$NEW"'
    launch = next(piece for piece in read_shell(text, SITE) if isinstance(piece, ContainerLaunch))
    assert launch.body["Env"] == ["TWO=x y"]
    assert launch.body["Cmd"] == ["<your other>"]
    assert [warning.code for warning in launch.warnings] == ["word.placeholder"]


def test_wrappers_that_a_program_feels_are_told():
    """They are set aside, and that is said."""
    launch = only(read_shell("numactl -N 0 vllm serve m", SITE))
    assert [warning.code for warning in launch.warnings] == ["command.wrapper"]
    assert only(read_shell("env -i vllm serve m", SITE)).argv[0] == "env"


STEPS = [
    ("git clone https://h/o/r.git", StepKind.GIT_CLONE, {"url": "https://h/o/r.git", "directory": "r", "ref": None}),
    ("git clone -b v1 --depth 1 https://h/o/r d", StepKind.GIT_CLONE, {"directory": "d", "ref": "v1"}),
    ("git fetch origin 79a7108", StepKind.GIT_FETCH, {"remote": "origin", "ref": "79a7108"}),
    ("git checkout 79a7108", StepKind.GIT_CHECKOUT, {"ref": "79a7108"}),
    ("git -C d checkout main", StepKind.GIT_CHECKOUT, {"ref": "main", "inside": "d"}),
    ("git apply /p/a.patch /p/b.patch", StepKind.GIT_APPLY, {"patches": ["/p/a.patch", "/p/b.patch"]}),
    ("hf download o/m a.gguf --local-dir /m", StepKind.HF_DOWNLOAD, {"files": ["a.gguf"], "directory": "/m"}),
    ("huggingface-cli download org/m --revision r", StepKind.HF_DOWNLOAD, {"repo": "org/m", "revision": "r"}),
    ("docker pull reg/i:t", StepKind.DOCKER_PULL, {"image": "reg/i:t"}),
    ("docker build -t i:t -f D .", StepKind.DOCKER_BUILD, {"tag": "i:t", "file": "D", "context": "."}),
    ("pip install -U vllm==1 'x[a]'", StepKind.PIP_INSTALL, {"packages": ["vllm==1", "x[a]"]}),
    ("uv pip install -r req.txt", StepKind.PIP_INSTALL, {"requirements": ["req.txt"]}),
    ("python3 -m pip install .", StepKind.PIP_INSTALL, {"packages": ["."]}),
    ("mkdir -p a b", StepKind.MKDIR, {"paths": ["a", "b"]}),
    ("cd x", StepKind.CHDIR, {"path": "x"}),
    ("export A=1", StepKind.EXPORT, {"variables": {"A": "1"}, "exported": True}),
    ("sudo docker pull i", StepKind.DOCKER_PULL, {"image": "i"}),
    ("curl -O http://h/x", StepKind.OTHER, {}),
    ("docker rm -f x", StepKind.OTHER, {}),
]  # fmt: skip


@pytest.mark.parametrize(("text", "kind", "facts"), STEPS, ids=[text for text, _, _ in STEPS])
def test_steps_are_recognised(text: str, kind: StepKind, facts: dict[str, object]):
    """What prepares a launch is known by its words."""
    step = only(read_shell(text, SITE))
    assert isinstance(step, SetupStep)
    assert step.kind is kind
    assert {name: step.facts[name] for name in facts} == facts
    assert step.text == text


def test_a_step_with_an_unknown_part_says_so():
    """It is kept, with the reason, and claims nothing."""
    step = only(read_shell("git clone $REPO", SITE))
    assert (step.kind, step.facts, step.argv) == (StepKind.OTHER, {}, ()) or step.facts == {}
    assert "REPO" in step.why


def test_prose_is_kept_as_it_is():
    """A document's sentences are steps of no kind; nothing of them is lost and nothing is made of them."""
    text = "Then serve it (two cards, 1M context); that's all.\n# a comment\nvllm serve m\n"
    pieces = read_shell(text, SITE)
    assert isinstance(pieces[-1], CommandLaunch)
    assert pieces[-1].argv == ("vllm", "serve", "m")
    assert all(isinstance(piece, SetupStep) and piece.kind is StepKind.OTHER for piece in pieces[:-1])


def test_a_here_document_is_no_command():
    """Its lines are a file's, not the shell's."""
    pieces = read_shell("cat > f <<EOF\ndocker run evil\nEOF\ndocker run img", SITE)
    assert [piece.body["Image"] for piece in pieces if isinstance(piece, ContainerLaunch)] == ["img"]


BARE = [
    ("vllm serve m --port 1", ("vllm", "serve", "m", "--port", "1"), {}),
    ("A=1 B='2 3' python3 -m sglang.x --tp 2", ("python3", "-m", "sglang.x", "--tp", "2"), {"A": "1", "B": "2 3"}),
    ("exec ./llama-server -m x.gguf", ("./llama-server", "-m", "x.gguf"), {}),
    ("nohup trtllm-serve m > log 2>&1 &", ("trtllm-serve", "m"), {}),
    ("torchrun --nproc-per-node 4 run.py", ("torchrun", "--nproc-per-node", "4", "run.py"), {}),
    ("some-new-engine --serve m", ("some-new-engine", "--serve", "m"), {}),
    ("numactl -N 0 -m 0 vllm serve m", ("vllm", "serve", "m"), {}),
]  # fmt: skip


@pytest.mark.parametrize(("text", "argv", "env"), BARE, ids=[text for text, _, _ in BARE])
def test_bare_commands(text: str, argv: tuple[str, ...], env: dict[str, str]):
    """A command line without a container: its words, its environment, its wrappers apart."""
    launch = only(read_shell(text, SITE))
    assert isinstance(launch, CommandLaunch)
    assert (launch.argv, launch.env, launch.cwd) == (argv, env, "/srv")


WINDOWS = [
    ('docker run ^\n --gpus all ^\n -v "D:\\m":/m ^\n img --port %TWO%', ["--port", "x y"], ["D:\\m:/m"]),
    ('docker run `\n -v "C:\\git\\m:/m" `\n -v "$PWD:/w" `\n img \'a b\'', ["a b"], ["C:\\git\\m:/m", "/srv:/w"]),
    ('docker run -v "%HOME%\\x:/x" img', None, ["/home/a\\x:/x"]),
]


@pytest.mark.parametrize(("text", "words", "binds"), WINDOWS)
def test_windows_shells(text: str, words: list[str] | None, binds: list[str]):
    """cmd's carets and percent signs, PowerShell's backticks: their own rules of continuing and quoting."""
    launch = only(read_shell(text, SITE))
    assert launch.body["Cmd"] == words
    assert launch.body["HostConfig"]["Binds"] == binds


def test_windows_variables_are_not_guessed():
    """An unknown one is named here too."""
    with pytest.raises(UnknownVariable) as caught:
        read_shell("docker run ^\n img %MODEL%", SITE)
    assert caught.value.details["missing"] == ["MODEL"]


@pytest.mark.parametrize(
    "text",
    [
        "export A=$A$A$A$A\n" * 60,
        "a" * 300_000,
        "docker run img\n" * 1000,
        "docker run img " + "{a,b}" * 12,
        "x\n" * 90_000,
    ],
    ids=["doubling", "long", "many", "braces", "lines"],
)
def test_bombs_are_refused(text: str):
    """Text that would cost without bound is refused at once."""
    with pytest.raises(LaunchRefused):
        read_shell(text, Context({"A": "x" * 100}))


def test_large_text_is_no_launch():
    """The bound has a name."""
    with pytest.raises(NoLaunch):
        read_shell(" " * 200_001, SITE)
