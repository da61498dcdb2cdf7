"""One request to a server that does not do what OpenAI's API promises: a number that is right, or none and why."""

from __future__ import annotations

import asyncio
import gzip
import re
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from agent.adapters.http_stream import HttpStreams
from agent.engines.model import Request
from agent.samples.port import Endpoint
from agent.verify.trace import Trace, decode_rate
from tests.verify import hostile
from tests.verify.hostile import DONE, HEAD, Hostile, Script, answer, event, piece, served, usage

pytestmark = pytest.mark.timeout(60)

KEY = "sk-live-0123456789abcdefghij"
ASKED = 12


@pytest.fixture
async def streams() -> AsyncIterator[HttpStreams]:
    made = HttpStreams()
    yield made
    await made.close()


async def traced(streams: HttpStreams, script: Script, within: float = 10.0, asked: int = ASKED) -> Trace:
    return await trace_of(streams, Hostile(script), within, asked)


async def trace_of(streams: HttpStreams, hostile: Hostile, within: float, asked: int) -> Trace:
    async with served(hostile) as engine:
        request = Request("/v1/completions", "POST", {"prompt": "a", "max_tokens": asked, "stream": True})
        return await streams.trace(Endpoint("127.0.0.1", engine.port, KEY), request, within)


def says(*parts: bytes, every: float = 0.0, then: float = 0.0) -> Script:
    """These bytes, each after a pause; and the connection is kept so long."""

    async def script(engine: Hostile, asked: Mapping[str, Any], out: asyncio.StreamWriter) -> None:
        for part in parts:
            out.write(part)
            await out.drain()
            await asyncio.sleep(every)
        await asyncio.sleep(then)

    return script


def resets(*parts: bytes) -> Script:
    async def script(engine: Hostile, asked: Mapping[str, Any], out: asyncio.StreamWriter) -> None:
        for part in parts:
            out.write(part)
        await out.drain()
        await asyncio.sleep(0.05)
        out.transport.abort()

    return script


WORDS = [piece(" word") for _ in range(ASKED - 1)] + [piece(" word", "length")]
WHOLE = b"".join((*WORDS, usage(7, ASKED), DONE))


def odd(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


def chunked(data: bytes, size: int) -> bytes:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    return head + b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in odd(data, size)) + b"0\r\n\r\n"


