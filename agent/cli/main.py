"""agentctl: finds the command, builds that command's parser alone, and ends with the contract's exit codes."""

from __future__ import annotations

import sys

from agent.cli.screen import CannotWrite, ReaderGone, let_go, plain, screens
from agent.errors import AgentError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Sequence
    from typing import NoReturn

COMMANDS: dict[str, tuple[str, str]] = {
    "recipes": ("recipes", "search, show and fetch recipes"),
    "plan": ("plan", "what would run here, every value with its origin"),
    "convert": ("convert", "a launch in one form to another"),
    "preflight": ("preflight", "check this host against a recipe, touch nothing"),
    "build": ("image", "build a recipe's image"),
    "pull": ("image", "pull a recipe's image"),
    "image": ("images", "save, load and prune images"),
    "doctor": ("doctor", "check this host without a recipe"),
    "deploy": ("deploy", "plan, check, fetch and start a recipe"),
    "status": ("status", "state of the deployments, each with its reason"),
    "logs": ("logs", "an engine's log"),
    "events": ("events", "what the agent saw and did"),
    "top": ("top", "a live view"),
    "stop": ("lifecycle", "stop a deployment"),
    "start": ("lifecycle", "start a stopped, failed or quarantined deployment"),
    "restart": ("lifecycle", "start a new container of the same plan"),
    "remove": ("lifecycle", "stop and forget a deployment"),
    "pause": ("lifecycle", "judge, do nothing, say so"),
    "observe": ("lifecycle", "judge, and count what would have been done"),
    "resume": ("lifecycle", "judge and act again"),
    "upgrade": ("upgrade", "to the newest revision of its recipe"),
    "rollback": ("upgrade", "back to an earlier plan"),
    "history": ("history", "the plans that a deployment has had"),
    "incidents": ("incidents", "list, show and export kept evidence"),
    "replay": ("replay", "recorded samples through the verdicts, as a time line"),
    "verify": ("verify", "measure the engine and hold it against its recipe's claims"),
    "drill": ("drill", "a rehearsal of a fault, for a deployment marked as expendable"),
    "notify": ("notify", "try the messages to people"),
    "config": ("config", "check the site file and profiles, show what is in force"),
    "completion": ("completion", "completions for a shell"),
    "version": ("version", "the agent's version"),
}
"""Command → its module in this package, and what it does."""

EXIT_BY_CODE = {
    "usage": 2,
    "refused": 3,
    "preflight": 3,
    "policy": 3,
    "plan": 3,
    "convert": 3,
    "deployment": 3,
    "not_found": 4,
    "agent": 5,
    "verify": 3,
    "drill": 3,
    "timeout": 6,
    "recipe.not_found": 4,
    "recipe.foreign_host": 3,
    "image.incomplete": 3,
    "plan.stored": 1,
}
"""An error that the agent answered, by its whole code or by the first word of it → exit code; others are 1."""

VALUED = frozenset({"--output", "--config", "--socket", "--url"})
BUNDLED = frozenset("qv")
"""Options of one letter that may stand before `o` in one word: `-qo json`."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    with screens():
        try:
            return answered(words)
        except KeyboardInterrupt:
            return 130
        except ReaderGone:  # that is its business, and no error of ours
            let_go(sys.stdout)
            return 0


def answered(words: list[str]) -> int:
    """The command's exit code, or that of its error, which is told."""
    try:
        return run(words)
    except AgentError as error:
        if isinstance(error, CannotWrite):
            let_go(sys.stdout)
        return report(error, as_json=wants_json(words))


def run(words: list[str]) -> int:
    name = command_of(words)
    if name is None or name not in COMMANDS:
        return overview(words, name)
    import importlib

    module = importlib.import_module(f"agent.cli.{COMMANDS[name][0]}")
    parser = parser_for(name)
    module.add_arguments(parser)
    arguments = parser.parse_args(words_of(words, name))
    arguments.command = name
    settle(arguments)
    code: int = module.run(arguments)
    sys.stdout.flush()
    return code


def command_of(words: list[str]) -> str | None:
    """The first word that is neither an option nor an option's value."""
    skip = False
    for word in words:
        if skip:
            skip = False
        elif takes_next(word):
            skip = True
        elif not word.startswith("-"):
            return word
    return None


