"""agentctl replay: recorded samples through the verdicts, as a time line. Needs no daemon, touches nothing."""

from __future__ import annotations

from agent.cli.output import STATE_COLOURS, coloured, paint, print_json
from agent.errors import InvalidInput, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from agent.action.replay import Moment
    from agent.engines.model import EngineLaunch
    from agent.plan.model import Plan
    from agent.plan.watch import Watch
    from agent.samples.recording import Recording

ARCHIVE = "an incident's archive holds one: tar -xzf FILE, then agentctl replay ID/window.jsonl"


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="a recording (an incident's window.jsonl); - reads standard input")
    parser.add_argument("--plan", metavar="PLAN.json", help="the plan whose windows and launch hold (plan -o json)")
    parser.add_argument("--engine", metavar="KIND", help="the engine, where the recording does not name it")
    parser.add_argument(
        "--set", action="append", default=[], metavar="watch.KEY=SECONDS", help="judge with another window"
    )
    parser.add_argument("--all", action="store_true", help="every sample, not only where something changes")
    parser.epilog = "The form of a recording: agent/samples/README.md. Exits 0 whatever the verdicts are."


def run(arguments: Namespace) -> int:
    from agent.action.replay import changes, replay

    plan = plan_of(arguments.plan) if arguments.plan else None
    recording = read(arguments, plan)
    moments = list(replay(recording, windows(arguments, plan, recording)))
    shown = moments if arguments.all else changes(moments)
    if arguments.json:
        print_json([moment.to_json() for moment in shown])
    else:
        print(text_of(shown, colours=coloured(arguments), verbose=arguments.verbose))
    return 0


def plan_of(name: str) -> Plan:
    import json

    from agent.plan.tojson import plan_from_json

    try:
        value = json.loads(text_in(name))
    except ValueError as error:
        raise InvalidInput(what=name, why=f"not JSON: {error}") from error
    if not isinstance(value, dict):
        raise InvalidInput(what=name, why="a plan is a JSON object, as agentctl plan -o json prints it")
    return plan_from_json(value)


def read(arguments: Namespace, plan: Plan | None) -> Recording:
    """The engine is --engine's, else the plan's, else the recording's own."""
    from agent.samples.recording import read_recording

    engine = engine_of(arguments.engine) if arguments.engine else plan.engine if plan else None
    return read_recording(text_in(arguments.file).splitlines(), engine)


def engine_of(kind: str) -> EngineLaunch:
    from agent.engines.model import EngineKind
    from agent.samples.recording import default_launch

    try:
        return default_launch(EngineKind(kind))
    except ValueError as error:
        known = ", ".join(EngineKind)
        raise UsageError(why=f"{kind!r} is no engine that the agent knows", advice=f"there are: {known}") from error


def windows(arguments: Namespace, plan: Plan | None, recording: Recording) -> Watch:
    """The plan's, else those of the engine and of what the recording says it learned; then what was set."""
    from agent.plan.windows import Given, derive, override

    head = recording.head
    given = {key: Given(value, "the recording") for key, value in head.watch.items()}
    base = plan.watch if plan else derive(head.engine, [], given, head.learned)
    return override(base, {key: Given(value, "--set") for key, value in settings(arguments.set).items()})


def settings(words: list[str]) -> dict[str, float | None]:
    """`watch.stall=120`; `never` for a window that never ends."""
    found: dict[str, float | None] = {}
    for word in words:
        key, equals, value = word.partition("=")
        try:
            found[key.removeprefix("watch.")] = None if value == "never" else float(value)
        except ValueError as error:
            raise UsageError(why=f"--set takes watch.KEY=SECONDS, not {word!r}") from error
        if not equals:
            raise UsageError(why=f"--set takes watch.KEY=SECONDS, not {word!r}")
    return found


def text_in(name: str) -> str:
    import sys
    from pathlib import Path

    try:
        return sys.stdin.read() if name == "-" else Path(name).read_text()
    except OSError as error:
        raise InvalidInput(what=name, why=error.strerror or str(error)) from error
    except UnicodeDecodeError as error:
        raise InvalidInput(what=name, why="it is not UTF-8 text", advice=ARCHIVE) from error


def text_of(moments: list[Moment], *, colours: bool, verbose: bool) -> str:
    """One line a moment: seconds since the first sample, state, what would be done, why."""
    begin = moments[0].t
    lines = []
    for moment in moments:
        state = paint(f"{moment.state:<12}", STATE_COLOURS.get(moment.state, "33"), colours)
        lines.append(f"{moment.t - begin:>9.1f} s  {state}  {moment.step:<16}  {moment.why}")
        if verbose:
            lines += [f"{'':>43}{line}" for line in moment.evidence]
    return "\n".join(lines)
