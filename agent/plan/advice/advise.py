"""All rules, in a fixed order, over one plan."""

from __future__ import annotations

from agent.plan.advice import (
    blind,
    debugging,
    developer_mode,
    endless_drain,
    floating_tag,
    foreign_code,
    gloo_interface,
    gpus_under_systemd,
    jit_caches,
    kept_alive,
    memory_limit,
    memory_share,
    open_port,
    ready_timeout,
    shared_memory,
    speculative_tokens,
    weights_folder,
    whole_context,
)
from agent.plan.advice.rule import Advice, Case, Rule
from agent.plan.model import Plan
from agent.profile.document import Profile

RULES: tuple[Rule, ...] = tuple(
    module.RULE
    for module in (
        blind,
        debugging,
        developer_mode,
        endless_drain,
        floating_tag,
        foreign_code,
        gloo_interface,
        gpus_under_systemd,
        jit_caches,
        kept_alive,
        memory_limit,
        memory_share,
        open_port,
        ready_timeout,
        shared_memory,
        speculative_tokens,
        weights_folder,
        whole_context,
    )
)


def advise(plan: Plan, profile: Profile) -> tuple[Advice, ...]:
    """Everything that is known to bite in this launch; nothing where there is no launch."""
    case = Case.of(plan, profile)
    return tuple(advice for rule in RULES for advice in rule.judge(case)) if case.words else ()
