"""Loaded by schemathesis itself (SCHEMATHESIS_HOOKS): what its one-request-one-answer view cannot take.

Streams have no end; they are tested in test_streams. A valid request for one is sent for its finite form instead.
"""

from __future__ import annotations

from typing import Any

import schemathesis

STREAMS = {"/v1/events": True, "/v1/deployments/{slug}/logs": False}
"""Path → whether it streams where `follow` is not given."""
YES = ("true", "1", "yes", "on", "t", "y")


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: Any) -> None:
    if case.operation.path in STREAMS:
        query = dict(case.query or {})
        follow = query.get("follow", STREAMS[case.operation.path])
        if str(follow).lower() in YES:
            case.query = {**query, "follow": "false"}
