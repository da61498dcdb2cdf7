"""The runtime on a Docker Engine: docker-py's client, asked from threads.

Engines from 20.10 (API 1.41) on. What the Engine does not know is refused before it is posted, since an older one drops
such keys in silence.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import requests
from docker import APIClient, auth
from docker.errors import APIError
from docker.utils import parse_repository_tag

from agent.adapters import docker_containers as containers
from agent.adapters import docker_views as views
from agent.adapters.docker_calls import STREAM_SILENCE_S, Calls, Stream
from agent.adapters.docker_errors import (
    FOREIGN,
    DockerFailed,
    DockerGone,
    is_gone,
    pull_trouble,
    words_of,
)
from agent.adapters.docker_logs import frames, lines
from agent.adapters.docker_pull import START, fold
from agent.adapters.docker_repeats import Repeats
from agent.adapters.docker_vantage import Vantage, own_container
from agent.container.port import (
    LABEL_RECIPE,
    ContainerSpec,
    ContainerView,
    ImageFacts,
    LogLine,
    PullProgress,
    RuntimeFacts,
    StopRequest,
)

Item = TypeVar("Item")

PULL_SILENCE_S = 300.0
"""Silence after which a pull is given up; a registry that is slow still says so."""
SAVE_FACTOR = 10
"""Saving a whole log may take so many times a call's deadline."""
TAIL_SPARE = 20
"""Empty lines among the last ones that are expected."""
WAKING = ("create", "start", "die", "destroy", "kill", "stop", "oom", "pause", "unpause", "rename")
"""Events that wake loops; the health checks of containers make many others."""


