"""The connections to an Engine that are used again, and those that are not."""

from __future__ import annotations

import asyncio
import io
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from agent.adapters.docker_calls import Calls
from agent.adapters.docker_runtime import DockerRuntime
from agent.adapters.image_build import EngineBuilder
from agent.errors import AgentError
from agent.image.port import InstructionFailed
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


async def test_every_stream_that_may_be_cut_has_a_connection_of_its_own(tmp_path: Path) -> None:
    answers: dict[str, Any] = {
        "GET /containers/c/logs": Chunks(()),
        "GET /events": Chunks(()),
        "POST /images/create": Chunks((b'{"error": "no room"}\n',)),
        "POST /build": Chunks((b'{"error": "step 1 failed"}\n',)),
    }
    async with serving(tmp_path, answers) as stub:
        runtime, builder = DockerRuntime(stub.host), EngineBuilder(stub.host)
        streams = {
            "logs": runtime.follow("c", None),
            "events": runtime.events(),
            "images/create": runtime.pull("x:1"),
            "build": builder.build(io.BytesIO(b"a context"), "x:1"),
        }
        for stream in streams.values():
            with suppress(AgentError, InstructionFailed):
                async for _ in stream:
                    pass
        await runtime.close()
        await builder.close()
    asked = [urlsplit(line.split()[1]).path.partition("/v1.41/")[2] for line in stub.alone]
    assert [path.removeprefix("containers/c/") for path in asked] == list(streams)
