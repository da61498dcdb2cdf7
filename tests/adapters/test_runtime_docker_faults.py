"""An Engine that hangs, goes away, lies or says no costs one call its deadline and is told in a sentence."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
import requests
import urllib3
from docker.errors import DockerException

from agent.adapters.docker_errors import translate
from agent.adapters.docker_runtime import DockerRuntime
from agent.container.labels import Identity, labels_for
from agent.container.port import ContainerSpec
from agent.container.trouble import (
    ContainerGone,
    NameTaken,
    NoImage,
    PullFailed,
    RuntimeRejected,
    RuntimeSilent,
    RuntimeUnreachable,
    StillRuns,
)
from agent.errors import RuntimeTrouble
from tests.adapters.docker_stub import Chunks, Drop, Hang, serving

ID = "a" * 64
OTHER = "b" * 64
LABELS = labels_for(Identity("some-recipe", "plan-1", 1))
GONE = (404, {"message": f"No such container: {ID}"})


def document(container_id: str = ID, status: str = "running", **state: Any) -> dict[str, Any]:
    return {
        "Id": container_id,
        "Name": "/engine",
        "Config": {"Labels": LABELS},
        "State": {"Status": status, "Pid": 7, **state},
    }


def spec(**body: Any) -> ContainerSpec:
    return ContainerSpec("some-recipe", "plan-1", 1, "engine", {"Image": "i", "Labels": LABELS, **body})


CALLS: dict[str, Callable[[DockerRuntime, Path], Awaitable[Any]]] = {
    "facts": lambda runtime, folder: runtime.facts(),
    "list": lambda runtime, folder: runtime.list(),
    "view": lambda runtime, folder: runtime.view(ID),
    "inspect": lambda runtime, folder: runtime.inspect(ID),
    "create": lambda runtime, folder: runtime.create(spec()),
    "start": lambda runtime, folder: runtime.start(ID),
    "signal": lambda runtime, folder: runtime.signal(ID, "TERM"),
    "remove": lambda runtime, folder: runtime.remove(ID),
    "tail": lambda runtime, folder: runtime.tail(ID, 10),
    "save_log": lambda runtime, folder: runtime.save_log(ID, folder / "saved.log"),
    "stop_requested": lambda runtime, folder: runtime.stop_requested(ID, 0.0),
    "name_holder": lambda runtime, folder: runtime.name_holder("engine"),
    "image": lambda runtime, folder: runtime.image("i"),
    "pull": lambda runtime, folder: anext(runtime.pull("i")),
}


@pytest.mark.parametrize("name", CALLS)
async def test_a_hung_engine_costs_a_call_its_deadline_and_never_the_loop(name: str, tmp_path: Path) -> None:
    """It accepts and never answers."""
    async with serving(tmp_path, {"GET /version": Hang}) as stub:
        runtime = DockerRuntime(stub.host, timeout_s=1.0)
        asking = asyncio.ensure_future(CALLS[name](runtime, tmp_path))
        longest, last, begun = 0.0, time.monotonic(), time.monotonic()
        while not asking.done():
            await asyncio.sleep(0.005)
            longest, last = max(longest, time.monotonic() - last), time.monotonic()
        with pytest.raises(RuntimeTrouble) as caught:
            asking.result()
        assert isinstance(caught.value, RuntimeSilent) or name == "pull"
        assert caught.value.retryable
        assert time.monotonic() - begun < 10
        assert longest < 0.9, "the loop stood still for as long as the Engine was silent"
        await runtime.close()


@pytest.mark.parametrize("name", CALLS)
async def test_an_engine_that_is_gone_is_said_to_be(name: str, tmp_path: Path) -> None:
    runtime = DockerRuntime(f"unix://{tmp_path}/docker.sock", timeout_s=5)
    with pytest.raises(RuntimeUnreachable) as caught:
        await CALLS[name](runtime, tmp_path)
    assert caught.value.code == "docker.unreachable"
    assert f"{tmp_path}/docker.sock" in caught.value.text
    assert "No such file" in caught.value.text
    assert "systemctl status docker" in caught.value.advice
    assert caught.value.retryable


async def test_an_engine_that_does_not_accept_any_more_is_silent_or_unreachable(tmp_path: Path) -> None:
    path = tmp_path / "docker.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen(0)
        clients = [socket.socket(socket.AF_UNIX) for _ in range(2)]
        for client in clients:
            client.setblocking(False)
            try:
                client.connect(str(path))
            except BlockingIOError:
                break
        with pytest.raises(RuntimeSilent):
            await DockerRuntime(f"unix://{path}", timeout_s=0.5).list()
        for client in clients:
            client.close()


@pytest.mark.parametrize("stream", ["events", "follow"])
async def test_a_stream_on_a_hung_engine_can_be_left(stream: str, tmp_path: Path) -> None:
    """It is never ready, and cancelling whoever waits for it ends the wait at once."""
    async with serving(tmp_path, {"GET /events": Hang, f"GET /containers/{ID}/logs": Hang}) as stub:
        runtime = DockerRuntime(stub.host, timeout_s=5)
        found = runtime.events() if stream == "events" else runtime.follow(ID, None)
        waiting = asyncio.ensure_future(anext(found))
        await asyncio.wait([waiting], timeout=0.3)
        assert not waiting.done()
        begun = time.monotonic()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert time.monotonic() - begun < 3, "it waited for the deadline of 5 s"
        await runtime.close()


@pytest.mark.parametrize("call", ["list()", "events().__anext__()", "pull('i').__anext__()"])
def test_a_hung_engine_does_not_keep_the_agent_from_ending(call: str, tmp_path: Path) -> None:
    path = tmp_path / "docker.sock"
    script = (
        "import asyncio\n"
        "from agent.adapters.docker_runtime import DockerRuntime\n"
        "async def main():\n"
        f"    runtime = DockerRuntime('unix://{path}', timeout_s=60)\n"
        "    try:\n"
        "        async with asyncio.timeout(0.5):\n"
        f"            await runtime.{call}\n"
        "    except TimeoutError:\n"
        "        print('left')\n"
        "    await runtime.close()\n"
        "asyncio.run(main())\n"
    )
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        begun, root = time.monotonic(), Path(__file__).parents[2]
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=root, timeout=60)
    assert (done.returncode, done.stdout) == (0, "left\n"), done.stderr
    assert time.monotonic() - begun < 30


async def test_many_hung_calls_stay_within_their_deadlines(tmp_path: Path) -> None:
    async with serving(tmp_path, {f"GET /containers/{ID}/json": Hang}) as stub:
        runtime = DockerRuntime(stub.host, timeout_s=0.5)
        begun = time.monotonic()
        results = await asyncio.gather(*(runtime.view(ID) for _ in range(40)), return_exceptions=True)
        assert all(isinstance(result, RuntimeSilent) for result in results)
        assert time.monotonic() - begun < 3
        # Eight at once; those get their sockets' time-outs a little before the deadline of the ones that wait.
        assert len([line for line in stub.asked if "json" in line]) <= 16
        await runtime.close()


async def test_a_container_that_vanishes_midway_is_left_out(tmp_path: Path) -> None:
    answers = {
        "GET /containers/json": (200, [{"Id": ID}, {"Id": OTHER}]),
        f"GET /containers/{ID}/json": GONE,
        f"GET /containers/{OTHER}/json": (200, document(OTHER)),
    }
    async with serving(tmp_path, answers) as stub:
        runtime = DockerRuntime(stub.host)
        assert [view.id for view in await runtime.list()] == [OTHER]
        await runtime.close()


async def test_a_foreign_container_is_not_listed_and_holds_its_name(tmp_path: Path) -> None:
    foreign = document() | {"Config": {"Labels": {"recipe-agent.recipe": "forged"}}}
    answers = {
        "GET /containers/json": (200, [{"Id": ID}]),
        f"GET /containers/{ID}/json": (200, foreign),
        "GET /containers/engine/json": (200, foreign),
        "GET /containers/aaaa/json": (200, foreign),
    }
    async with serving(tmp_path, answers) as stub:
        runtime = DockerRuntime(stub.host)
        assert await runtime.list() == ()
        assert await runtime.name_holder("engine") == ID
        assert await runtime.name_holder("aaaa") is None, "the beginning of an id is no name"
        await runtime.close()


async def test_after_an_exchange_of_the_engine_the_version_is_negotiated_again(tmp_path: Path) -> None:
    old = "client version 1.41 is too old. Minimum supported API version is 1.44, please upgrade your client"
    async with serving(tmp_path, {"GET /containers/json": (200, [])}) as stub:
        runtime = DockerRuntime(stub.host)
        await runtime.list()
        stub.answers["GET /containers/json"] = (400, {"message": old})
        with pytest.raises(RuntimeTrouble) as caught:
            await runtime.list()
        assert caught.value.retryable
        stub.answers |= {"GET /version": (200, {"ApiVersion": "1.52"}), "GET /containers/json": (200, [])}
        assert await runtime.list() == ()
        assert stub.asked[-1].startswith("GET /v1.52/containers/json")
        await runtime.close()


async def test_a_key_that_this_engine_does_not_know_is_refused_before_it_is_posted(tmp_path: Path) -> None:
    async with serving(tmp_path, {}) as stub:
        runtime = DockerRuntime(stub.host)
        with pytest.raises(RuntimeRejected) as caught:
            await runtime.create(spec(HostConfig={"Annotations": {"a": "b"}}))
        assert "Annotations" in caught.value.text
        assert "1.41" in caught.value.text
        assert not any(line.startswith("POST") for line in stub.asked)
        await runtime.close()


CREATED = {f"GET /containers/{ID}/json": (200, document(status="created"))}
ENDED = {f"GET /containers/{ID}/json": (200, document(status="exited"))}


@pytest.mark.parametrize(
    ("answers", "call", "kind", "words", "retryable"),
    [
        (
            {"POST /containers/create": (409, {"message": 'Conflict. The container name "/engine" is already in use'})},
            "create",
            NameTaken,
            "already in use",
            True,
        ),
        (
            {"POST /containers/create": (404, {"message": "No such image: i:latest"})},
            "create",
            NoImage,
            "i:latest",
            False,
        ),
        (
            {
                "POST /containers/create": (
                    400,
                    {"message": "invalid mount config: bind source path does not exist: /a"},
                )
            },
            "create",
            RuntimeRejected,
            "/a",
            False,
        ),
        ({"POST /containers/create": (500, {"message": "disk on fire"})}, "create", RuntimeTrouble, "on fire", True),
        (
            CREATED
            | {f"POST /containers/{ID}/start": (500, {"message": "Bind for 0.0.0.0:80: port is already allocated"})},
            "start",
            RuntimeTrouble,
            "port is already allocated",
            True,
        ),
        (
            CREATED
            | {
                f"POST /containers/{ID}/start": (
                    500,
                    {"message": 'could not select device driver "" with capabilities: [[gpu]]'},
                )
            },
            "start",
            RuntimeRejected,
            "device driver",
            False,
        ),
        (
            CREATED | {f"POST /containers/{ID}/start": (404, {"message": "network models not found"})},
            "start",
            RuntimeRejected,
            "network models",
            False,
        ),
        (CREATED | {f"POST /containers/{ID}/start": GONE}, "start", ContainerGone, ID, False),
        (ENDED, "start", RuntimeRejected, "exited", False),
        ({f"GET /containers/{ID}/json": (200, document())}, "remove", StillRuns, "it runs", True),
        (
            {f"POST /containers/{ID}/kill": (500, {"message": "cannot kill: permission denied"})},
            "signal",
            RuntimeTrouble,
            "denied",
            True,
        ),
        ({f"GET /containers/{ID}/json": Drop}, "view", RuntimeUnreachable, "docker.sock", True),
        ({f"GET /containers/{ID}/json": (200, document(status="melting"))}, "view", RuntimeTrouble, "melting", True),
    ],
)
async def test_a_no_of_the_engine_is_a_sentence_with_a_way_out(
    answers: dict[str, Any], call: str, kind: type[RuntimeTrouble], words: str, retryable: bool, tmp_path: Path
) -> None:
    async with serving(tmp_path, answers) as stub:
        runtime = DockerRuntime(stub.host, timeout_s=5)
        with pytest.raises(kind) as caught:
            await CALLS[call](runtime, tmp_path)
        assert words in caught.value.text
        assert caught.value.text.startswith("cannot ")
        assert caught.value.advice
        assert caught.value.retryable is retryable
        assert caught.value.code.startswith("docker.")
        await runtime.close()


@pytest.mark.parametrize(
    ("answers", "call"),
    [
        ({f"POST /containers/{ID}/kill": GONE}, "signal"),
        ({f"POST /containers/{ID}/kill": (409, {"message": f"Container {ID} is not running"})}, "signal"),
        (
            {
                f"POST /containers/{ID}/kill": (
                    500,
                    {"message": f"Cannot kill container: {ID}: Container {ID} is not running"},
                )
            },
            "signal",
        ),
        ({f"GET /containers/{ID}/json": GONE}, "remove"),
    ],
)
async def test_what_is_done_already_is_no_error(answers: dict[str, Any], call: str, tmp_path: Path) -> None:
    async with serving(tmp_path, answers) as stub:
        runtime = DockerRuntime(stub.host)
        assert await CALLS[call](runtime, tmp_path) is None
        await runtime.close()


async def test_removal_waits_until_the_name_is_free(tmp_path: Path) -> None:
    """The Engine answers, and still holds id and name for a while; somebody else's removal counts as ours."""
    answers: dict[str, Any] = {
        f"GET /containers/{ID}/json": (200, document(status="exited")),
        "GET /containers/engine/json": (200, document(status="removing")),
        f"DELETE /containers/{ID}": (409, {"message": f"removal of container {ID} is already in progress"}),
    }
    async with serving(tmp_path, answers) as stub:
        runtime = DockerRuntime(stub.host, timeout_s=5)
        removing = asyncio.ensure_future(runtime.remove(ID))
        await asyncio.sleep(0.3)
        stub.answers[f"GET /containers/{ID}/json"] = GONE
        await asyncio.sleep(0.3)
        assert not removing.done()
        stub.answers["GET /containers/engine/json"] = (404, {"message": "No such container: engine"})
        await removing
        await runtime.close()


