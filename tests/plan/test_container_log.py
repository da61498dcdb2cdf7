"""A container's log is bounded by default, and what its author says about it holds as far as it bounds anything."""

from __future__ import annotations

import pytest

from agent.plan.container import bounded_log
from agent.settings.model import Logs

SIZES = {"max-size": "50000000", "max-file": "4"}
ONE = {"max-size": "50000000", "max-file": "1"}


@pytest.mark.parametrize(
    ("driver", "options", "files", "expect"),
    [
        ("", {}, 4, ("json-file", SIZES)),
        ("", {"max-size": "10m"}, 4, ("json-file", SIZES | {"max-size": "10m"})),
        ("json-file", {"max-file": "2", "tag": "t"}, 4, ("json-file", SIZES | {"max-file": "2", "tag": "t"})),
        ("json-file", {"max-size": "-1"}, 4, ("json-file", SIZES)),
        ("json-file", {"mode": "non-blocking"}, 4, ("json-file", SIZES | {"mode": "non-blocking"})),
        ("json-file", {}, 1, ("json-file", ONE)),
        ("json-file", {"compress": "true"}, 1, ("json-file", SIZES | {"max-file": "2", "compress": "true"})),
        ("local", {}, 4, ("local", SIZES)),
        ("local", {"max-size": "1m"}, 4, ("local", SIZES | {"max-size": "1m"})),
        ("local", {}, 1, ("local", ONE | {"compress": "false"})),
        ("local", {"max-file": "3", "compress": "true"}, 1, ("local", ONE | {"max-file": "3", "compress": "true"})),
        ("journald", {"tag": "t"}, 4, ("journald", {"tag": "t"})),
        ("none", {}, 4, ("json-file", SIZES)),
        ("syslog", {"syslog-address": "udp://h"}, 4, ("json-file", SIZES)),
    ],
)
def test_what_is_stated_holds_and_the_rest_is_bounded(
    driver: str, options: dict[str, str], files: int, expect: tuple[str, dict[str, str]]
) -> None:
    body = {"HostConfig": {"LogConfig": {"Type": driver, "Config": options}}}
    edited = bounded_log(body, Logs(engine_max_files=files))
    found = edited.body["HostConfig"]["LogConfig"]
    assert (found["Type"], found["Config"]) == expect
    assert bool(edited.warnings) is (driver in ("none", "syslog"))
