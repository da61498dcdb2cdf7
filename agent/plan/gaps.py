"""What the operator must still supply, each once, with the profile's own words where it has some."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from agent.engines.model import EngineLaunch
from agent.plan.draft import Draft
from agent.plan.model import ImagePlan, Missing
from agent.plan.secrets import references
from agent.profile.document import Gap, Profile
from agent.settings.model import Settings

_NO_LAUNCH = ("launch.line",)


def still_missing(found: Iterable[Missing], profile: Profile, image: ImagePlan | None) -> tuple[Missing, ...]:
    """`found`, and the profile's declared gaps that have no value yet; those of a build only where one is made."""
    entries = {entry.key: entry for entry in found}
    for gap in profile.missing:
        if has_value(profile, gap.key) or (gap.only_for == "build" and (image is None or image.how != "build")):
            continue
        if gap.key.startswith("variables.") and gap.key not in entries:
            continue  # the launch does not use it, or the site's own file states it
        entries[gap.key] = _declared(gap, entries.get(gap.key))
    return tuple(entries.values())


def _declared(gap: Gap, found: Missing | None) -> Missing:
    return Missing(gap.key, gap.why, gap.how or (found.how if found else f"--set {gap.key}=…"))


def has_value(profile: Profile, key: str) -> bool:
    """Whether a dotted key of a profile is stated."""
    value: Any = profile
    parts = key.split(".")
    for at, part in enumerate(parts):
        if isinstance(value, Mapping):
            rest = ".".join(parts[at:])
            if rest in value:
                return True
            value = value.get(part)
        elif isinstance(value, BaseModel):
            value = getattr(value, part, None)
        if value is None:
            return False
    return bool(value != ())


def of_hosts(profile: Profile) -> Iterator[Missing]:
    """A recipe over several machines: this agent runs one machine's engine."""
    hosts = profile.requirements.hosts
    if hosts is not None and hosts.value > 1:
        why = f"{hosts.origin('requirements.hosts')}: {hosts.value} machines, and this agent runs what one of them runs"
        how = "state this machine's own line in launch.line of the site profile, then --set requirements.hosts=1"
        yield Missing("requirements.hosts", why, how)


def of_engine(engine: EngineLaunch | None, drafted: Draft) -> Iterator[Missing]:
    """An engine that nobody names cannot be watched; of a launch that lacks its variables, or is one of several,
    nothing is known yet."""
    unread = drafted.launch is None and any(entry.key not in _NO_LAUNCH for entry in drafted.missing)
    if engine is None and not unread:
        yield Missing("engine.kind", "nothing says which engine serves", "--set engine.kind=vllm (or another)")


def of_secrets(body: Mapping[str, Any], profile: Profile, settings: Settings) -> tuple[dict[str, str], list[Missing]]:
    """Where each secret's value is (a file, or `variables`), and those that are nowhere."""
    places: dict[str, str] = {}
    missing: list[Missing] = []
    for name in dict.fromkeys(references(body)):
        if name in profile.secrets:
            places[name] = profile.secrets[name].value
        elif name in settings.secrets:
            places[name] = str(settings.secrets[name])
        elif name in settings.variables:
            places[name] = "variables"
        else:
            why = f"the launch sets {name}, and a published value is nobody's secret"
            missing.append(Missing(f"secrets.{name}", why, f"secrets: {{{name}: /path/of/a/file}} in agent.yaml"))
    return places, missing