@pytest.mark.parametrize("answer", [Hang, (204, None)], ids=["rm hangs", "rm answers, and it stays"])
async def test_a_removal_that_hangs_ends_at_its_deadline_and_may_be_repeated(answer: Any, tmp_path: Path) -> None:
    answers = {f"GET /containers/{ID}/json": (200, document(status="exited")), f"DELETE /containers/{ID}": answer}
    async with serving(tmp_path, answers) as stub:
        runtime = DockerRuntime(stub.host, timeout_s=1.0)
        for _ in range(2):
            with pytest.raises(RuntimeSilent):
                await runtime.remove(ID)
        stub.answers[f"GET /containers/{ID}/json"] = GONE
        await runtime.remove(ID)
        await runtime.close()


def frame(text: str, second: int, stream: int = 1) -> bytes:
    payload = f"2026-11-30T07:00:{second:02}.000000001Z {text}".encode()
    return bytes([stream, 0, 0, 0]) + len(payload).to_bytes(4, "big") + payload


async def test_a_log_stream_that_drops_is_no_end_of_the_container_and_no_error(tmp_path: Path) -> None:
    pieces = Chunks((frame("one\n", 1), frame("two\n", 2)), then="drop")
    async with serving(tmp_path, {f"GET /containers/{ID}/logs": pieces}) as stub:
        runtime = DockerRuntime(stub.host)
        assert [line.text async for line in runtime.follow(ID, None)] == ["one", "two"]
        await runtime.close()


