"""The connections to an Engine that are used again, and those that are not."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from agent.adapters.docker_calls import Calls
from tests.adapters.docker_stub import Chunks, serving


async def test_the_cut_of_a_stream_that_has_just_ended_hits_no_other_call(tmp_path: Path) -> None:
    """Its last message is an error: the reader leaves at once, while its thread is about to give the socket back."""
    answers: dict[str, Any] = {"GET /events": Chunks((b"{}",)), "GET /info": (200, {"Name": "here"})}
    async with serving(tmp_path, answers) as stub:
        calls = Calls(stub.host, 5.0)

        def ended() -> None:
            response = calls.get("/events", {}, 5.0)
            raw: Any = response.raw
            sock = raw._fp.fp.raw._sock  # as the cut finds it, the moment before the answer is whole
            assert response.content == b"{}"
            sock.close()

        await asyncio.to_thread(ended)
        facts = await calls.run("ask", lambda client: client.info())
        assert facts["Name"] == "here"
        calls.close()