class DockerRuntime:
    """A Docker Engine on this host. `host` is its socket (`unix://…`), `timeout_s` the deadline of one call."""

    kind = "docker"
    lags = True  # Docker's own reader, after a rotation (seen on 20.10)

    def __init__(self, host: str, timeout_s: float = 30.0) -> None:
        self._calls = Calls(host, timeout_s)
        self._vantage = Vantage(own_container())

    async def facts(self) -> RuntimeFacts:
        def ask(client: APIClient) -> RuntimeFacts:
            facts = views.facts_of(client.version(), client.info())
            return replace(facts, hidden=containers.lacks(client, self._vantage))

        return await self._calls.run("ask Docker what it is", ask)

    async def list(self, slug: str | None = None) -> tuple[ContainerView, ...]:
        return await self._calls.run("list containers", partial(containers.ours, vantage=self._vantage, slug=slug))

    async def view(self, container_id: str) -> ContainerView | None:
        return (await self._view("look at a container", container_id))[1]

    async def inspect(self, container_id: str) -> Mapping[str, Any] | None:
        document = await self._document("inspect a container", container_id)
        return views.evidence_of(document) if document is not None else None

    async def create(self, spec: ContainerSpec) -> str:
        return await self._calls.run(f"create {spec.name}", partial(containers.create, spec=spec))

    async def start(self, container_id: str) -> None:
        await self._calls.run("start a container", partial(containers.start, container_id=container_id))

    async def signal(self, container_id: str, name: str) -> None:
        await self._calls.run(f"send {name}", partial(containers.signal, container_id=container_id, name=name))

    async def remove(self, container_id: str) -> None:
        """`docker rm` may hang; then this raises after its deadline and may be called again."""
        deadline = time.monotonic() + self._calls.socket_s
        await self._calls.run(
            "remove a container", partial(containers.remove, container_id=container_id, deadline=deadline)
        )

    async def follow(self, container_id: str, since: float | None) -> AsyncIterator[LogLine]:
        params = _log_params(follow=1, timestamps=1)
        if since is not None:
            # A time in a float is good to a quarter of a microsecond: ask for a bit more, leave out what was seen.
            params["since"] = f"{max(since - 1e-6, 0):.9f}"

        def read(stream: Stream[LogLine]) -> Iterator[LogLine]:
            response = self._calls.get(f"/containers/{container_id}/logs", params, STREAM_SILENCE_S)
            return lines(stream.hold(response).iter_content(None), Repeats(time.time))

        async with aclosing(self._informs("follow a log", read)) as found:
            async for line in found:
                if since is None or line.at is None or line.at > since:
                    yield line

    async def tail(self, container_id: str, lines: int) -> tuple[LogLine, ...]:
        if lines <= 0:
            return ()
        return await self._calls.run("read a log", lambda _: self._tail(container_id, lines))

    async def save_log(self, container_id: str, path: Path) -> int:
        deadline = self._calls.timeout_s * SAVE_FACTOR
        return await self._calls.run("save a log", lambda _: self._save(container_id, path), deadline)

    async def stop_requested(self, container_id: str, since: float) -> StopRequest | None:
        """The Engine keeps its last 256 events, so this is asked soon after an exit."""
        return await self._calls.run("ask who stopped it", lambda _: self._stop(container_id, since))

    async def name_holder(self, name: str) -> ContainerView | str | None:
        document, view = await self._view(f"look for the name {name}", name)
        # The Engine also takes the beginning of an id for a name.
        if document is None or views.name_of(document) != name:
            return None
        return view or str(document["Id"])

    async def image(self, reference: str) -> ImageFacts | None:
        return await self._calls.run(f"look for the image {reference}", partial(containers.image, reference=reference))

    async def pull(self, reference: str) -> AsyncIterator[PullProgress]:
        def read(stream: Stream[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
            return _messages(stream.hold(self._pull(reference)).iter_lines())

        pull = START
        try:
            async with aclosing(Stream(read).batches(PULL_SILENCE_S)) as batches:
                async for batch in batches:
                    for message in batch:
                        if error := message.get("error"):
                            raise pull_trouble(reference, str(error))
                        pull = fold(pull, message)
                    yield pull.progress()
        except TimeoutError as error:
            raise pull_trouble(reference, f"nothing came for {PULL_SILENCE_S:g} s") from error
        except APIError as error:
            raise pull_trouble(reference, words_of(error)) from error
        except FOREIGN as error:
            raise self._calls.trouble(f"pull {reference}", error) from error
        if await self.image(reference) is None:
            raise pull_trouble(reference, "the stream ended before the image was there")

    async def events(self) -> AsyncIterator[str]:
        filters = {"type": ["container"], "label": [LABEL_RECIPE], "event": list(WAKING)}

        def read(stream: Stream[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
            response = self._calls.get("/events", {"filters": json.dumps(filters)}, STREAM_SILENCE_S)
            return _messages(stream.hold(response).iter_lines(chunk_size=1))

        async with aclosing(self._informs("listen to events", read)) as found:
            async for event in found:
                if slug := ((event.get("Actor") or {}).get("Attributes") or {}).get(LABEL_RECIPE):
                    yield slug

    async def _informs(self, action: str, read: Callable[[Stream[Item]], Iterator[Item]]) -> AsyncGenerator[Item, None]:
        """A stream that only informs: a break, silence, and a container that is gone, are its end."""
        stream = Stream(read)
        try:
            async with aclosing(stream.batches()) as batches:
                async for batch in batches:
                    for item in batch:
                        yield item
        except FOREIGN as error:
            if isinstance(error, APIError) and is_gone(error):
                return
            trouble = self._calls.trouble(action, error)
            if not stream.opened:
                raise trouble from error

    async def close(self) -> None:
        self._calls.close()

    async def _document(self, action: str, container_id: str) -> Mapping[str, Any] | None:
        return await self._calls.run(action, partial(containers.inspect, name_or_id=container_id))

    async def _view(self, action: str, name_or_id: str) -> tuple[Mapping[str, Any] | None, ContainerView | None]:
        look = partial(containers.view, name_or_id=name_or_id, vantage=self._vantage)
        return await self._calls.run(action, look)

    def _tail(self, container_id: str, count: int) -> tuple[LogLine, ...]:
        """The Engine counts empty lines too: ask for more, and for many more while they do not suffice."""
        asked, before = count + TAIL_SPARE, -1
        while True:
            found = self._last_entries(container_id, asked)
            if len(found) >= count or len(found) == before:
                return found[-count:]
            asked, before = asked * 4, len(found)

    def _last_entries(self, container_id: str, count: int) -> tuple[LogLine, ...]:
        params = _log_params(timestamps=1, tail=count)
        try:
            response = self._calls.get(f"/containers/{container_id}/logs", params, self._calls.timeout_s)
        except APIError as error:
            if is_gone(error):
                return ()
            raise
        with response:
            return tuple(lines(response.iter_content(None)))

    def _save(self, container_id: str, path: Path) -> int:
        try:
            response = self._calls.get(f"/containers/{container_id}/logs", _log_params(), self._calls.timeout_s)
        except APIError as error:
            if is_gone(error):
                raise DockerGone(action="save its log", container=container_id) from error
            raise
        with response:
            return _write_whole(path, (payload for _, payload in frames(response.iter_content(None))))

    def _stop(self, container_id: str, since: float) -> StopRequest | None:
        filters = {"type": ["container"], "container": [container_id], "event": ["kill", "stop"]}
        now = time.time()
        if since >= now:  # the clock was set back; the Engine refuses such a question
            return None
        params = {"since": f"{since:.9f}", "until": f"{now:.9f}", "filters": json.dumps(filters)}
        with self._calls.get("/events", params, self._calls.timeout_s) as response:
            return views.stop_of(_messages(response.iter_lines()))

    def _pull(self, reference: str) -> Any:
        client = self._calls.client()
        client.reload_config()  # a `docker login` since the last pull
        repository, tag = parse_repository_tag(reference)
        registry, _ = auth.resolve_repository_name(repository)
        header = auth.get_config_header(client, registry)
        headers = {"X-Registry-Auth": header.decode() if isinstance(header, bytes) else header} if header else {}
        params = {"fromImage": repository, "tag": tag or "latest"}
        return self._calls.post("/images/create", params, headers, PULL_SILENCE_S)


def _log_params(**more: int | str) -> dict[str, int | str]:
    return {"stdout": 1, "stderr": 1, **more}


def _messages(found: Iterable[bytes]) -> Iterator[Mapping[str, Any]]:
    """A line, an object; a torn last line of a stream that broke is left out."""
    for line in found:
        try:
            message = json.loads(line) if line.strip() else None
        except ValueError:
            return
        if isinstance(message, dict):
            yield message


def _write_whole(path: Path, parts: Iterable[bytes]) -> int:
    """`path` is there whole or not at all; bytes written."""
    aside = path.with_name(f".{path.name}.new")
    try:
        with aside.open("wb") as target:
            for part in parts:
                target.write(part)
            target.flush()
            os.fsync(target.fileno())
            size = target.tell()
        aside.rename(path)
    except requests.RequestException:
        raise  # an OSError as well, and of the Engine, not of the disk
    except OSError as error:
        raise DockerFailed(action=f"save a log as {path}", why=error.strerror or str(error), advice="") from error
    finally:
        aside.unlink(missing_ok=True)
    return size