async def test_a_stream_that_cannot_be_opened_is_an_error(tmp_path: Path) -> None:
    runtime = DockerRuntime(f"unix://{tmp_path}/docker.sock")
    for found in (runtime.follow(ID, None), runtime.events()):
        with pytest.raises(RuntimeUnreachable):
            await anext(found)


async def test_leaving_a_silent_log_stream_ends_its_thread(tmp_path: Path) -> None:
    import threading

    pieces = Chunks((frame("one\n", 1),), then="silence")
    async with serving(tmp_path, {f"GET /containers/{ID}/logs": pieces}) as stub:
        runtime = DockerRuntime(stub.host)
        async with aclosing(runtime.follow(ID, None)) as lines:
            assert (await anext(lines)).text == "one"
            assert any(thread.name == "docker-stream" for thread in threading.enumerate())
        end = time.monotonic() + 5
        while any(thread.name == "docker-stream" for thread in threading.enumerate()):
            assert time.monotonic() < end, "the thread still waits for bytes"
            await asyncio.sleep(0.02)
        await runtime.close()


async def test_a_saved_log_that_breaks_midway_leaves_no_file(tmp_path: Path) -> None:
    pieces = Chunks((frame("one\n", 1),), then="drop")
    async with serving(tmp_path, {f"GET /containers/{ID}/logs": pieces}) as stub:
        runtime = DockerRuntime(stub.host)
        with pytest.raises(RuntimeUnreachable):
            await runtime.save_log(ID, tmp_path / "saved.log")
        assert [path.name for path in tmp_path.iterdir()] == ["docker.sock"]
        await runtime.close()


