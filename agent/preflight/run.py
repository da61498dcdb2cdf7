"""Run all checks of a case side by side. None raises, none outlasts its deadline, none costs another."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator

from agent.logger import logger
from agent.plan.model import Requirement
from agent.preflight.case import Case
from agent.preflight.catalogue import CHECKS, ON_REQUEST
from agent.preflight.check import Answer, Check, unknown
from agent.preflight.model import Finding


async def run(case: Case, checks: Collection[Check] = CHECKS) -> tuple[Finding, ...]:
    """One finding for each check that applies, in the catalogue's order, then what no check answers."""
    answers = await asyncio.gather(*(ask(check, case) for check in checks))
    findings = [
        finding(check.id, case, answer, is_required(check, case))
        for check, answer in zip(checks, answers, strict=True)
        if answer is not None
    ]
    return (*findings, *unanswered(case))


def only(ids: Collection[str]) -> tuple[Check, ...]:
    """The checks of these ids."""
    return tuple(check for check in CHECKS if check.id in ids)


def without(checks: Collection[Check], ids: Collection[str]) -> tuple[Check, ...]:
    """Those checks less the ones of these ids."""
    return tuple(check for check in checks if check.id not in ids)


async def ask(check: Check, case: Case) -> Answer | None:
    """The check's answer; None where it does not apply."""
    try:
        async with asyncio.timeout(check.deadline_s):
            return await check.look(case) if check.applies(case) else None
    except TimeoutError:
        return unknown(f"no answer within {check.deadline_s:g} s", hint="something hangs: look at `agentctl doctor`")
    except Exception as error:  # noqa: BLE001 - told, with its traceback
        logger().exception("a check failed", check=check.id)
        return unknown(f"the check itself failed: {type(error).__name__}: {error}", hint="please report this")


def finding(check_id: str, case: Case, answer: Answer, required: bool) -> Finding:
    """The answer with its check's name, and with the need as the plan states it where the check says no more."""
    need = case.need(check_id)
    return Finding(
        check=check_id,
        level=answer.level,
        found=answer.found,
        need=answer.need or (str(need.need) if need else ""),
        origin=answer.origin or (origin_words(need) if need else ""),
        hint=answer.hint,
        details=answer.details,
        required=required,
    )


def is_required(check: Check, case: Case) -> bool:
    return not check.advisory and (check.required or case.need(check.id) is not None)


def unanswered(case: Case) -> Iterator[Finding]:
    """Requirements that no check knows: unknown, and so never passed in silence."""
    known = {check.id for check in (*CHECKS, *ON_REQUEST)}
    for need in case.plan.requirements:
        if need.id not in known:
            hint = f"see to it, then deploy with --accept {need.id}"
            answer = unknown("nothing on this host answers that", hint=hint)
            yield finding(need.id, case, answer, required=True)


def origin_words(need: Requirement) -> str:
    """Where it is stated, with those of its author's words that the origin does not quote already."""
    words = "; ".join(part for part in need.words.split("; ") if part not in need.origin)
    return f"{need.origin}: “{words}”" if words else need.origin
