"""The door to units of engines: who may ask, what is refused, and what an agent does that finds it shut."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent.adapters.process_launcher import FORM, LONGEST, Request
from agent.adapters.process_runtime import ProcessRuntime
from agent.adapters.process_start import LogRotation
from agent.container.labels import Identity, labels_for
from agent.container.port import ContainerSpec, RunState
from agent.errors import RuntimeTrouble
from tests.adapters import doors
from tests.adapters.processes import end_all
from tests.container.contract import view_in


class Talk:
    """The agent's side of a connection, and the launcher behind it."""

    def __init__(self) -> None:
        self.side, other = socket.socketpair()
        self.side.settimeout(20)
        self.child = doors.launcher(other, subprocess.PIPE)
        self.lines = self.side.makefile("rb")

    def hear(self) -> dict[str, Any]:
        line = self.lines.readline()
        return dict(json.loads(line)) if line else {}

    def end(self) -> tuple[int, str]:
        """How it ended, and what it said to the journal."""
        _, said = self.child.communicate(timeout=20)
        self.lines.close()
        self.side.close()
        return self.child.returncode, said


def test_an_agent_that_leaves_before_it_asks_has_asked_for_nothing(tmp_path: Path) -> None:
    """One that gave up waiting, or was killed: no engine starts behind its back."""
    talk = Talk()
    greeting = talk.hear()
    talk.side.shutdown(socket.SHUT_RDWR)
    assert talk.end() == (0, "")
    assert greeting == {"form": FORM, "pid": talk.child.pid}


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"deploy!\n", "not JSON"),
        (b"[1]\n", "not an object"),
        (b'{"form": 1, "folder": "/"}\n', "not a request of the agent's"),
        (b'{"form": 99}\n', "restart recipe-agent"),
        (Request("/no/such/folder", "/", 0, 1).line(), "/no/such/folder/wrapper.log: No such file"),
        (b"x" * (LONGEST + 2), "too long"),
    ],
)
def test_what_is_no_request_is_refused_with_a_reason(line: bytes, why: str) -> None:
    """The agent hears it, and so does the journal."""
    talk = Talk()
    talk.hear()
    talk.side.sendall(line)
    refused = talk.hear()
    code, said = talk.end()
    assert why in refused["refused"]
    assert code == 1
    assert said.startswith("<3>refused: ")
    assert why in said


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs root and setpriv")
def test_another_user_is_refused(tmp_path: Path) -> None:
    """By the kernel's word on who connected, whatever the socket's mode is."""
    path = tmp_path / "door.sock"
    knock = "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); print(s.recv(999).decode())"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        for folder in (path, *tmp_path.parents[:3], tmp_path):
            folder.chmod(0o777)
        listener.listen()
        as_nobody = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--", sys.executable, "-c")
        with subprocess.Popen([*as_nobody, knock, str(path)], stdout=subprocess.PIPE, text=True) as guest:
            connection, _ = listener.accept()
            child = doors.launcher(connection, subprocess.PIPE)
            heard, _ = guest.communicate(timeout=20)
            child.communicate(timeout=20)
    assert "user 65534 may not start engines" in json.loads(heard)["refused"]
    assert child.returncode == 1


def test_by_hand_it_says_who_starts_it() -> None:
    done = subprocess.run(
        doors.COMMAND, stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=doors.REPOSITORY, check=False
    )
    assert done.returncode == os.EX_USAGE
    assert "recipe-agent-engine.socket" in done.stderr


def shut(path: Path) -> None:
    """Nobody listens any more, and the file is left."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))


def spec() -> ContainerSpec:
    body = {"Cmd": ["/bin/sh", "-c", "exit 3"], "Labels": labels_for(Identity("some-recipe", "plan-1", 1))}
    return ContainerSpec("some-recipe", "plan-1", 1, "engine", body)


@pytest.mark.parametrize("make", [lambda path: None, shut], ids=["no door", "nobody behind it"])
async def test_without_a_door_engines_start_the_other_way(make: Callable[[Path], None], tmp_path: Path) -> None:
    make(tmp_path / "door.sock")
    runtime = ProcessRuntime(tmp_path / "processes", LogRotation(0, 3), door=tmp_path / "door.sock")
    container_id = await runtime.create(spec())
    await runtime.start(container_id)
    assert (await view_in(runtime, container_id, RunState.EXITED)).exit_code == 3
    end_all(tmp_path / "processes")


async def test_a_door_with_no_unit_behind_it_fails_the_start_in_words(tmp_path: Path) -> None:
    """systemd's bound of connections, a launcher that cannot run: the engine does not slip into the agent's unit."""
    runtime = ProcessRuntime(tmp_path / "processes", LogRotation(0, 3), door=tmp_path / "door.sock")
    container_id = await runtime.create(spec())
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "door.sock"))
        listener.listen()
        listener.settimeout(10)

        def close_at_once() -> None:
            listener.accept()[0].close()

        waiter = threading.Thread(target=close_at_once)
        waiter.start()
        with pytest.raises(RuntimeTrouble, match="no unit of its own: the launcher ended without a word") as caught:
            await runtime.start(container_id)
        waiter.join()
    assert caught.value.retryable
    view = await runtime.view(container_id)
    assert view is not None
    assert view.state is RunState.CREATED
