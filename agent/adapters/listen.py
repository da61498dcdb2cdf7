"""Listening sockets, TLS from files, and who is at the other end of a connection."""

from __future__ import annotations

import asyncio
import pwd
import socket
import ssl
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agent.errors import AgentError

BACKLOG = 128
HANDSHAKE_S = 10.0
"""How long a client may take for its part of TLS."""
OWNER_S = 2.0
CREDENTIALS = struct.Struct("3i")
"""`struct ucred` of unix(7): pid, uid, gid."""
Protocols = Callable[[], asyncio.Protocol]
Listener = socket.socket
Context = ssl.SSLContext


class CannotListen(AgentError):
    """The TCP side cannot be opened."""

    code = "listen.failed"
    message = "cannot listen on {where}: {why}"
    hint = "set listen.port in agent.yaml to a free port, or to 0 for the unix socket alone"


class BadCertificate(AgentError):
    """Files that make no TLS."""

    code = "listen.tls"
    message = "cannot use {files} for TLS: {why}"
    hint = "listen.tls wants a certificate (PEM, with its chain), its key without a passphrase, and the CA of clients"


def bind(address: str, port: int) -> socket.socket:
    """A listening socket. Raises CannotListen."""
    try:
        found = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, where = found[0]
        listener = socket.socket(family, kind | socket.SOCK_CLOEXEC, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(where)
            listener.listen(BACKLOG)
            listener.setblocking(False)
        except BaseException:
            listener.close()
            raise
    except OSError as error:
        raise CannotListen(where=f"{address}:{port}", why=error.strerror or error) from error
    return listener


def owner(path: Path) -> str:
    """Who accepts connections on a unix socket, in words; empty where nobody does, as after a kill."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(OWNER_S)
        try:
            probe.connect(str(path))
            pid, _, _ = CREDENTIALS.unpack(probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size))
        except (TimeoutError, BlockingIOError):
            return "a program that does not answer"
        except OSError:
            return ""
    return f"pid {pid}"


def tls(certificate: Path, key: Path, client_ca: Path | None) -> ssl.SSLContext:
    """TLS 1.2 or newer. With `client_ca` a client may show a certificate, and one that it did not sign is refused."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key, password=no_passphrase)
        if client_ca is not None:
            context.load_verify_locations(client_ca)
            context.verify_mode = ssl.CERT_OPTIONAL
    except (OSError, ValueError) as error:
        files = ", ".join(str(path) for path in (certificate, key, client_ca) if path is not None)
        raise BadCertificate(files=files, why=getattr(error, "strerror", None) or error) from error
    return context


def no_passphrase() -> str:
    """Without it OpenSSL would ask on the terminal."""
    raise ValueError("the key has a passphrase")


async def serve(listener: socket.socket, protocols: Protocols, context: ssl.SSLContext | None) -> asyncio.Server:
    """Accept on a copy of `listener`, so that the next server can begin before this one ends."""
    handshake = HANDSHAKE_S if context is not None else None
    loop = asyncio.get_running_loop()
    return await loop.create_server(
        protocols, sock=listener.dup(), ssl=context, ssl_handshake_timeout=handshake, backlog=BACKLOG
    )


async def leave(server: asyncio.Server) -> None:
    """Accept no more on it; another one accepts on the same listener.

    What it accepted a moment ago begins first: asyncio makes a connection's transport a turn of the loop later, and
    drops it without a word where its server has closed by then (the assertion in `Server._attach`).
    """
    loop = asyncio.get_running_loop()
    for one in server.sockets:
        loop.remove_reader(one)
    try:
        await asyncio.sleep(0)
    finally:
        server.close()


def unix_peer(transport: asyncio.BaseTransport | None) -> tuple[int, int] | None:
    """Uid and pid of the client of a unix socket, as the kernel noted them when it connected."""
    found: Any = transport.get_extra_info("socket") if transport is not None else None
    if found is None:
        return None
    try:
        pid, uid, _ = CREDENTIALS.unpack(found.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size))
    except OSError:
        return None
    return uid, pid


def user_name(uid: int) -> str:
    """The name of a local user; empty where there is none of that number."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return ""


def certificate_name(transport: asyncio.BaseTransport | None) -> str:
    """The subject of the certificate that the client showed and the CA vouched for; empty without one."""
    shown: Any = transport.get_extra_info("peercert") if transport is not None else None
    if not shown:
        return ""
    names = {key: value for group in shown.get("subject", ()) for key, value in group}
    return str(names.get("commonName") or shown.get("serialNumber", "without a name"))


def host_names() -> frozenset[str]:
    """Names that this host calls itself."""
    name = socket.gethostname().lower()
    return frozenset({"localhost", name, name.partition(".")[0]})
