"""The windows that profile and site set, as the derivation takes them."""

from __future__ import annotations

from agent.plan.windows import Given, Override
from agent.profile.document import Profile
from agent.settings.model import Settings


def overrides(profile: Profile, settings: Settings) -> dict[str, Override]:
    """Windows by name; the site file's budget lies under a profile's own."""
    budget = settings.budget
    found: dict[str, Override] = {
        "budget": Given(budget.restarts, "agent.yaml budget.restarts"),
        "backoff": Given(budget.backoff_s, "agent.yaml budget.backoff_s"),
    }
    for key, fact in profile.watch.items():
        found[key] = Given(fact.value, fact.origin(f"watch.{key}"))
    return found
