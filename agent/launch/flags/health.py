"""Health checks: a container may bring one, and `--no-healthcheck` takes the image's away."""

from __future__ import annotations

from typing import Any

from agent.launch.flags.kinds import Given, refuse

TIMES = (
    ("health-interval", "Interval"),
    ("health-timeout", "Timeout"),
    ("health-start-period", "StartPeriod"),
    ("health-start-interval", "StartInterval"),
)


def check(given: Given) -> dict[str, Any] | None:
    """`Config.Healthcheck`; None where nothing was said. Raises Malformed."""
    command, retries = given.text("health-cmd"), given.number("health-retries")
    said = bool(command or retries or any(given.number(flag) for flag, _ in TIMES))
    if given.on("no-healthcheck"):
        refuse(said, "--no-healthcheck conflicts with --health-* options")
        return {"Test": ["NONE"]}
    if not said:
        return None
    for flag, _ in TIMES:
        refuse(given.number(flag) < 0, f"--{flag} cannot be negative")
    refuse(retries < 0, "--health-retries cannot be negative")
    body: dict[str, Any] = {"Test": ["CMD-SHELL", command]} if command else {}
    body |= {key: given.number(flag) for flag, key in TIMES if given.number(flag)}
    return body | ({"Retries": retries} if retries else {})
