"""A rule of advice: one thing that is known to bite in a launch, where it was seen, and the line that mends it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from agent.engines.model import EngineKind, EngineLaunch
from agent.plan.model import Plan
from agent.plan.runtime import DOCKER, env_of
from agent.profile.document import Profile


@dataclass(frozen=True, slots=True)
class Advice:
    """`text` says what will happen, `line` what to add, `source` where that was seen."""

    rule: str
    text: str
    line: str
    source: str

    def __str__(self) -> str:
        return f"{self.text} ({self.source}): {self.line}"


@dataclass(frozen=True, slots=True)
class Case:
    """A plan as the rules look at it."""

    plan: Plan
    env: Mapping[str, str]
    words: tuple[str, ...]
    """Entrypoint and arguments."""
    profile: Profile

    @classmethod
    def of(cls, plan: Plan, profile: Profile) -> Case:
        body = plan.container.body if plan.container else {}
        return cls(plan, env_of(body), (*(body.get("Entrypoint") or ()), *(body.get("Cmd") or ())), profile)

    @property
    def engine(self) -> EngineLaunch | None:
        return self.plan.engine

    @property
    def body(self) -> Mapping[str, Any]:
        return self.plan.container.body if self.plan.container else {}

    @property
    def host(self) -> Mapping[str, Any]:
        """HostConfig; empty where no container is made."""
        return self.body.get("HostConfig") or {}

    @property
    def contained(self) -> bool:
        return self.plan.runtime == DOCKER and bool(self.body)

    def serves(self, *kinds: EngineKind) -> EngineLaunch | None:
        """The engine where it is one of these kinds."""
        return self.engine if self.engine is not None and self.engine.kind in kinds else None

    def flag(self, *names: str) -> str | None:
        """The value of the first of these flags that is there; empty for a switch."""
        for at, word in enumerate(self.words):
            name, equals, value = word.partition("=")
            if name in names:
                after = self.words[at + 1] if at + 1 < len(self.words) else ""
                return value if equals else "" if after.startswith("--") else after
        return None

    @property
    def open_port(self) -> bool:
        """Whether others than this host's own programs reach the engine's port."""
        engine = self.engine
        if engine is None or engine.port is None:
            return False
        if not self.contained or self.host.get("NetworkMode") == "host":
            return engine.host in (None, "0.0.0.0", "::", "")  # noqa: S104 (this looks for it)
        bindings = (self.host.get("PortBindings") or {}).get(f"{engine.port}/tcp") or ()
        return any(one.get("HostIp") in ("", None, "0.0.0.0", "::") for one in bindings)  # noqa: S104

    def mounted(self, *targets: str) -> bool:
        """Whether any of these folders of the container lies on a mount."""
        places = [bind.split(":")[1] for bind in self.host.get("Binds") or () if bind.count(":") >= 1]
        places += [str(mount.get("Target")) for mount in self.host.get("Mounts") or ()]
        return any(_within(target, place.rstrip("/")) for target in targets for place in places)


def _within(target: str, place: str) -> bool:
    return target == place or target.startswith(f"{place}/")


@dataclass(frozen=True, slots=True)
class Rule:
    """`look` yields `(text, line)` for each thing that it finds."""

    id: str
    source: str
    look: Callable[[Case], Iterable[tuple[str, str]]]

    def judge(self, case: Case) -> tuple[Advice, ...]:
        """What this rule has to say of a plan."""
        return tuple(Advice(self.id, text, line, self.source) for text, line in self.look(case))