def said(**message: Any) -> bytes:
    import json

    return json.dumps(message).encode() + b"\r\n"


async def pulled(answers: dict[str, Any], folder: Path) -> list[Any]:
    async with serving(folder, answers) as stub:
        runtime = DockerRuntime(stub.host, timeout_s=5)
        try:
            return [progress async for progress in runtime.pull("registry.example/team/engine:1")]
        finally:
            await runtime.close()


@pytest.mark.parametrize(
    ("answer", "words", "retryable"),
    [
        ((404, {"message": "pull access denied for x, repository does not exist"}), "pull access denied", False),
        ((404, {"message": "manifest for x:1 not found: manifest unknown"}), "manifest unknown", False),
        (
            (500, {"message": "Get https://registry.example/v2/: dial tcp: lookup registry.example: no such host"}),
            "no such host",
            True,
        ),
        (Chunks((said(status="Pulling from x"), said(error="toomanyrequests: rate limit"))), "rate limit", True),
        (Chunks((said(error="write /var/lib/docker/tmp: no space left on device"),)), "no space left", False),
        (Chunks((said(status="Downloading", id="a"),)), "before the image was there", True),
        (Chunks((said(status="Downloading", id="a"), b'{"status": "Downlo'), then="end"), "before the image", True),
    ],
)
async def test_a_registry_s_no_is_a_sentence(answer: Any, words: str, retryable: bool, tmp_path: Path) -> None:
    answers = {
        "POST /images/create": answer,
        "GET /images/registry.example/team/engine:1/json": (404, {"message": "No such image: x"}),
    }
    with pytest.raises(PullFailed) as caught:
        await pulled(answers, tmp_path)
    assert caught.value.text.startswith("cannot pull registry.example/team/engine:1: ")
    assert words in caught.value.text
    assert caught.value.advice
    assert caught.value.retryable is retryable


