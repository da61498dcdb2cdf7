"""Where the API can be reached: the unix socket, and TCP with tokens and certificates that are read as they change."""

from __future__ import annotations

import asyncio
import grp
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import structlog
from aiohttp import web

from agent.adapters import listen
from agent.api.app import Entrance, make_app, open_paths
from agent.api.caller import Caller
from agent.api.desk import Desk
from agent.api.door import Crowd, Door
from agent.api.guard import Guard, Tokens
from agent.api.rate import Rate
from agent.errors import AgentError, InvalidInput
from agent.incident.veil import Veil
from agent.settings.credential import place_of
from agent.settings.model import Listen, Settings

log = structlog.get_logger()
GROUP = "recipe-agent"
SOCKET_TAKEN = "one agent a host; stop it, or give this one another paths.socket (and paths.state) in agent.yaml"
# sockaddr_un of unix(7) has 108 bytes for a path and its end.
SOCKET_PLACE = "paths.socket in agent.yaml: a folder that the agent's user may write to, in a path of at most 107 bytes"
LOOK_AGAIN_S = 2.0
"""How often the files of tokens and certificates are looked at."""
SHORTEST_TOKEN = 16
MOST_CONNECTIONS = 256
MOST_OF_ONE_ADDRESS = 64
LARGEST_TOKEN_FILE = 65_536
Signature = tuple[tuple[int, int, int] | None, ...]


class BadTokens(InvalidInput):
    """A token file that opens nothing, or too easily."""

    code = "listen.token_file"
    message = "cannot use the tokens of {file}: {why}"
    hint = "one token a line, e.g. from: openssl rand -hex 32"


@dataclass(slots=True)
class TcpSide:
    """What listens now."""

    guard: Guard
    runner: web.AppRunner
    socket: listen.Listener
    crowd: Crowd = field(default_factory=lambda: Crowd(MOST_CONNECTIONS, MOST_OF_ONE_ADDRESS))
    server: asyncio.Server | None = None
    seen: Signature = ()


class Doors:
    """Opens them, keeps their keys up to date, closes them."""

    def __init__(self, desk: Desk, settings: Settings, veil: Veil) -> None:
        self._desk = desk
        self._settings = settings
        self._veil = veil
        self._unix: web.AppRunner | None = None
        self._unix_server: asyncio.Server | None = None
        self._tcp: TcpSide | None = None

    async def open(self) -> None:
        """Raises what the site must mend: a port that is taken, a file that cannot be used.

        The unix socket comes last: who is answered there finds everything open.
        """
        if self._settings.listen.port:
            await self._open_tcp(self._settings.listen)
        await self._open_unix(self._settings.paths.socket)

    async def _open_unix(self, path: Path) -> None:
        """Everything is allowed here, to who may open the file: its owner and the group recipe-agent."""
        self._unix = await runner_for(make_app(self._desk, Entrance(unix_caller)))
        factory = doorway(self._unix, Crowd(MOST_CONNECTIONS, MOST_CONNECTIONS))
        if who := await asyncio.to_thread(listen.owner, path):
            raise listen.CannotListen(where=path, why=f"{who} listens there", advice=SOCKET_TAKEN)
        before = os.umask(0o117)
        try:
            clear_place(path)
            self._unix_server = await asyncio.get_running_loop().create_unix_server(factory, str(path))
        except OSError as error:
            raise listen.CannotListen(where=path, why=error.strerror or error, advice=SOCKET_PLACE) from error
        finally:
            os.umask(before)
        give_to_group(path)

    async def _open_tcp(self, wanted: Listen) -> None:
        rate = Rate(wanted.rate_per_s, wanted.burst)
        guard = Guard(rate, open_paths(), tcp_caller)
        runner = await runner_for(make_app(self._desk, Entrance(tcp_caller, guard)))
        socket = await asyncio.to_thread(listen.bind, wanted.address, wanted.port)
        self._tcp = TcpSide(guard, runner, socket)
        await self._renew(self._tcp, wanted)

    async def _renew(self, tcp: TcpSide, wanted: Listen) -> None:
        """Everything that files say of the TCP side, read whole before any of it is used."""
        tcp.seen = await asyncio.to_thread(signature, wanted)
        tokens, context = await asyncio.to_thread(keys_of, wanted)
        for token in tokens.values:
            self._veil.learn(token)
        server = await listen.serve(tcp.socket, doorway(tcp.runner, tcp.crowd), context)
        before, tcp.server = tcp.server, server
        tcp.guard.tokens = tokens
        tcp.guard.names = listen.host_names() | frozenset(wanted.names)
        tcp.guard.rate.per_s, tcp.guard.rate.burst = wanted.rate_per_s, wanted.burst
        if before is not None:
            await listen.leave(before)

    async def take(self, settings: Settings) -> None:
        """A new site file: raises what is wrong with its part, and keeps the old."""
        if self._tcp is not None:
            await self._renew(self._tcp, settings.listen)
        self._settings = settings

    async def watch(self) -> None:
        """Look at the files again and again; what cannot be used is said once, and the old stays."""
        while self._tcp is not None:
            await asyncio.sleep(LOOK_AGAIN_S)
            await self._look(self._tcp)

    async def _look(self, tcp: TcpSide) -> None:
        wanted = self._settings.listen
        if await asyncio.to_thread(signature, wanted) == tcp.seen:
            return
        try:
            await self._renew(tcp, wanted)
        except AgentError as error:
            log.warning("keys_refused", reason=error.text, kept="the ones before")
        else:
            log.info("keys_renewed", files=[str(path) for path in files_of(wanted)])

    async def close(self) -> None:
        """No new connections; those that are there get a second."""
        for server in (self._unix_server, self._tcp.server if self._tcp else None):
            if server is not None:
                server.close()
        for runner in (self._unix, self._tcp.runner if self._tcp else None):
            if runner is not None:
                await runner.cleanup()
        if self._tcp is not None:
            self._tcp.socket.close()


