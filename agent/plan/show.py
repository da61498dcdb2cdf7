"""A plan on one screen, for a person who is about to say yes."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from datetime import timedelta

from agent.plan.model import Claim, Plan
from agent.plan.runtime import DOCKER, env_of
from agent.plan.watch import Span
from agent.quantity import Bytes, say_duration

WIDTH = 100
LABEL = 12
_PROSE = "prose"


def show(plan: Plan) -> str:
    """The plan in words. Text of the recipe is shown without control characters."""
    lines = [line for part in _PARTS for line in part(plan)]
    return "\n".join(printable(line) for line in lines) + "\n"


def printable(text: str) -> str:
    """A line that can do nothing to a terminal: control characters of a stranger's text are left out."""
    return "".join(char for char in text if char.isprintable())


def _head(plan: Plan) -> Iterator[str]:
    recipe = plan.recipe
    yield plan.title or recipe.slug
    state = f"revision {recipe.revision}" if recipe.revision is not None else "no revision"
    digest = f"sha256 {recipe.sha256[:12]}" if recipe.sha256 else "a listing's entry, no document"
    yield from _row("recipe", f"{recipe.slug} ({state}, {digest}) from {recipe.source}")
    yield from _row("plan", plan.plan_id)


def _runs(plan: Plan) -> Iterator[str]:
    yield from _row("runtime", f"{plan.runtime}: {plan.origins.get('runtime', '')}")
    engine = plan.engine
    if engine is not None:
        parts = [engine.kind.value, f"port {engine.port}" if engine.port else "", engine.served_model or ""]
        parts.append(f"{engine.max_model_len:,} tokens of context" if engine.max_model_len else "")
        yield from _row("engine", ", ".join(part for part in parts if part))
    if plan.image is not None:
        how = f"{plan.image.how}: {plan.origins.get('image.how', '')}"
        base = f", on {plan.image.base}" if plan.image.base and plan.image.how == "build" else ""
        yield from _row("image", f"{plan.image.reference} ({how}{base})")


def _cards(plan: Plan) -> Iterator[str]:
    if plan.gpus:
        yield from _row("cards", f"{len(plan.gpus)}: {', '.join(plan.gpus)}")


def _container(plan: Plan) -> Iterator[str]:
    if plan.container is None:
        return
    body, host = plan.container.body, plan.container.body.get("HostConfig") or {}
    if plan.runtime == DOCKER:
        yield from _row("container", plan.container.name)
    yield from _row("command", " ".join((*(body.get("Entrypoint") or ()), *(body.get("Cmd") or ()))), lines=4)
    yield from _row("environment", "  ".join(f"{name}={value}" for name, value in env_of(body).items()), lines=3)
    for bind in host.get("Binds") or ():
        yield from _row("mount", bind)
    for inner, outer in (host.get("PortBindings") or {}).items():
        places = [f"{one.get('HostIp') or 'every address'}:{one.get('HostPort')}" for one in outer or ()]
        yield from _row("port", f"{', '.join(places)} → {inner}")
    asks = [("--ipc=host", host.get("IpcMode") == "host"), ("--network host", host.get("NetworkMode") == "host")]
    limits = [f"--ulimit {one['Name']}={one['Hard']}" for one in host.get("Ulimits") or ()]
    yield from _row("rights", ", ".join([*(flag for flag, asked in asks if asked), *limits]))


def _needs(plan: Plan) -> Iterator[str]:
    for need in plan.requirements:
        size = _size(need.need) if isinstance(need.need, Bytes) else str(need.need)
        stated = f'"{need.words}", {need.origin.partition(" (")[0]}' if need.words else need.origin
        yield from _row("needs", f"{need.id} {size}: {stated}", lines=2)


def _size(size: Bytes) -> str:
    """Nominal sizes as they are sold, others in binary units."""
    return f"{size // 1000**3} GB" if size % 1000**3 == 0 else str(size)


def _watch(plan: Plan) -> Iterator[str]:
    watch = plan.watch
    expected = watch.start_expected
    parts = ["start of unknown length" if expected.seconds is None else f"start {_span(expected)}"]
    if watch.stall.seconds is None and watch.stall_blind.seconds is None:
        parts.append("silence is told and never acted on")
    else:
        parts.append(f"stalled after {_span(watch.stall)}, or {_span(watch.stall_blind)} where no step shows")
    parts.append(f"zombie after {_span(watch.zombie)}")
    yield from _row("watch", f"{'; '.join(parts)}; {watch.budget} restarts before a person is asked")


def _span(span: Span) -> str:
    return "never" if span.seconds is None else say_duration(timedelta(seconds=span.seconds))


def _claims(plan: Plan) -> Iterator[str]:
    if plan.claims:
        yield from _row("claims", "; ".join(_claim(claim) for claim in plan.claims), lines=2)


def _claim(claim: Claim) -> str:
    at = [f"c{claim.concurrency}" if claim.concurrency else "", f"@{claim.context:,}" if claim.context else ""]
    name = {"decode_tok_s": "decode", "prefill_tok_s": "prefill", "ttft_ms": "TTFT"}.get(claim.metric, claim.metric)
    unit = "ms" if claim.metric == "ttft_ms" else "tok/s"
    return " ".join(part for part in (name, f"{claim.value:g} {unit}", *at) if part)


def _open(plan: Plan) -> Iterator[str]:
    for entry in plan.missing:
        yield from _row("MISSING", f"{entry.key}: {entry.why}", lines=3)
        yield from _row("", entry.how, lines=2)
    for warning in plan.warnings:
        yield from _row("warning", warning, lines=3)
    prose = [entry for entry in plan.unapplied if entry.why.startswith(_PROSE)]
    if plan.unapplied:
        words = f"{len(plan.unapplied)} statements of the document, {len(prose)} of them prose (-o json lists them)"
        yield from _row("not applied", words)


_PARTS = (_head, _runs, _cards, _container, _needs, _watch, _claims, _open)


def _row(label: str, text: str, lines: int = 2) -> Iterator[str]:
    """A label and its text, wrapped, cut after some lines; nothing for an empty text."""
    wrapped = textwrap.wrap(printable(text), WIDTH - LABEL, break_on_hyphens=False)
    if len(wrapped) > lines:
        wrapped = [*wrapped[: lines - 1], f"{wrapped[lines - 1][: WIDTH - LABEL - 2]} …"]
    for at, line in enumerate(wrapped):
        yield f"{label if at == 0 else '':<{LABEL}}{line}"
