"""All rules, in a fixed order, over one plan."""

from __future__ import annotations

from agent.plan.advice import gloo_interface
from agent.plan.advice.rule import Advice, Case, Rule
from agent.plan.model import Plan

RULES: tuple[Rule, ...] = (gloo_interface.RULE,)


def advise(plan: Plan) -> tuple[Advice, ...]:
    """Everything that is known to bite in this launch; nothing where there is no launch."""
    case = Case.of(plan)
    return tuple(advice for rule in RULES for advice in rule.judge(case)) if case.words else ()