def doorway(runner: web.AppRunner, crowd: Crowd) -> listen.Protocols:
    """Makes the protocol of each connection."""
    server = runner.server
    assert server is not None  # noqa: S101 - set up before
    return lambda: Door(server, crowd, access_log=None)


async def runner_for(app: web.Application) -> web.AppRunner:
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=1.0)
    await runner.setup()
    return runner


def unix_caller(request: web.Request) -> Caller:
    peer = listen.unix_peer(request.transport)
    if peer is None:
        return Caller("unix")
    return Caller("unix", uid=peer[0], pid=peer[1], user=listen.user_name(peer[0]))


def tcp_caller(request: web.Request) -> Caller:
    return Caller("tcp", request.remote or "", certificate=listen.certificate_name(request.transport))


def clear_place(path: Path) -> None:
    """A killed agent leaves its socket behind."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)


def give_to_group(path: Path) -> None:
    try:
        os.chown(path, -1, grp.getgrnam(GROUP).gr_gid)
    except (KeyError, PermissionError):
        log.debug("socket_group", path=str(path), reason=f"no group {GROUP}, or no right to give the socket to it")


def files_of(wanted: Listen) -> Iterator[Path]:
    """The files that the TCP side is made from, where they lie. Raises NoCredentials."""
    tls = wanted.tls
    for path in (wanted.token_file, tls.certificate, tls.key, tls.client_ca):
        if path is not None:
            yield place_of(path, os.environ)


def signature(wanted: Listen) -> Signature:
    """Tells whether any of the files is another one than before."""
    return tuple(stamp(path) for path in files_of(wanted))


def stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def keys_of(wanted: Listen) -> tuple[Tokens, listen.Context | None]:
    """Tokens and TLS, from their files."""
    tls, places = wanted.tls, os.environ
    tokens = read_tokens(place_of(wanted.token_file, places)) if wanted.token_file else Tokens()
    if tls.certificate is None or tls.key is None:
        return tokens, None
    authority = place_of(tls.client_ca, places) if tls.client_ca else None
    return tokens, listen.tls(place_of(tls.certificate, places), place_of(tls.key, places), authority)


def read_tokens(file: Path) -> Tokens:
    """One token a line; `#` begins a comment. Raises BadTokens."""
    try:
        with file.open("rb") as stream:
            text = stream.read(LARGEST_TOKEN_FILE).decode()
        open_to_all = stat.S_IMODE(file.stat().st_mode) & stat.S_IROTH
    except OSError as error:
        raise BadTokens(file=file, why=error.strerror or error) from error
    except UnicodeDecodeError as error:
        raise BadTokens(file=file, why="it is no text") from error
    lines = [line.strip() for line in text.splitlines()]
    tokens = tuple(line for line in lines if line and not line.startswith("#"))
    if not tokens:
        raise BadTokens(file=file, why="it holds none")
    if short := [number for number, line in enumerate(lines, 1) if line in tokens and len(line) < SHORTEST_TOKEN]:
        raise BadTokens(file=file, why=f"the one in line {short[0]} is shorter than {SHORTEST_TOKEN} characters")
    if open_to_all:
        log.warning("token_file_is_open", file=str(file), reason="every user of this host can read it")
    return Tokens(tokens)
