"""One client of a Docker Engine, asked from threads: each call with a deadline, streams on threads of their own."""

from __future__ import annotations

import asyncio
import socket
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import suppress
from threading import Thread
from typing import IO, Any, Generic, TypeVar

import docker
import requests
from docker.errors import create_api_error_from_http_exception
from docker.transport import UnixHTTPAdapter
from docker.types import CancellableStream

from agent.adapters.docker_errors import FOREIGN, DockerRejected, DockerUnreachable, is_negotiation, translate
from agent.adapters.runtime_threads import Threads
from agent.errors import RuntimeTrouble

Result = TypeVar("Result")
Item = TypeVar("Item")

AT_ONCE = 8
"""Calls at once; each may use a connection."""
STREAM_SILENCE_S = 60.0
"""Silence after which a stream of events or lines ends, so that a peer that dropped without a word is noticed."""
FULL = 2_000
"""Items that a stream reads ahead of its reader."""


OWN = {"Connection": "close"}
"""A request whose connection nobody uses after it."""


class OnePool(UnixHTTPAdapter):
    """All requests share the connections of one pool.

    docker-py keeps a pool for each URL, and a URL names a container: 25 idle connections after as many containers, and
    a new one for nearly every request where there are more URLs than that.
    """

    def get_connection(self, url: str | bytes, proxies: Any = None) -> Any:
        return super().get_connection(self.socket_path, proxies)


class Calls:
    """Calls to one Engine. The client is made by the first call, since making it asks for the API's version."""

    def __init__(self, host: str, timeout_s: float) -> None:
        self.host = host
        self.timeout_s = timeout_s
        self._threads = Threads("docker", AT_ONCE)
        self._client: docker.APIClient | None = None

    async def run(
        self, action: str, call: Callable[[docker.APIClient], Result], deadline: float | None = None
    ) -> Result:
        """What `call` returns, within `deadline` seconds (`timeout_s` unless said). Raises RuntimeTrouble alone."""
        seconds = deadline or self.timeout_s
        try:
            return await self._threads.run(lambda: call(self.client()), seconds)
        except FOREIGN as error:
            raise self.trouble(action, error, seconds) from error

    def trouble(self, action: str, error: BaseException, seconds: float | None = None) -> RuntimeTrouble:
        """One of `FOREIGN` as one of ours. The client is forgotten where the Engine may have been exchanged."""
        found = translate(error, action, self.host, seconds or self.timeout_s)
        if isinstance(found, DockerUnreachable) or is_negotiation(error):
            self.close()
        return found

    def client(self) -> docker.APIClient:
        """Blocks. Two first calls at once make two clients, of which one stays: no call waits for another's hang."""
        client = self._client
        if client is None:
            if not self.host.startswith("unix://"):
                why = f"{self.host} is no local socket, and the agent watches the processes of its own host"
                raise DockerRejected(action="use Docker", why=why, advice="set docker.host to unix:///…")
            self._knock(self.host.removeprefix("unix://"))
            client = docker.APIClient(
                base_url=self.host,
                version="auto",
                timeout=self.socket_s,  # type: ignore[arg-type]  # the stubs say int, and it takes fractions
            )
            client.close()  # the connection that its version came by
            client.mount("http+docker://", OnePool(self.host.removeprefix("unix://"), max_pool_size=AT_ONCE))
            self._client = client
        return client

    def close(self) -> None:
        """Connections that are in use end by themselves."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def get(self, path: str, params: dict[str, Any], silence: float) -> requests.Response:
        """Blocks. A streamed answer whose every read ends after `silence` seconds. Raises APIError.

        Its connection is its own: a stream is ended by shutting its socket down from another thread, and whole answers
        give their connections back to the pool by themselves, so that would hit the next call.
        """
        client = self.client()
        url = f"{client.base_url}/v{client.api_version}{path}"
        wait = (self.socket_s, silence)
        return _answered(client.get(url, params=params, headers=OWN, stream=True, timeout=wait))

    def post(
        self,
        path: str,
        params: dict[str, Any],
        headers: dict[str, str],
        silence: float,
        body: IO[bytes] | None = None,
    ) -> requests.Response:
        """Blocks. As `get`."""
        client = self.client()
        url = f"{client.base_url}/v{client.api_version}{path}"
        wait = (self.socket_s, silence)
        answer = client.post(url, params=params, data=body, headers=headers | OWN, stream=True, timeout=wait)
        return _answered(answer)

    def _knock(self, path: str) -> None:
        """See whether anybody takes connections before docker-py tries.

        docker-py's transport leaves its socket open when connecting fails, so an Engine that is down would cost a
        file descriptor at every look.
        """
        try:
            with socket.socket(socket.AF_UNIX) as knocking:
                knocking.settimeout(self.socket_s)
                knocking.connect(path)
        except OSError as error:
            raise requests.ConnectionError(error) from error

    @property
    def socket_s(self) -> float:
        """Seconds that a thread waits: below the await's deadline, so that it comes back before its caller leaves."""
        return self.timeout_s * 0.9


def _answered(response: requests.Response) -> requests.Response:
    try:
        response.raise_for_status()
    except requests.HTTPError as error:
        with response:
            create_api_error_from_http_exception(error)
    return response


class Stream(Generic[Item]):
    """What a blocking iterator gives, read by a daemon thread, in batches.

    `read` gets the stream to `hold` its response with: closing it from here is what ends a thread that waits for bytes.
    The thread stops reading while `FULL` items wait.
    """

    def __init__(self, read: Callable[[Stream[Item]], Iterator[Item]]) -> None:
        self._read = read
        self._items: deque[Item] = deque()
        self._fresh = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._response: requests.Response | None = None
        self._error: BaseException | None = None
        self._ended = False
        self._closing = False

    def hold(self, response: requests.Response) -> requests.Response:
        """Called by `read`, in its thread, with what `Calls.get` or `Calls.post` gave: a connection of its own."""
        self._response = response
        if self._closing:
            self._cut()
        return response

    @property
    def opened(self) -> bool:
        """Whether the Engine answered: what breaks afterwards is an end, not a refusal."""
        return self._response is not None

    async def batches(self, silence: float | None = None) -> AsyncGenerator[list[Item], None]:
        """Everything read so far, again and again, until the iterator ends; what it raised is raised here.

        TimeoutError after `silence` seconds without anything.
        """
        Thread(target=self._pump, name="docker-stream", daemon=True).start()
        try:
            while True:
                async with asyncio.timeout(silence):
                    await self._fresh.wait()
                self._fresh.clear()
                ended = self._ended
                if batch := [self._items.popleft() for _ in range(len(self._items))]:
                    yield batch
                if ended:
                    break
            if self._error is not None:
                raise self._error
        finally:
            self._closing = True
            self._cut()

    def _pump(self) -> None:
        try:
            for item in self._read(self):
                while len(self._items) >= FULL and not self._closing:
                    time.sleep(0.01)
                if self._closing:
                    break
                self._items.append(item)
                self._wake()
        except BaseException as error:  # noqa: BLE001 - carried over to the reader, who meets it as it is
            self._error = error
        finally:
            self._ended = True
            self._wake()
            if self._response is not None:
                self._response.close()

    def _wake(self) -> None:
        if not self._fresh.is_set():
            with suppress(RuntimeError):  # the loop was closed: nobody reads any more
                self._loop.call_soon_threadsafe(self._fresh.set)

    def _cut(self) -> None:
        """Shut the socket down, which ends a read in another thread (closing it would not)."""
        response = self._response
        if response is not None and not self._ended:
            with suppress(OSError, AttributeError):  # it ended this very moment
                CancellableStream(iter(()), response).close()
