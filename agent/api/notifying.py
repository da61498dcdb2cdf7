"""Whether messages to people arrive."""

from __future__ import annotations

from aiohttp import web

from agent.api import answers
from agent.api.endpoint import Endpoints, Listing, Promise, reply
from agent.api.routes import DESK

notifying = Endpoints()


class Told(answers.Answer):
    """A service and what became of the test. `service` is the file and line that name it; `why` is empty when it took
    the message."""

    service: str
    taken: bool
    why: str


@notifying.add("POST", "/v1/notifications/test", Promise({200: Listing(Told)}, fails=(409, 422)))
async def test_notifications(request: web.Request) -> web.Response:
    """Send a test to every service of the site file, now and once."""
    told = await request.app[DESK].test_notifications()
    return reply([Told(service=name, taken=why is None, why=why or "") for name, why in told])