def words_of(words: list[str], name: str) -> list[str]:
    """The words without the command's own name."""
    at = words.index(name)
    while at and takes_next(words[at - 1]):
        at = words.index(name, at + 1)
    return [*words[:at], *words[at + 1 :]]


def takes_next(word: str) -> bool:
    """Whether an option's value is the word after it."""
    return word in VALUED or (word[:1] == "-" and word[-1:] == "o" and set(word[1:-1]) <= BUNDLED)


def parser_for(name: str) -> ArgumentParser:
    """A parser with the options that every command takes; what it refuses is an error like any other."""
    from argparse import ArgumentParser

    from agent.errors import UsageError

    class Parser(ArgumentParser):
        def error(self, message: str) -> NoReturn:
            raise UsageError(why=message, advice=f"{self.prog} --help says more")

    parser = Parser(prog=f"agentctl {name}", description=COMMANDS[name][1], allow_abbrev=False)
    options = parser.add_argument_group("every command")
    options.add_argument("-o", "--output", choices=("text", "json"), default="text", help="form of the answer")
    options.add_argument("--config", metavar="FILE", help="site file (default /etc/recipe-agent/agent.yaml)")
    options.add_argument("--socket", metavar="PATH", help="the agent's unix socket")
    options.add_argument("--url", metavar="URL", help="the agent over TCP, as http://host:port")
    options.add_argument("--no-color", action="store_true", help="no colour, whatever the terminal")
    options.add_argument("-q", "--quiet", action="store_true", help="only what was asked for")
    options.add_argument("-v", "--verbose", action="store_true", help="more detail")
    return parser


def settle(arguments: Namespace) -> None:
    """What every command reads from its options."""
    arguments.json = arguments.output == "json"


def wants_json(words: list[str]) -> bool:
    """Whether errors are to be JSON, also those of the parsing itself; the last word on it counts."""
    wanted = ""
    for word, after in zip(words, [*words[1:], ""], strict=True):
        if takes_next(word) and word not in VALUED - {"--output"}:
            wanted = after
        elif word.startswith("--output="):
            wanted = word.partition("=")[2]
        elif word[:1] == "-" and set(word[1:].partition("o")[0]) <= BUNDLED and word.endswith(("ojson", "o=json")):
            wanted = "json"
    return wanted == "json"


def overview(words: list[str], name: str | None) -> int:
    """`--help`, `--version`, or a word that is no command."""
    if name is None and "--version" in words:
        return run(["version"])
    if name is not None:
        from difflib import get_close_matches

        from agent.errors import UsageError

        near = get_close_matches(name, COMMANDS, 1, cutoff=0.7)
        advice = f"did you mean {near[0]}?" if near else "agentctl --help lists the commands"
        raise UsageError(why=f"{name!r} is no command of agentctl", advice=advice)
    width = max(map(len, COMMANDS))
    lines = [f"  {command:<{width}}  {text}" for command, (_, text) in COMMANDS.items()]
    out = sys.stdout if {"-h", "--help"} & set(words) else sys.stderr
    print("usage: agentctl COMMAND [options]\n", *lines, "\nagentctl COMMAND --help says more.", sep="\n", file=out)
    return 0 if out is sys.stdout else 2


def report(error: AgentError, *, as_json: bool) -> int:
    """One line and a hint on stderr, or the error object."""
    data = error.as_dict()
    lines = [one_line(f"error: {error.text}")] + ([one_line(f"hint: {error.advice}")] if error.advice else [])
    if as_json:
        import json

        lines = [json.dumps({"error": data})]
    try:
        print("\n".join(lines), file=sys.stderr)
    except (CannotWrite, ReaderGone):
        let_go(sys.stderr)  # the exit code says it too
    if type(error).__name__ == "ApiError":
        return exit_code_of(str(data["code"]))
    return error.exit_code


def one_line(text: str) -> str:
    """A stranger's text within an error begins no line of its own."""
    return plain(" ".join(text.split("\n")))


def exit_code_of(code: str) -> int:
    """The exit code of an error that the agent answered: the same as if it had been raised here."""
    return EXIT_BY_CODE.get(code, EXIT_BY_CODE.get(code.split(".")[0], 1))


if __name__ == "__main__":
    sys.exit(main())
