"""Runs a command in the lab's own mount, network and process namespaces.

    .venv/bin/python -m tests.lab.inside -- .venv/bin/pytest tests/adapters -m docker

A second Docker Engine in the host's network would erase the first one's rules for published ports, so the lab's Engine
runs only in here, and so does whatever talks to a port that it publishes: 127.0.0.1 inside is not the host's. There is
no network but loopback; what comes from the archive is unpacked before entering. The host's folders are all there.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys

from tests.lab import packages, sessions
from tests.lab.place import (
    OUTER_NETWORK,
    OUTSIDE_BECAUSE,
    REPOSITORY,
    SESSION,
    Unavailable,
    is_inside,
    network_identity,
)

# If the process that started it is killed, the kernel kills process 1 in there, and with it all the others.
NAMESPACES = ("unshare", "--mount", "--net", "--pid", "--fork", "--mount-proc", "--kill-child", "--")
FIRST_PROCESS = (sys.executable, "-m", "tests.lab.init")
DIES_WITH_PARENT = ("setpriv", "--pdeathsig", "KILL", "--")


def main() -> int:
    """Exit status of the command; 69 where the lab cannot be entered and `--if-possible` was not given."""
    options = _options()
    # a shell's background job begins with interrupts ignored, and so would every test that sends one to its children
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if is_inside():
        return subprocess.run(options.command, check=False).returncode
    for name in options.beside:
        beside(name)
    try:
        enter_check()
        for group in filter(packages.Group.is_needed, packages.ALL):
            packages.fetch(group)
    except Unavailable as gap:
        print(f"lab: {gap}", file=sys.stderr)
        if not options.if_possible:
            return os.EX_UNAVAILABLE
        environment = {**os.environ, OUTSIDE_BECAUSE: str(gap)}
        return subprocess.run(options.command, env=environment, check=False).returncode
    return run(options.command)


def beside(name: str) -> None:
    """Unpacks a group that the lab can do without; what wants it says that it is not there."""
    try:
        packages.fetch(packages.BESIDE[name])
    except Unavailable as gap:
        print(f"lab: {gap}", file=sys.stderr)


def run(command: list[str]) -> int:
    """The command's exit status, run in new namespaces with a session folder that is gone afterwards."""
    sessions.sweep()
    with sessions.opened() as session:
        environment = {**os.environ, SESSION: str(session), OUTER_NETWORK: network_identity()}
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(REPOSITORY), os.environ.get("PYTHONPATH"))))
        words = [*DIES_WITH_PARENT, *NAMESPACES, *FIRST_PROCESS, *command]
        with subprocess.Popen(words, env=environment) as child:
            return _wait(child)


def enter_check() -> None:
    """Raises Unavailable with the reason why this process may not make the lab's namespaces."""
    if os.geteuid() != 0:
        raise Unavailable("cannot enter the lab: making network namespaces needs root")
    if missing := [program for program in ("unshare", "setpriv") if shutil.which(program) is None]:
        raise Unavailable(f"cannot enter the lab: this machine has no {', '.join(missing)} (package util-linux)")
    packages.run((*NAMESPACES, *FIRST_PROCESS, "true"), cwd=REPOSITORY)


def _wait(child: subprocess.Popen[bytes]) -> int:
    """Waits through interrupts: the command hears them too, and decides when it is done."""
    while True:
        try:
            return child.wait()
        except KeyboardInterrupt:
            continue


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.lab.inside", description="Runs a command in the lab.")
    parser.add_argument("--if-possible", action="store_true", help="say why and run it outside where the lab cannot be")
    parser.add_argument(
        "--with", action="append", default=[], dest="beside", choices=sorted(packages.BESIDE), help="unpack this too"
    )
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="-- COMMAND")
    options = parser.parse_args()
    options.command = options.command[1:] if options.command[:1] == ["--"] else options.command
    if not options.command:
        parser.error("a command is needed")
    return options


if __name__ == "__main__":
    sys.exit(main())
