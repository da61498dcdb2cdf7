"""The rules in their order; the first that has something to say is the verdict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from agent.engines.model import EngineLaunch
from agent.plan.watch import Watch
from agent.samples.model import Miss, Missed, Window
from agent.verdict import (
    asleep,
    engine_dead,
    exited,
    gpu,
    healthy,
    runtime,
    stalled,
    stalled_blind,
    stalled_idle,
    stalled_rank,
    startup,
    unadmitted,
    unobservable,
    zombie,
)
from agent.verdict.case import Case
from agent.verdict.figures import figures
from agent.verdict.model import Verdict

Rule = Callable[[Case], Verdict | None]

# Each rule may rely on what those before it have ruled out: from the outside in, the surer before the subtler.
RULES: tuple[Rule, ...] = (
    exited.stopped,
    runtime.judge,
    gpu.judge,
    exited.judge,
    startup.judge,
    asleep.draining,
    asleep.judge,
    engine_dead.judge,
    unobservable.judge,
    zombie.judge,
    unadmitted.judge,
    stalled_rank.judge,
    stalled.judge,
    stalled_blind.judge,
    stalled_idle.judge,
    zombie.outnumbered,
    stalled_rank.ask,
)


def judge(window: Window, watch: Watch, engine: EngineLaunch | None = None) -> Verdict:
    """What this window means. Pure and total: every window has a verdict with its sentence.

    `engine` is the plan's launch; without it the rules that need an engine's habits, and canaries, stay out.
    """
    case = Case(window, watch, engine)
    verdict = next((found for rule in RULES if (found := rule(case)) is not None), None) or healthy.judge(case)
    silent = case.silent
    timeout = watch.canary_timeout.value if verdict.wants_canary else None
    return replace(
        verdict,
        canary_timeout_s=verdict.canary_timeout_s or timeout,
        seconds_since_progress=verdict.seconds_since_progress or (silent[2] if silent is not None else None),
        blind=tuple(dict.fromkeys((*verdict.blind, *blind_signals(case)))),
        figures={**figures(case), **verdict.figures},
    )


def blind_signals(case: Case) -> tuple[str, ...]:
    """Signals that could not be had in this sample; never health, and never hidden."""
    sample, marks = case.last, case.marks
    if case.container is None or not case.container.running:
        return ()
    unread = ("log",) if sample.log_unread is not None else ()
    if case.window.ready is None:
        return unread
    missed = {
        "metrics": case.blind,
        "connections": isinstance(sample.connections, Missed),
        "processes": isinstance(sample.activity, Missed),
        "gpu": isinstance(sample.gpus, Missed) and sample.gpus.kind is not Miss.UNSUPPORTED,
        "canary": bool(marks.canaries.unfit),
    }
    trusted = case.clients_trusted and not marks.clients.pooled
    found = [name for name, lost in missed.items() if lost]
    return tuple(dict.fromkeys((*found, *unread, *(() if trusted else ("connections",)), *marks.blind)))
