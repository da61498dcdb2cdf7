"""The control surface: faults set and cleared while the engine runs, by HTTP or through a file."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path
from typing import Any

from .clock import Clock
from .engine_client import EngineClient
from .faults import Board, Fault, UnknownFault, make, parse_many
from .httpd import Handler, Reply, Request
from .log import write
from .process import child, set_title, wait_for

_LOOK_S = 0.05  # real seconds between looks at the control file, and pieces of a leak


def eat(most_mib: int) -> None:
    """Take and keep memory, as much as that at most: a host without a limit shall survive it."""
    kept = [bytearray(os.urandom(1 << 10) * (1 << 10)) for _ in range(most_mib)]
    kept.clear()


class Control:
    """What is in force, and what happens at once when a fault is set."""

    def __init__(self, board: Board, clock: Clock, faults: tuple[Fault, ...]) -> None:
        self.board = board
        self.clock = clock
        self.faults: dict[str, Fault] = {fault.kind: fault for fault in faults}
        self.keep_alive = False
        self.engine: EngineClient | None = None
        self._applied: set[str] = set()
        self._leaked: list[bytes] = []
        self._leaking: asyncio.Task[None] | None = None
        self._serves = False
        self._compiler = 0
        self._show_board()

    def attach(self, engine: EngineClient) -> None:
        """The engine that faults act on."""
        self.engine = engine
        engine.on_heal = self.clear
        if "compile" in self.faults:
            self._act(self.faults["compile"])

    def ready(self) -> None:
        """The engine serves: faults that were set before the start act now."""
        self._serves = True
        self._show_board()
        for fault in list(self.faults.values()):
            self._act(fault)

    def _show_board(self) -> None:
        """What is in force now; a death by memory waits until there is a server that can notice it."""
        self.board.put(f for f in self.faults.values() if self._serves or f.kind != "oom")

    def set(self, fault: Fault) -> None:
        """Put a fault in force."""
        self.faults[fault.kind] = fault
        self._applied.discard(fault.kind)
        self._show_board()
        if self.engine is not None and self.engine.started.is_set():
            self._act(fault)

    def clear(self, kind: str = "") -> None:
        """Heal one kind, or all; a request whose client had gone is let go of."""
        gone = [kind] if kind else list(self.faults)
        for name in gone:
            self.faults.pop(name, None)
        self._show_board()
        if "compile" in gone and self._compiler:
            wait_for(self._compiler)
            self._compiler = 0
        if self.engine is not None and {"zombie_held", "zombie_burning"} & set(gone):
            self.engine.release_zombies()
        if self.engine is not None and "stale_gauge" in gone:
            self.engine.frozen_gauges = False

    def _act(self, fault: Fault) -> None:
        """The faults that are an event."""
        if self.engine is None or fault.kind in self._applied:
            return
        self._applied.add(fault.kind)
        if fault.kind == "exit":
            self._exit(int(fault.number(1)))
        if fault.kind == "leak":
            self._leaking = asyncio.create_task(self._leak(fault))
        if fault.kind == "compile":
            self._compile(fault)
        if fault.kind == "counters_reset":
            self.engine.ledger.anew()
        if fault.kind == "eat_memory":
            eat(int(fault.number(1024)))
        if fault.kind == "say":
            write(f"{fault.arg}\n")
        if fault.kind in {"exit0", "health_503_keepalive"}:
            self.keep_alive = self.keep_alive or fault.kind == "health_503_keepalive"
            self.engine.kill(int(fault.arg) if fault.arg else None)

    async def _leak(self, fault: Fault) -> None:
        """Take memory, written to so that it is there, for as long as the fault is in force."""
        while self.faults.get("leak") == fault:
            self._leaked.append(b"x" * int(fault.number(20) * 1e6 * _LOOK_S))
            await asyncio.sleep(_LOOK_S)

    def _compile(self, fault: Fault) -> None:
        """A child of the compiler's name, until the fault is healed."""

        def life() -> None:
            set_title(fault.arg or "ptxas")
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, signal.SIG_DFL)
            while self.board.get("compile") and os.getppid() == server:
                time.sleep(_LOOK_S)

        server, self._compiler = os.getpid(), os.fork()
        if self._compiler == 0:
            child(life)

    def _exit(self, code: int) -> None:
        """End at once with this code; above 128 by the signal itself, which PID 1 of a container survives."""
        if self.engine is not None:
            self.engine.kill()
        if code > 128:
            if code - 128 != signal.SIGKILL:
                signal.signal(code - 128, signal.SIG_DFL)
            os.kill(os.getpid(), code - 128)
        os._exit(code)

    def routes(self) -> dict[tuple[str, str], Handler]:
        """For the engine's own port, or one apart."""
        return {("GET", "/sim/state"): self.state, ("POST", "/sim/fault"): self.fault}

    async def handle(self, request: Request, reply: Reply) -> None:
        """The handler of a port apart."""
        route = self.routes().get((request.method, request.path))
        if route is None:
            reply.json({"detail": "Not Found"}, 404)
        else:
            await route(request, reply)

    async def fault(self, request: Request, reply: Reply) -> None:
        """POST {"kind": …, "arg": …, "for_s": …}; kind `clear` heals (`arg`: one kind)."""
        try:
            body = request.json()
            kind, arg, lasting = body["kind"], str(body.get("arg", "")), body.get("for_s")
            if kind == "clear":
                self.clear(arg)
            else:
                self.set(make(kind, arg, None if lasting is None else float(lasting)))
        except UnknownFault as unknown:
            reply.json({"error": str(unknown)}, 400)
            return
        except (ValueError, KeyError, TypeError, AttributeError) as bad:
            reply.json({"error": f"cannot read the fault: {bad!r}"}, 400)
            return
        reply.json({"faults": [_show(f) for f in self.faults.values()]})

    async def state(self, _request: Request, reply: Reply) -> None:
        """GET: faults, processes, sequences that the frontend knows."""
        engine = self.engine
        reply.json({
            "faults": [_show(f) for f in self.faults.values()],
            "now": self.clock.now(),
            "scale": self.clock.scale,
            "pid": os.getpid(),
            "cores": [{"rank": c.rank, "pid": c.pid, "ready": c.ready} for c in engine.cores] if engine else [],
            "dead": engine.dead if engine else False,
            "sequences": [
                {"id": s.id, "rank": s.rank, "prompt": s.prompt, "tokens": s.tokens, "client": s.client}
                for s in (engine.sequences.values() if engine else ())
            ],
        })  # fmt: skip

    async def follow(self, path: Path) -> None:
        """Obey a file: what it lists is in force, and what leaves it is healed. No file: no say."""
        last: str | None = None
        while True:
            text = _read(path)
            if text is not None and text != last:
                self._obey(text)
            last = text
            await asyncio.sleep(_LOOK_S)

    def obey_file(self, path: Path) -> None:
        """Take over what the file lists, if it is there."""
        if (text := _read(path)) is not None:
            self._obey(text)

    def _obey(self, text: str) -> None:
        try:
            wanted = {fault.kind: fault for fault in parse_many(text)}
        except UnknownFault:
            return  # half a line, or a slip: what was in force stays
        for kind in [k for k in self.faults if k not in wanted]:
            self.clear(kind)
        for fault in wanted.values():
            if self.faults.get(fault.kind) != fault:
                self.set(fault)


def _show(fault: Fault) -> dict[str, Any]:
    return {"kind": fault.kind, "arg": fault.arg, "for_s": fault.for_s}


def _read(path: Path) -> str | None:
    try:
        return path.read_text()
    except OSError:
        return None
