"""What is known of a plan on its way: before cards are chosen, and once it is settled what runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agent.engines.model import EngineLaunch
from agent.plan.body import Made, Site
from agent.plan.draft import Draft
from agent.plan.gpus import Choice
from agent.plan.model import ImagePlan, Requirement
from agent.profile.document import Profile


@dataclass(frozen=True, slots=True)
class Stage:
    """What is known before cards are chosen."""

    profile: Profile
    drafted: Draft
    runtime: str
    why: str
    site: Site
    made: Made
    variables: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Run:
    """What will run, and the cards it runs on."""

    made: Made
    engine: EngineLaunch | None
    needs: tuple[Requirement, ...]
    choice: Choice
    image: ImagePlan | None
    image_why: str
    warnings: tuple[str, ...]
