"""Recorded samples through the verdicts and the decision, as the loop would have taken them (pure).

What the agent would have done is told and never done: the recording goes on as it was, so a restart is told for as
long as its fault lasts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import chain, islice, pairwise
from typing import Any

from agent.action.decide import decide
from agent.action.model import Abort, AskCanary, Nothing, SaveEvidence, Settle, Step, Stop
from agent.action.record import Deployment, Reason, State
from agent.action.seen import Seen
from agent.action.transition import Outcome, finish, look
from agent.clock import Instant
from agent.container.port import ContainerView
from agent.engines.model import EngineLaunch
from agent.engines.registry import dialect_of
from agent.plan.watch import Watch
from agent.samples.model import Connections, Sample, Window
from agent.samples.recording import Head, Recording
from agent.samples.window import WindowBuilder
from agent.verdict.judge import judge
from agent.verdict.model import Verdict

SLUG = "recorded"
LOOK_AHEAD = 64
LEAST_PAUSES = 4
"""Samples that are looked at for their spacing, and pauses that make a rule."""


@dataclass(frozen=True, slots=True)
class Moment:
    """One sample judged: the state, its sentence, and what would be done."""

    t: float
    state: str
    why: str
    step: str
    """`nothing`, `ask_canary`, `abort`, `abort_everything`, `restart`, or the state to come to rest in."""
    kind: str = ""
    """The fault's name, empty for none."""
    evidence: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def replay(recording: Recording, watch: Watch) -> Iterator[Moment]:
    """Every sample's moment, in order."""
    return judged(recording.head, iter(recording.samples), watch)


def judged(head: Head, samples: Iterator[Sample], watch: Watch) -> Iterator[Moment]:
    """The same for samples that are read as they are asked for; there is one at least."""
    engine, ahead = head.engine, tuple(islice(samples, LOOK_AHEAD))
    first = ahead[0].at
    started = on_clock(first, first.mono if head.started is None else head.started)
    # one that became ready within the recording is seen to: before that it was starting
    ready = None if head.ready is None or head.ready > first.mono else on_clock(first, head.ready)
    builder = WindowBuilder(
        started,
        watch,
        ready=ready,
        learned=head.learned,
        scrape_is_ping=engine is not None and dialect_of(engine.kind).traits.scrape_is_ping,
        spacing=spacing(ahead),
        own=head.own,
    )
    record = Deployment(
        SLUG,
        SLUG,
        state=State.STARTING,
        since=started.wall,
        generation=1,
        container=SLUG,
        started_at=started.wall,
        ready_at=ready.wall if ready else None,
    )
    before = first
    for sample in chain(ahead, samples):
        window = builder.add(sample)
        verdict = judge(window, watch, engine)
        seen = seen_of(window, verdict, watch, engine)
        record = look(record, seen, min(sample.at - before, 3 * watch.period.value))
        before = sample.at
        step, record = settle(record, seen)
        yield Moment(sample.at.mono, verdict.state.value, verdict.why, word(step), verdict.kind, verdict.evidence)


def spacing(samples: Sequence[Sample]) -> float:
    """Seconds between two looks as a rule; 0 where there are too few to tell.

    Somebody who wrote down a look a minute looked all the time: no pause between them is one in which nobody did.
    """
    pauses = sorted(after.at - before.at for before, after in pairwise(samples))
    return pauses[len(pauses) // 2] if len(pauses) >= LEAST_PAUSES else 0.0


def settle(record: Deployment, seen: Seen) -> tuple[Step, Deployment]:
    """The step of this look. The evidence is taken as kept, an abort as sent, so that what comes after them shows."""
    step = decide(record, seen)
    if isinstance(step, SaveEvidence):
        record = finish(record, step, Outcome(incident=SLUG), seen)
        step = decide(record, seen)
    if isinstance(step, Abort):
        record = finish(record, step, Outcome(aborted="everything" if step.everything else "narrow"), seen)
    return step, record


def seen_of(window: Window, verdict: Verdict, watch: Watch, engine: EngineLaunch | None) -> Seen:
    """What the loop would have known."""
    sample = window.last
    clients = sample.connections.established if isinstance(sample.connections, Connections) else None
    return Seen(
        now=sample.at,
        watch=watch,
        boot_id=SLUG,
        container=container_of(sample),
        verdict=verdict,
        canary_out=sample.canary_out,
        clients=clients,
        served=clients,
        can_abort=aborts_of(engine),
    )


def container_of(sample: Sample) -> ContainerView | None:
    return sample.container if isinstance(sample.container, ContainerView) else None


def aborts_of(engine: EngineLaunch | None) -> tuple[str, ...]:
    if engine is None:
        return ()
    aborts = dialect_of(engine.kind).aborts(engine)
    return (("narrow",) if aborts.known else ()) + (("everything",) if aborts.everything else ())


def word(step: Step) -> str:
    """The step in one word that scripts may compare."""
    match step:
        case Nothing():
            return "nothing"
        case AskCanary():
            return "ask_canary"
        case Abort(everything=everything):
            return "abort_everything" if everything else "abort"
        case Stop(reason=Reason.FAULT):
            return "restart"
        case Stop(reason=reason):
            return str(reason)
        case Settle(state=state):
            return str(state)
        case _:
            return type(step).__name__.lower()


def changes(moments: Iterable[Moment]) -> Iterator[Moment]:
    """Those that say something new: another state, another kind of fault, another step."""
    last: Moment | None = None
    for moment in moments:
        if last is None or (last.state, last.kind, last.step) != (moment.state, moment.kind, moment.step):
            yield moment
        last = moment


def on_clock(first: Instant, mono: float) -> Instant:
    """A time of the recording's `t` on both clocks."""
    return Instant(mono=mono, wall=first.wall + (mono - first.mono))
