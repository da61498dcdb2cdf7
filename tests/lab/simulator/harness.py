"""For tests: start the simulator as a plain process, talk to it, and leave nothing of it behind."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.lab.children import free_port
from tests.lab.procs import children

_PACKAGE = Path(__file__).resolve().parent
PROGRAMS = {
    "vllm": ("serve", "sim"),
    "sglang": ("sglang.launch_server", "--model-path", "sim"),
    "llamacpp": ("llama-server", "-m", "sim.gguf"),
}
"""How each engine's simulator is started, before its flags."""
REFUSED = 0  # the status of a request that found nobody


PATIENCE_S = 30.0
"""How long what must come is waited for: the machine may have other work for many times as long as it takes."""


def until(true: Callable[[], bool], within: float = PATIENCE_S) -> bool:
    """Look again and again, for at most `within` real seconds; whether it came true."""
    end = time.monotonic() + within
    while time.monotonic() < end:
        if true():
            return True
        time.sleep(0.01)
    return true()


@dataclass(slots=True)
class Simulator:
    """A running simulator."""

    process: subprocess.Popen[bytes]
    port: int
    log_file: Path

    def get(self, path: str, timeout: float = PATIENCE_S) -> tuple[int, str]:
        """Status and body; status 0 where the connection was refused or timed out."""
        return self._ask(urllib.request.Request(f"http://127.0.0.1:{self.port}{path}"), timeout)

    def post(self, path: str, body: object = None, timeout: float = PATIENCE_S, **headers: str) -> tuple[int, str]:
        """The same for POST."""
        url = f"http://127.0.0.1:{self.port}{path}"
        data = b"" if body is None else json.dumps(body).encode()
        return self._ask(urllib.request.Request(url, data, headers, method="POST"), timeout)

    def _ask(self, request: urllib.request.Request, timeout: float) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(request, timeout=timeout) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()
        except OSError:
            return REFUSED, ""

    def fault(self, kind: str, arg: str = "", for_s: float | None = None) -> None:
        """Set a fault, or `clear`."""
        status, text = self.post("/sim/fault", {"kind": kind, "arg": arg, "for_s": for_s})
        if status != 200:
            raise ValueError(text)

    def state(self) -> dict[str, Any]:
        """What GET /sim/state says."""
        state: dict[str, Any] = json.loads(self.get("/sim/state")[1])
        return state

    def cores(self) -> list[int]:
        """The pids of its engine cores: its children."""
        return children(self.process.pid)

    def value(self, name: str, **labels: str) -> float:
        """A series of `name` (vllm:, sglang:, llamacpp:) whose labels include these; NaN where there is none."""
        for found in re.finditer(
            rf"^(?:vllm|sglang|llamacpp):{name}(?:{{(.*)}})? (\S+)$", self.get("/metrics")[1], re.MULTILINE
        ):
            if all(f'{k}="{v}"' in found[1] for k, v in labels.items()):
                return float(found[2])
        return float("nan")

    def running(self) -> float:
        """The running gauge of the first engine."""
        return self.value("num_requests_running", engine="0")

    def generated(self) -> float:
        """Tokens generated so far."""
        return self.value("generation_tokens_total")

    def client(self, **body: object) -> socket.socket:
        """A client that has sent a streamed completion and holds its connection."""
        data = json.dumps({"stream": True, "ignore_eos": True, "sim_prompt_tokens": 10, **body}).encode()
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S)
        connection.sendall(b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(data) + data)
        return connection

    def log(self) -> str:
        """All that it wrote, both streams."""
        return self.log_file.read_bytes().decode(errors="replace")

    def ready(self, within: float = PATIENCE_S) -> bool:
        """Wait for /health."""
        return until(lambda: self.process.poll() is not None or self.get("/health")[0] == 200, within)

    def wait(self, within: float = PATIENCE_S) -> int:
        """The exit code, once it has ended."""
        return self.process.wait(within)


def stream(connection: socket.socket) -> list[str]:
    """The events of a client's stream, read to its end."""
    data = b""
    while b"\r\n0\r\n\r\n" not in data and (part := connection.recv(1 << 16)):
        data += part
    return re.findall(r"^data: (.*)$", data.decode(), re.MULTILINE)


@contextlib.contextmanager
def start(
    folder: Path, *flags: str, wait: bool = True, engine: str = "vllm", **environment: str
) -> Iterator[Simulator]:
    """`vllm serve sim FLAGS` (or the engine of that name) in fast time, for as long as the block lasts.

    `environment` overrides what is set here; with `wait=False` it is not waited for until it is ready.
    """
    port = free_port()
    log = folder / f"vllm-{port}.log"
    env = {"PATH": os.environ.get("PATH", ""), "PYTHONPATH": str(_PACKAGE.parent), "PYTHONUNBUFFERED": "1",
           "SIM_SCALE": "0.01", "SIM_START_S": "20", "SIM_BOOT_S": "1", **environment}  # fmt: skip
    command = [sys.executable, "-m", "simulator", *PROGRAMS[engine], "--port", str(port), *flags]
    with log.open("wb") as out:
        process = subprocess.Popen(command, env=env, stdout=out, stderr=out, stdin=subprocess.DEVNULL)
    simulator = Simulator(process, port, log)
    cores: list[int] = []
    try:
        if wait and not simulator.ready():
            raise TimeoutError(simulator.log())
        cores = simulator.cores()
        yield simulator
    finally:
        _end(process, cores or simulator.cores())


def _end(process: subprocess.Popen[bytes], cores: list[int]) -> None:
    """Kill server and cores; workers end with their core."""
    process.kill()
    process.wait()
    for pid in cores:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
