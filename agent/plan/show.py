"""A plan on one screen, for a person who is about to say yes."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from agent.plan.model import Claim, Plan
from agent.plan.runtime import DOCKER, env_of
from agent.plan.watch import Span
from agent.quantity import Bytes, counted, say_duration

WIDTH = 100
LABEL = 12
CUT = " …"
_PROSE = "prose"


@dataclass(frozen=True, slots=True)
class Row:
    """A label and its text, which is cut after some lines; without a label it is a line of its own."""

    label: str | None
    text: str
    lines: int = 2


def show(plan: Plan, whole: bool = False) -> str:
    """The plan in words; `whole` cuts nothing. Text of the recipe is shown without control characters."""
    rows = [row for part in _PARTS for row in part(plan) if row.text]
    lines = [line for row in rows for line in _lines(row, whole)]
    if not whole and any(line.endswith(CUT) for line in lines):
        lines.append(f"{'cut':<{LABEL}}where a line ends in{CUT} (-v shows all of it)")
    return "\n".join(lines) + "\n"


def printable(text: str) -> str:
    """A line that can do nothing to a terminal: control characters of a stranger's text are left out."""
    return "".join(char for char in text if char.isprintable())


def _head(plan: Plan) -> Iterator[Row]:
    recipe = plan.recipe
    yield Row(None, plan.title or recipe.slug)
    state = f"revision {recipe.revision}" if recipe.revision is not None else "no revision"
    digest = f"sha256 {recipe.sha256[:12]}" if recipe.sha256 else "a listing's entry, no document"
    yield Row("recipe", f"{recipe.slug} ({state}, {digest}) from {recipe.source}")
    yield Row("plan", plan.plan_id)


def _runs(plan: Plan) -> Iterator[Row]:
    yield Row("runtime", f"{plan.runtime}: {plan.origins.get('runtime', '')}")
    engine = plan.engine
    if engine is not None:
        parts = [engine.kind.value, f"port {engine.port}" if engine.port else "", engine.served_model or ""]
        parts.append(f"{counted(engine.max_model_len, 'token')} of context" if engine.max_model_len else "")
        yield Row("engine", ", ".join(part for part in parts if part))
    if plan.image is not None:
        how = f"{plan.image.how}: {plan.origins.get('image.how', '')}"
        base = f", on {plan.image.base}" if plan.image.base and plan.image.how == "build" else ""
        yield Row("image", f"{plan.image.reference} ({how}{base})")


def _cards(plan: Plan) -> Iterator[Row]:
    if plan.gpus:
        yield Row("cards", f"{len(plan.gpus)}: {', '.join(plan.gpus)}")


def _container(plan: Plan) -> Iterator[Row]:
    if plan.container is None:
        return
    body, host = plan.container.body, plan.container.body.get("HostConfig") or {}
    if plan.runtime == DOCKER:
        yield Row("container", plan.container.name)
    yield Row("command", " ".join((*(body.get("Entrypoint") or ()), *(body.get("Cmd") or ()))), lines=4)
    yield Row("environment", "  ".join(f"{name}={value}" for name, value in env_of(body).items()), lines=3)
    for bind in host.get("Binds") or ():
        yield Row("mount", bind)
    for inner, outer in (host.get("PortBindings") or {}).items():
        places = [f"{one.get('HostIp') or 'every address'}:{one.get('HostPort')}" for one in outer or ()]
        yield Row("port", f"{', '.join(places)} → {inner}")
    asks = [("--ipc=host", host.get("IpcMode") == "host"), ("--network host", host.get("NetworkMode") == "host")]
    limits = [f"--ulimit {one['Name']}={one['Hard']}" for one in host.get("Ulimits") or ()]
    yield Row("rights", ", ".join([*(flag for flag, asked in asks if asked), *limits]))


def _needs(plan: Plan) -> Iterator[Row]:
    for need in plan.requirements:
        size = _size(need.need) if isinstance(need.need, Bytes) else str(need.need)
        stated = f'"{need.words}", {need.origin.partition(" (")[0]}' if need.words else need.origin
        yield Row("needs", f"{need.id} {size}: {stated}")


def _size(size: Bytes) -> str:
    """Nominal sizes as they are sold, others in binary units."""
    return f"{size // 1000**3} GB" if size % 1000**3 == 0 else str(size)


def _watch(plan: Plan) -> Iterator[Row]:
    watch = plan.watch
    expected = watch.start_expected
    parts = ["start of unknown length" if expected.seconds is None else f"start {_span(expected)}"]
    if watch.stall.seconds is None and watch.stall_blind.seconds is None:
        parts.append("silence is told and never acted on")
    else:
        parts.append(f"stalled after {_span(watch.stall)}, or {_span(watch.stall_blind)} where no step shows")
        if watch.jit.seconds and watch.jit_after_ready.seconds:
            parts.append(f"{_span(watch.jit)} more in the first {_span(watch.jit_after_ready)} of serving")
    parts.append(f"zombie after {_span(watch.zombie)}")
    yield Row("watch", f"{'; '.join(parts)}; {counted(watch.budget, 'restart')} before a person is asked", lines=3)


def _span(span: Span) -> str:
    return "never" if span.seconds is None else say_duration(timedelta(seconds=span.seconds))


def _claims(plan: Plan) -> Iterator[Row]:
    if plan.claims:
        yield Row("claims", "; ".join(_claim(claim) for claim in plan.claims))


def _claim(claim: Claim) -> str:
    at = [f"c{claim.concurrency}" if claim.concurrency else "", f"@{claim.context:,}" if claim.context else ""]
    name = {"decode_tok_s": "decode", "prefill_tok_s": "prefill", "ttft_ms": "TTFT"}.get(claim.metric, claim.metric)
    unit = "ms" if claim.metric == "ttft_ms" else "tok/s"
    return " ".join(part for part in (name, f"{claim.value:g} {unit}", *at) if part)


def _open(plan: Plan) -> Iterator[Row]:
    for entry in plan.missing:
        yield Row("MISSING", f"{entry.key}: {entry.why}", lines=3)
        yield Row("", entry.how)
    for warning in plan.warnings:
        yield Row("warning", warning, lines=3)
    prose = [entry for entry in plan.unapplied if entry.why.startswith(_PROSE)]
    if plan.unapplied:
        words = f"{len(plan.unapplied)} statements of the document, {len(prose)} of them prose (-o json lists them)"
        yield Row("not applied", words)


def _lines(row: Row, whole: bool) -> Iterator[str]:
    """Wrapped beside its label."""
    text = printable(row.text)
    if row.label is None:
        yield text
        return
    wrapped = textwrap.wrap(text, WIDTH - LABEL, break_on_hyphens=False, break_long_words=not whole)
    if len(wrapped) > row.lines and not whole:
        wrapped = [*wrapped[: row.lines - 1], f"{wrapped[row.lines - 1][: WIDTH - LABEL - len(CUT)]}{CUT}"]
    for at, line in enumerate(wrapped):
        yield f"{row.label if at == 0 else '':<{LABEL}}{line}"


_PARTS = (_head, _runs, _cards, _container, _needs, _watch, _claims, _open)
