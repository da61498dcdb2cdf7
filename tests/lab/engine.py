"""A Docker Engine of the lab's own, from unpacked packages, in the lab's namespaces.

    with engine.running("mine") as docker_engine:
        docker_engine.docker("run", "-d", "--gpus", "all", "-p", "8095:8095", …)
        docker.DockerClient(base_url=docker_engine.docker_host)

Ports that it publishes answer on 127.0.0.1 inside the namespaces only; its socket is a file, which answers everywhere.
`--gpus` is accepted without a GPU (the container sees NVIDIA_VISIBLE_DEVICES). `--ulimit memlock=-1` and `--privileged`
are accepted where the machine lacks the capability for them: see `runc.py`.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.lab import packages
from tests.lab.place import Unavailable, session_folder
from tests.lab.sessions import CGROUP_PREFIX

START_S = 60.0
STOP_S = 30.0

# dockerd offers the nvidia device driver where a program of this name is on its PATH when it starts.
GPU_HOOK = "nvidia-container-runtime-hook"
FIREWALL_NAMES = ("iptables", "ip6tables", "iptables-save", "ip6tables-save", "iptables-restore", "ip6tables-restore")


class Engine:
    """One dockerd with its own containerd; `folder` (of its name, in the session's) holds its data, log and socket."""

    def __init__(self, name: str, options: Sequence[str] = ()) -> None:
        self._session = session_folder()
        self.folder = folder = self._session / name
        self.socket = folder / "docker.sock"
        self.log = folder / "dockerd.log"
        self._root = packages.fetch(packages.ENGINE)
        self._options = tuple(options)
        self._process: subprocess.Popen[bytes] | None = None
        self._turn = threading.RLock()
        """It is ended in one thread while another, which saw it go, starts it anew: one after the other."""

    @property
    def docker_host(self) -> str:
        """The value of DOCKER_HOST; reachable from outside the namespaces too."""
        return f"unix://{self.socket}"

    @property
    def environment(self) -> Mapping[str, str]:
        """For programs that talk to this Engine: the lab's docker client first on PATH, DOCKER_HOST, own settings."""
        path = f"{packages.programs(self._root)}:{os.environ.get('PATH', '')}"
        return {
            **os.environ,
            "PATH": path,
            "DOCKER_HOST": self.docker_host,
            "DOCKER_CONFIG": str(self.folder / "client"),
        }

    @property
    def pid(self) -> int:
        """dockerd's pid inside the namespaces, such as for SIGSTOP (an Engine that hangs)."""
        if self._process is None:
            raise RuntimeError("the lab's Engine does not run")
        return self._process.pid

    def start(self) -> None:
        """Starts it and returns when it answers; raises Unavailable with its last words when it does not."""
        with self._turn:
            self._prepare()
            with self.log.open("ab") as log:
                self._process = subprocess.Popen(
                    self._command(), env=self._daemon_environment(), stdin=subprocess.DEVNULL, stdout=log, stderr=log
                )
            deadline = time.monotonic() + START_S
            while not self.answers():
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise Unavailable(f"cannot start the lab's Docker Engine: {self._last_words()}")
                time.sleep(0.05)

    def stop(self) -> None:
        """Ends it and its containers, and waits until it is gone; also one that a test froze or killed."""
        with self._turn:
            if self._process is None or self._process.poll() is not None:
                self.start()  # the containers of a killed one live on, and a new one finds them
            os.kill(self.pid, signal.SIGCONT)
            self.docker("rm", "--force", "--volumes", *self.docker("ps", "--all", "--quiet").split(), check=False)
            self.end(signal.SIGTERM)

    def end(self, number: signal.Signals) -> None:
        """Sends dockerd alone a signal that ends it and waits; with SIGKILL the containers live on."""
        with self._turn:
            if self._process is None:
                return
            self._process.send_signal(number)
            try:
                self._process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None

    def answers(self) -> bool:
        """Whether it answers on its socket."""
        try:
            with socket.socket(socket.AF_UNIX) as client:
                client.settimeout(2)
                client.connect(str(self.socket))
                client.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
                return b" 200 " in client.recv(64)
        except OSError:
            return False

    def run(self, words: Sequence[str], stdin: Path | None = None) -> subprocess.CompletedProcess[str]:
        """A program that talks to this Engine, and all that it said."""
        with (stdin or Path(os.devnull)).open("rb") as source:
            return subprocess.run(
                words, env=self.environment, stdin=source, capture_output=True, text=True, check=False
            )

    def docker(self, *words: str, check: bool = True, stdin: Path | None = None) -> str:
        """What the docker client prints. Raises CalledProcessError, with its stderr as a note, when it fails."""
        done = self.run(["docker", *words], stdin)
        if check and done.returncode != 0:
            failure = subprocess.CalledProcessError(done.returncode, ["docker", *words], done.stdout, done.stderr)
            failure.add_note(done.stderr)
            raise failure
        return done.stdout

    @contextmanager
    def hanging_over(self, container_id: str) -> Iterator[None]:
        """While the block lasts, the OCI runtime does not come back from clearing away this container once it ends.

        As with a driver or a cgroup that hangs: dockerd lists the container, answers for all others, and neither
        inspects nor removes this one.
        """
        mark = self._held / container_id
        mark.touch()
        try:
            yield
        finally:
            mark.unlink()

    def firewall(self) -> str:
        """The rules for published ports, as `iptables-save` prints them, without its comments and counters."""
        done = subprocess.run(
            ["iptables-save"], env=self._daemon_environment(), capture_output=True, text=True, check=True
        )
        return "\n".join(line.partition(" [")[0] for line in done.stdout.splitlines() if not line.startswith("#"))

    def _command(self) -> list[str]:
        return [
            "dockerd",
            *("--config-file", str(self._settings)),  # never the host's own
            *("--data-root", str(self.folder / "data")),
            *("--exec-root", f"/run/{self.folder.name}"),  # short: paths of sockets end at 107 characters
            *("--pidfile", f"/run/{self.folder.name}.pid"),
            *("--host", self.docker_host),
            # systemd's way would make scopes through the host's own systemd
            *("--exec-opt", "native.cgroupdriver=cgroupfs", "--cgroup-parent", f"/{CGROUP_PREFIX}{self._session.name}"),
            *("--add-runtime", f"lab={self._programs / 'lab-runc'}", "--default-runtime", "lab"),
            *self._options,
        ]

    @property
    def _programs(self) -> Path:
        return self.folder / "programs"

    @property
    def _held(self) -> Path:
        return self.folder / "held"

    @property
    def _settings(self) -> Path:
        return self.folder / "daemon.json"

    def _prepare(self) -> None:
        """Its settings, and the folder of programs that it finds first on its PATH."""
        self._programs.mkdir(parents=True, exist_ok=True)
        self._settings.write_text("{}")
        flavour = self._root / "usr/sbin" / self._firewall_flavour()
        for name in FIREWALL_NAMES:
            link = self._programs / name
            link.unlink(missing_ok=True)
            link.symlink_to(flavour)
        _script(self._programs / GPU_HOOK, "exit 0")
        relax = f"{sys.executable} -I -S {Path(__file__).with_name('runc.py')}"
        runc = self._root / "usr/sbin/runc"
        self._held.mkdir(exist_ok=True)
        hang = f'for last; do :; done; while [ -e "{self._held}/$last" ]; do sleep 0.1; done'
        _script(
            self._programs / "lab-runc",
            f'case " $* " in *" delete "*) {hang} ;; esac\n'
            f'case " $* " in *" create "* | *" exec "*) {relax} "$@" || exit ;; esac\nexec {runc} "$@"',
        )

    def _firewall_flavour(self) -> str:
        """nft where the kernel has it, else the older tables."""
        nft = [str(self._root / "usr/sbin/xtables-nft-multi"), "iptables", "--list", "--numeric"]
        works = subprocess.run(nft, env=self._daemon_environment(), capture_output=True, check=False).returncode == 0
        return "xtables-nft-multi" if works else "xtables-legacy-multi"

    def _daemon_environment(self) -> Mapping[str, str]:
        """The unpacked libraries are for dockerd and what it starts alone."""
        found = packages.libraries(self._root)
        tables = next(self._root.glob("usr/lib/*/xtables"))
        path = f"{self._programs}:{packages.programs(self._root)}:{os.environ.get('PATH', '')}"
        return {**os.environ, "PATH": path, "LD_LIBRARY_PATH": found, "XTABLES_LIBDIR": str(tables)}

    def _last_words(self) -> str:
        return " | ".join(self.log.read_text(errors="replace").splitlines()[-4:])


@contextmanager
def running(name: str, options: Sequence[str] = ()) -> Iterator[Engine]:
    """An Engine that answers, ended with its containers after the block. `options` are further ones of dockerd.

    Raises Unavailable outside the lab's namespaces, and where it does not start.
    """
    engine = Engine(name, options)
    engine.start()
    try:
        yield engine
    finally:
        engine.stop()


def _script(path: Path, body: str) -> None:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