RIGHT: dict[str, Script] = {
    "odd bytes": says(HEAD, *odd(WHOLE, 7), every=0.0005),
    "odd chunks": says(chunked(WHOLE, 11)),
    "one packet": says(HEAD + WHOLE),
    "carriage returns": says(HEAD + WHOLE.replace(b"\n", b"\r\n")),
    "no space after data": says(HEAD + WHOLE.replace(b"data: ", b"data:")),
    "comments and other fields": says(HEAD + b": ping\n\nevent: message\nid: 4\nretry: 10\n\n" + WHOLE),
    "empty events": says(HEAD + b"data:\n\ndata: {}\n\ndata: null\n\n" + WHOLE),
    "greeting without text": says(HEAD + piece("") + WHOLE),
    "no end mark": says(HEAD, *WORDS, usage(7, ASKED)),
    "no end mark, and kept open": says(HEAD, *WORDS, usage(7, ASKED), then=20),
    "end mark, and kept open": says(HEAD + WHOLE, then=20),
    "no counts, all that was asked for": says(HEAD, *WORDS, DONE),
    "old protocol": says(b"HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + WHOLE),
    "packed though nobody asked": says(
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nConnection: close\r\n\r\n" + gzip.compress(WHOLE)
    ),
    "large headers": says(HEAD.replace(b"\r\n\r\n", b"\r\nX-Long: " + b"a" * 7000 + b"\r\n\r\n") + WHOLE),
}


@pytest.mark.parametrize("name", RIGHT)
async def test_an_odd_form_of_an_answer_is_read_as_what_it_says(
    streams: HttpStreams, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.adapters.http_stream.AFTER_END_S", 0.3)
    began = time.monotonic()
    trace = await traced(streams, RIGHT[name])
    assert (trace.error, trace.tokens) == ("", ASKED)
    assert len(trace.pieces) == ASKED
    assert trace.prompt_tokens == (None if name.startswith("no counts") else 7)
    assert time.monotonic() - began < 8.0


WRONG: dict[str, tuple[Script, str]] = {
    "no counts, ended early": (says(HEAD, *WORDS[:5], piece("", "stop"), DONE), "neither how many"),
    "broken off": (says(HEAD, *WORDS[:5]), "broke off"),
    "broken off with counts so far": (says(HEAD, *WORDS[:5], usage(7, 5)), "broke off"),
    "reset": (resets(HEAD, *WORDS[:5]), "broke off"),
    "reset before the first": (resets(HEAD), "no token came"),
    "chunk cut": (says(chunked(WHOLE, 11)[:400]), "broke off or is none"),
    "too few counted": (says(HEAD, *WORDS, usage(7, 1), DONE), "counts 1 tokens, and sent 12"),
    "none counted": (says(HEAD, *WORDS, usage(7, 0), DONE), "counts 0 tokens"),
    "too many counted": (says(HEAD, *WORDS, usage(7, 4000), DONE), "where 12 were asked for"),
    "counts that are none": (says(HEAD, *WORDS[:5], usage("7", True), piece("", "stop"), DONE), "neither how many"),
    "negative": (says(HEAD, *WORDS[:5], usage(-7, -5), piece("", "stop"), DONE), "neither how many"),
    "a number of 4000 digits": (
        says(HEAD, *WORDS[:5], piece("", "stop"), event(usage={"completion_tokens": 10**4000}), DONE),
        "neither how many",
    ),
    "a number of 9000 digits": (says(HEAD, *WORDS[:5], b'data: {"usage": ' + b"9" * 9000 + b"}\n\n"), "is none"),
    "no end": (says(HEAD, *(piece(" word") for _ in range(4000))), "more than the 12 tokens"),
    "pings for ever": (says(HEAD, *(b": ping\n\n" for _ in range(300)), every=0.02), "longer than"),
    "silence": (says(HEAD, then=20), "longer than"),
    "nothing at all": (says(then=20), "longer than"),
    "ended at once": (says(HEAD, piece("", "stop"), usage(7, 1), DONE), "no token came"),
    "an error midway": (says(HEAD, *WORDS[:5], event(error={"message": "CUDA error"}), then=20), "CUDA error"),
    "an older error midway": (says(HEAD, *WORDS[:5], event(object="error", message="out of memory")), "out of memory"),
    "aborted": (says(HEAD, *WORDS[:5], piece("", "abort"), usage(7, 5), DONE), "abort"),
    "not JSON": (says(HEAD, b"data: <html>\n\n"), "is none"),
    "not a stream": (says(answer("200 OK", b'{"choices": [{"text": "whole"}]}')), "no token came"),
    "a line without end": (says(HEAD, *(b"data: " + b"a" * 1_000_000 for _ in range(5))), "is none"),
    "not HTTP": (says(b"SSH-2.0-OpenSSH_9.2\r\n"), "is none"),
    "headers without end": (says(HEAD[:-2] + b"X-Long: " + b"a" * 200_000), "is none"),
    "busy": (says(answer("429 Too Many Requests", b'{"error": "queue is full"}')), "answered 429: .*queue is full"),
    "unavailable": (says(answer("503 Service Unavailable", b"loading")), "answered 503"),
    "bad gzip": (says(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nConnection: close\r\n\r\nabcdefgh"), "is none"),
    "endless refusal": (
        says(b"HTTP/1.1 500 Error\r\nConnection: close\r\n\r\n", *(b"x" * 65536 for _ in range(200)), every=0.01),
        "answered 500",
    ),
}


@pytest.mark.parametrize("name", WRONG)
async def test_what_is_no_answer_has_a_reason_and_no_traceback(streams: HttpStreams, name: str) -> None:
    script, why = WRONG[name]
    trace = await traced(streams, script, within=2.0)
    assert trace.error, trace
    assert re.search(why, trace.error), trace.error
    assert len(trace.error) <= 200


async def test_a_redirect_is_not_followed(streams: HttpStreams) -> None:
    """Another server would be measured, and the key would go there."""
    async with served(Hostile()) as other:
        to = f"Location: http://127.0.0.1:{other.port}/v1/completions"
        trace = await traced(streams, says(answer("307 Temporary Redirect", b"", to)))
        assert "answered 307" in trace.error
        assert other.asked == []


async def test_a_key_that_is_said_back_is_not_told(streams: HttpStreams) -> None:
    """Some servers repeat in their refusal what they were sent; what is told goes to reports, events and logs."""
    body = f'{{"error": "{"x" * 180}{KEY} is no key\n\x1b[2J"}}'.encode()
    for script in (says(answer("401 Unauthorized", body)), says(HEAD, event(error=f"bad key {KEY}"))):
        trace = await traced(streams, script)
        assert trace.error
        assert KEY[:8] not in trace.error
        assert "\n" not in trace.error


async def test_text_is_not_asked_for_packed(streams: HttpStreams) -> None:
    async with served(Hostile()) as engine:
        request = Request("/v1/completions", "POST", {"prompt": "a", "max_tokens": 2})
        await streams.trace(Endpoint("127.0.0.1", engine.port), request, 5.0)
        assert engine.asked[0][1]["accept-encoding"] == "identity"


async def test_special_tokens_without_text_are_tokens(streams: HttpStreams) -> None:
    """Told to ignore the end, an engine goes on with marks of which nothing is shown: they take time all the same."""
    parts = [piece(" word") for _ in range(4)] + [piece("") for _ in range(35)] + [piece("", "length")]
    trace = await traced(streams, says(HEAD, *parts, usage(7, 40), DONE, every=0.01), asked=40)
    rate = decode_rate([trace])
    assert trace.error == ""
    assert rate is not None
    assert rate <= 110.0


@pytest.mark.parametrize("first", [1, 200])
async def test_a_buffer_has_no_pace(streams: HttpStreams, first: int) -> None:
    """One token, and when all others are made they come at once; or most at once and a trickle behind."""
    rest = 256 - first
    parts = [HEAD + b"".join(piece(" word") for _ in range(first))]
    parts += [b"".join([piece(" word") for _ in range(rest - 1)]) + piece(" w", "length") + usage(7, 256) + DONE]
    trace = await traced(streams, says(*parts, every=0.5), asked=256)
    assert trace.error == ""
    assert decode_rate([trace]) is None


async def test_a_first_piece_of_many_tokens_is_not_counted_as_one(streams: HttpStreams) -> None:
    """200 tokens at the first moment, and 56 in the half second after it: 112 tok/s, not 500."""
    parts = [HEAD + piece(" word" * 200), *(piece(" word") for _ in range(55)), piece(" word", "length")]
    trace = await traced(streams, says(*parts, usage(7, 256), DONE, every=0.01), asked=256)
    rate = decode_rate([trace])
    assert rate is not None
    assert rate <= 115.0


async def test_an_honest_stream_is_timed_by_its_pace(streams: HttpStreams) -> None:
    engine = Hostile(hostile.honest)
    trace = await trace_of(streams, engine, 10.0, asked=60)
    rate = decode_rate([trace])
    assert rate is not None
    assert rate == pytest.approx(engine.gave(60), rel=0.25)
    assert rate <= 205.0
