"""The host's own Docker Engine and cards, and containers on them.

Whatever a test starts has a name that begins with `recipe-agent-gpu-`, and is removed by its own test.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from agent.clock import SystemClock
from agent.host.gpu import Gpu
from agent.host.reading import Known, value_of
from tests.lab import images
from tests.lab.place import REPOSITORY, Unavailable

HERE = Path(__file__).resolve().parent
IMAGE = "recipe-agent-gpu/engine:test"
PREFIX = "recipe-agent-gpu-"
DRIVER = Path("/usr/local/nvidia/lib64")
"""Where some machines keep the driver's libraries, which no loader looks through by itself."""
TORCH = "RECIPE_AGENT_GPU_TORCH"
"""`OPTIONS IMAGE PYTHON` of `docker run`: a container whose Python has PyTorch; without it no test needs PyTorch."""
WANTED = ("libdl.so.2", "libpthread.so.0", "librt.so.1", "libm.so.6")
"""What the driver's library stands on beside the C library; newer C libraries hold it all and keep the names."""
NUMBERS = count(1)
CLOCK = SystemClock()


@dataclass(frozen=True)
class Box:
    """How a program of ours is run in a container with a card."""

    image: str
    python: str
    options: tuple[str, ...] = ()
    busy: str = "work"
    """How `load.py` keeps a card busy in it."""


@dataclass(frozen=True)
class HostEngine:
    """The Docker Engine that `docker` talks to here; what the end-to-end rig needs of one."""

    docker_host: str
    boxes: dict[str, Box] = field(default_factory=dict)

    @property
    def socket(self) -> Path:
        return Path(self.docker_host.removeprefix("unix://"))

    @property
    def environment(self) -> Mapping[str, str]:
        return {**os.environ, "DOCKER_HOST": self.docker_host}

    def docker(self, *words: str, check: bool = True) -> str:
        done = subprocess.run(
            ["docker", *words], env=self.environment, capture_output=True, text=True, check=False, timeout=120
        )
        if check and done.returncode:
            raise AssertionError(f"docker {shlex.join(words)} ended with {done.returncode}: {done.stderr}")
        return done.stdout

    def logs(self, name: str) -> str:
        """What a container wrote to standard error."""
        words = ["docker", "logs", name]
        return subprocess.run(words, env=self.environment, capture_output=True, text=True, check=False).stderr

    def errors(self, name: str) -> str:
        """The end of it."""
        return self.logs(name)[-400:]


def host_engine() -> HostEngine:
    """Raises Unavailable where there is none."""
    address = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
    engine = HostEngine(address)
    try:
        engine.docker("version", "--format", "{{.Server.Version}}")
    except (OSError, AssertionError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"cannot use the Docker Engine of this host: {error}") from error
    return engine


def boxes(engine: HostEngine) -> dict[str, Box]:
    """`own`: Python and the simulator alone. `torch`: what the environment names."""
    library = ("-e", f"LD_LIBRARY_PATH={DRIVER}") if DRIVER.is_dir() else ()
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder) / "engine.tar"
        images.write_engine(archive, *WANTED)
        engine.docker("import", "--change", images.PATH, str(archive), IMAGE)
    found = {"own": Box(IMAGE, "/usr/local/bin/python3", library)}
    if words := shlex.split(os.environ.get(TORCH, "")):
        *options, image, python = words
        found["torch"] = Box(image, python, tuple(options), busy="torch")
    return found


@contextmanager
def loaded(engine: HostEngine, box: Box, size: int, what: str, gpu: int = 0) -> Iterator[str]:
    """A container that holds `size` bytes of a card; its name. It is gone after the block."""
    name = f"{PREFIX}{os.getpid()}-{next(NUMBERS)}"
    options = ("--gpus", f'"device={gpu}"', "--network", "none", "-v", f"{HERE}:/gpu:ro", *box.options)
    engine.docker(
        "run", "-d", "--name", name, *options, "--entrypoint", box.python, box.image, "/gpu/load.py", str(size), what
    )
    try:
        until(lambda: holds(engine, name), f"{name} to hold its memory", 60)
        yield name
    finally:
        engine.docker("rm", "--force", name, check=False)


def holds(engine: HostEngine, name: str) -> bool:
    """Whether it has said so; fails with its last words where it has ended."""
    said = engine.docker("logs", name)
    running = engine.docker("inspect", "--format", "{{.State.Running}}", name).strip() == "true"
    assert running, f"{name} has ended: {engine.errors(name)}"
    return "holding" in said


def until(true: Callable[[], bool], what: str, within: float) -> float:
    """The seconds that it took."""
    began = time.monotonic()
    while not true():
        assert time.monotonic() - began < within, f"waited {within:g} s for {what}"
        time.sleep(0.02)
    return time.monotonic() - began


def tree(pid: int) -> list[int]:
    """A process and all its descendants."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [pid, *(one for child in children for one in tree(int(child)))]


def used(gpu: Gpu) -> int:
    """Bytes in use; fails where the card does not say."""
    assert isinstance(gpu.memory_used, Known), gpu.memory_used
    return int(gpu.memory_used.value)


def watts(gpu: Gpu) -> float:
    assert isinstance(gpu.power_w, Known), gpu.power_w
    return gpu.power_w.value


def share(gpu: Gpu) -> float:
    return value_of(gpu.utilization) or 0.0


def writes(folder: Path, box: Box, size: int, cards: int = 1) -> Path:
    """`vllm` for a box: the simulator, once a `load.py` has its memory on each card; where one has not, it ends as
    that did."""
    program = folder / "vllm"
    program.write_text(
        f"#!{box.python}\n"
        "import runpy, subprocess, sys\n"
        "ranks = [\n"
        f'    subprocess.Popen([sys.executable, "/gpu/load.py", "{size}", "{box.busy}", str(number)], stdout=-1)\n'
        f"    for number in range({cards})\n"
        "]\n"
        "for rank in ranks:\n"
        "    if not rank.stdout.readline():\n"
        "        sys.exit(rank.wait() or 1)\n"
        'sys.path.insert(0, "/sim")\n'
        'runpy.run_module("simulator", run_name="__main__", alter_sys=True)\n'
    )
    program.chmod(0o755)
    return program


def simulator_folder() -> Path:
    return REPOSITORY / "tests" / "lab"
