"""Health checks of a service; its test may be a list without a shell, which no flag of the CLI can say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent.launch import golang
from agent.launch.compose.values import duration, text, texts
from agent.launch.golang import Malformed
from agent.launch.refusal import BadCompose

_TIMES = {
    "interval": "Interval",
    "timeout": "Timeout",
    "start_period": "StartPeriod",
    "start_interval": "StartInterval",
}


def check(value: Any) -> dict[str, Any] | None:
    """`Config.Healthcheck`; None where the service has none. Raises BadCompose."""
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise BadCompose(where="healthcheck", why="a map is expected", how="write test: below it")
    if value.get("disable") in (True, "true"):
        return {"Test": ["NONE"]}
    body: dict[str, Any] = {"Test": _test(value.get("test"))} if value.get("test") is not None else {}
    for key, name in _TIMES.items():
        if value.get(key) is not None:
            body[name] = golang.duration(duration(value[key], f"healthcheck.{key}"))
    if value.get("retries") is not None:
        body["Retries"] = _retries(value["retries"])
    return body


def _test(value: Any) -> list[str]:
    if isinstance(value, str):
        return ["CMD-SHELL", value]
    words = texts(value)
    if words[:1] not in (["CMD"], ["CMD-SHELL"], ["NONE"]):
        raise BadCompose(
            where="healthcheck.test", why="a list starts with CMD, CMD-SHELL or NONE", how="add one of them"
        )
    return words


def _retries(value: Any) -> int:
    try:
        return golang.integer(text(value, "healthcheck.retries"), base=10)
    except Malformed as error:
        raise BadCompose(where="healthcheck.retries", why=f"{value!r} is no number", how="write a number") from error
