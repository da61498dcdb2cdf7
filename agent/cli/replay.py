"""agentctl replay: recorded samples through the verdicts, as a time line. Needs no daemon, touches nothing."""

from __future__ import annotations

from agent.cli.output import STATE_COLOURS, coloured, json_text, paint
from agent.errors import InvalidInput, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterable, Iterator

    from agent.action.replay import Moment
    from agent.engines.model import EngineLaunch
    from agent.plan.model import Plan
    from agent.plan.watch import Watch
    from agent.samples.recording import Head

IN_MEMORY = 4 << 20
"""Letters of an answer beyond which it waits in a file: nothing is printed of a recording with a bad line."""
LONGEST = 2000
"""Letters of a sentence or a line of evidence that are shown."""


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
    import shutil
    import sys
    from tempfile import SpooledTemporaryFile

    with SpooledTemporaryFile(IN_MEMORY, "w+", encoding="utf-8", errors="surrogatepass", newline="") as answer:
        try:
            for part in told(arguments):
                answer.write(part)
        except InvalidInput as error:
            raise without_secrets(error) from error
        answer.seek(0)
        shutil.copyfileobj(answer, sys.stdout)
    return 0


def told(arguments: Namespace) -> Iterator[str]:
    """The answer, part by part: neither the recording nor the answer need fit the memory."""
    from agent.action.replay import changes, judged
    from agent.cli.recorded import lines_of, opened, plan_of
    from agent.samples.recording import open_recording

    plan = plan_of(arguments.plan) if arguments.plan else None
    named = arguments.engine is not None
    engine = engine_of(arguments.engine) if named else plan.engine if plan else None
    with opened(arguments.file) as stream:
        lines = lines_of(stream, arguments.file)
        head, samples = open_recording(lines, engine, same=not named)
        moments = judged(head, samples, windows(arguments, plan, head))
        shown = (clean(moment) for moment in (moments if arguments.all else changes(moments)))
        if arguments.json:
            yield from json_of(shown)
        else:
            yield from text_of(shown, colours=coloured(arguments), verbose=arguments.verbose)


def engine_of(kind: str) -> EngineLaunch:
    from agent.engines.model import EngineKind
    from agent.samples.recording import default_launch

    try:
        return default_launch(EngineKind(kind))
    except ValueError as error:
        known = ", ".join(EngineKind)
        raise UsageError(why=f"{kind!r} is no engine that the agent knows", advice=f"there are: {known}") from error


def windows(arguments: Namespace, plan: Plan | None, head: Head) -> Watch:
    """The plan's, else those of the engine and of what the recording says it learned; then what was set."""
    from agent.plan.windows import Given, derive, override

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


def clean(moment: Moment) -> Moment:
    """A moment as it may be shown: an engine's log and a hand-written recording may hold secrets."""
    from dataclasses import replace

    return replace(moment, why=shown(moment.why), evidence=tuple(shown(line) for line in moment.evidence))


def shown(text: str) -> str:
    """Without secrets, in one line, of a length that can be read."""
    from agent.incident.redact import redact_text

    line = " ".join(redact_text(text).splitlines())
    return line if len(line) <= LONGEST else f"{line[:LONGEST]} …"


def without_secrets(error: InvalidInput) -> InvalidInput:
    """An error that cites what was recorded, fit to be shown."""
    error.text, error.args = shown(error.text), (shown(error.text),)
    error.details = {key: shown(value) if isinstance(value, str) else value for key, value in error.details.items()}
    return error


def json_of(moments: Iterable[Moment]) -> Iterator[str]:
    """A list of objects, one after the other."""
    before = "[\n"
    for moment in moments:
        yield before + "\n".join(f"  {line}" for line in json_text(moment.to_json(), indent=2).split("\n"))
        before = ",\n"
    yield "\n]\n"


def text_of(moments: Iterable[Moment], *, colours: bool, verbose: bool) -> Iterator[str]:
    """One line a moment: seconds since the first sample, state, what would be done, why."""
    begin: float | None = None
    for moment in moments:
        begin = moment.t if begin is None else begin
        state = paint(f"{moment.state:<12}", STATE_COLOURS.get(moment.state, "33"), colours)
        yield f"{moment.t - begin:>9.1f} s  {state}  {moment.step:<16}  {moment.why}\n"
        if verbose:
            yield from (f"{'':>43}{line}\n" for line in moment.evidence)