async def test_a_pull_that_drops_midway_has_failed(tmp_path: Path) -> None:
    answers = {"POST /images/create": Chunks((said(status="Downloading", id="a"),), then="drop")}
    with pytest.raises(RuntimeTrouble) as caught:
        await pulled(answers, tmp_path)
    assert caught.value.retryable


async def test_a_pull_sends_the_operator_s_credentials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import base64
    import json

    (tmp_path / "config.json").write_text(
        json.dumps({"auths": {"registry.example": {"auth": base64.b64encode(b"me:hunter2").decode()}}})
    )
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    headers: list[str] = []
    real = requests.Session.request

    def request(self: Any, method: str, url: str, **more: Any) -> Any:
        headers.append(str((more.get("headers") or {}).get("X-Registry-Auth", "")))
        return real(self, method, url, **more)

    monkeypatch.setattr(requests.Session, "request", request)
    image = "GET /images/registry.example/team/engine:1/json"
    found = await pulled(
        {"POST /images/create": Chunks((said(status="Digest: x"),)), image: (200, {"Id": "x"})}, tmp_path
    )
    assert found[-1].text == "Digest: x"
    sent = next(header for header in headers if header)
    assert json.loads(base64.urlsafe_b64decode(sent))["password"] == "hunter2"


def chained(error: BaseException, cause: BaseException) -> BaseException:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (TimeoutError(), "docker.timeout"),
        (requests.ReadTimeout("slow"), "docker.timeout"),
        (requests.ConnectionError(urllib3.exceptions.ReadTimeoutError(None, "/", "slow")), "docker.timeout"),  # type: ignore[arg-type]
        (
            requests.ConnectionError(
                urllib3.exceptions.ProtocolError("aborted", PermissionError(13, "Permission denied"))
            ),
            "docker.denied",
        ),
        (
            chained(DockerException("version"), requests.ConnectionError(ConnectionRefusedError(111, "refused"))),
            "docker.unreachable",
        ),
        (chained(DockerException("version"), requests.ReadTimeout("slow")), "docker.timeout"),
        (requests.ConnectionError(ConnectionResetError(104, "reset")), "docker.unreachable"),
        (DockerException("credentials store docker-credential-x is not there"), "docker.rejected"),
    ],
)
def test_foreign_errors_become_ours(error: BaseException, code: str) -> None:
    trouble = translate(error, "look", "unix:///x", 30)
    assert trouble.code == code
    assert trouble.text.startswith("cannot look: ")
    assert trouble.advice


async def test_a_socket_that_is_not_local_is_refused() -> None:
    with pytest.raises(RuntimeRejected) as caught:
        await DockerRuntime("tcp://10.0.0.1:2375").list()
    assert "no local socket" in caught.value.text


@pytest.mark.skipif(os.geteuid() == 0, reason="root may use any socket")
async def test_a_socket_without_the_right_to_it_is_said_so(tmp_path: Path) -> None:
    async with serving(tmp_path, {}) as stub:
        stub.socket.chmod(0)
        with pytest.raises(RuntimeUnreachable) as caught:
            await DockerRuntime(stub.host).list()
        assert caught.value.code == "docker.denied"
