"""TLS and certificates of clients, from files that change while the daemon runs."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api.conftest import TOKEN, open_rig
from tests.api.tcp import ask
from tests.e2e.rig import Rig, wait_for

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl to make certificates")


def openssl(*words: str | Path) -> None:
    subprocess.run(["openssl", *words], check=True, capture_output=True)


class Authority:
    """A CA of the test's own."""

    def __init__(self, folder: Path, name: str) -> None:
        folder.mkdir(parents=True)
        self.folder, self.certificate = folder, folder / "ca.pem"
        self._key = folder / "ca.key"
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                "-subj", f"/CN={name}", "-keyout", self._key, "-out", self.certificate)  # fmt: skip

    def sign(self, name: str) -> tuple[Path, Path]:
        """Certificate and key of `name`, for servers and clients."""
        key, asked, made = (self.folder / f"{name}.{ending}" for ending in ("key", "csr", "pem"))
        extra = self.folder / f"{name}.ext"
        extra.write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", f"/CN={name}",
                "-keyout", key, "-out", asked)  # fmt: skip
        openssl("x509", "-req", "-in", asked, "-CA", self.certificate, "-CAkey", self._key, "-CAcreateserial",
                "-days", "2", "-extfile", extra, "-out", made)  # fmt: skip
        return made, key


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca") / "one", "ours")


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Iterator[Rig]:
    folder = tmp_path_factory.mktemp("tls")
    install(authority, folder, "first")
    tls = {"certificate": folder / "server.pem", "key": folder / "server.key", "client_ca": authority.certificate}
    found = open_rig(folder, tls={name: str(path) for name, path in tls.items()})
    try:
        found.start()
        yield found
    finally:
        found.close()


def install(authority: Authority, folder: Path, name: str) -> None:
    """Key first, so that the pair that is read in between does not fit and is not used."""
    certificate, key = authority.sign(name)
    shutil.copy(key, folder / "server.key")
    shutil.copy(certificate, folder / "server.pem")


def context(authority: Authority, client: tuple[Path, Path] | None = None) -> ssl.SSLContext:
    made = ssl.create_default_context(cafile=str(authority.certificate))
    if client is not None:
        made.load_cert_chain(*client)
    return made


def subject(rig: Rig, authority: Authority) -> str:
    with (
        socket.create_connection(("127.0.0.1", rig.port), timeout=10) as plain,
        context(authority).wrap_socket(plain, server_hostname="localhost") as wrapped,
    ):
        found = wrapped.getpeercert()
    assert found is not None
    return str(dict(group[0] for group in found["subject"])["commonName"])  # type: ignore[misc,union-attr]


def test_what_is_open_needs_no_certificate(rig: Rig, authority: Authority) -> None:
    assert ask(rig.port, "/metrics", tls=context(authority)).status == 200
    assert ask(rig.port, "/v1/host", tls=context(authority)).status == 401


def test_a_token_opens_over_tls(rig: Rig, authority: Authority) -> None:
    assert ask(rig.port, "/v1/host", tls=context(authority), token=TOKEN).status == 200


def test_a_clients_certificate_opens_and_is_noted(rig: Rig, authority: Authority) -> None:
    client = context(authority, authority.sign("operator"))
    assert ask(rig.port, "/v1/host", tls=client).status == 200
    assert ask(rig.port, "/v1/deployments/none/pause", "POST", tls=client).status == 404
    reply = ask(rig.port, "/v1/deployments/none/pause", "POST", tls=client, Origin="https://evil.example")
    assert reply.code == "api.cross_site", "a browser sends its certificate with whatever a page asks"


def test_a_certificate_of_another_authority_is_refused(rig: Rig, authority: Authority, tmp_path: Path) -> None:
    stranger = Authority(tmp_path / "two", "theirs").sign("stranger")
    with pytest.raises((ssl.SSLError, ConnectionError)):
        ask(rig.port, "/metrics", tls=context(authority, stranger))


def test_plain_http_is_no_way_around(rig: Rig) -> None:
    with pytest.raises(ConnectionError):
        ask(rig.port, "/metrics")


def test_the_command_line_comes_in_with_a_certificate_or_a_token(rig: Rig, authority: Authority) -> None:
    certificate, key = authority.sign("laptop")
    url = ("--url", f"https://127.0.0.1:{rig.port}")
    assert rig.ctl("status", *url).code == 5, "the system does not know this authority"
    rig.environment["RECIPE_AGENT_CA"] = str(authority.certificate)
    assert rig.ctl("status", *url, "-o", "json").error["code"] == "api.not_allowed"
    shown = {"RECIPE_AGENT_CERTIFICATE": str(certificate), "RECIPE_AGENT_KEY": str(key)}
    for one in ({"RECIPE_AGENT_TOKEN": TOKEN}, shown):
        rig.environment |= one
        assert rig.ok("status", *url, "-o", "json").json == []
        for name in one:
            del rig.environment[name]


def test_old_tls_is_refused(rig: Rig, authority: Authority) -> None:
    old = context(authority)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises((ssl.SSLError, ConnectionError)):
        ask(rig.port, "/metrics", tls=old)


def test_a_new_certificate_is_used_without_a_restart(rig: Rig, authority: Authority) -> None:
    pid = rig.daemon.pid if rig.daemon else 0
    assert subject(rig, authority) == "first"
    install(authority, rig.folder, "second")
    wait_for(lambda: subject(rig, authority) == "second", "the new certificate")
    (rig.folder / "server.pem").write_text("no certificate")
    wait_for(lambda: rig.log.read_text().count("keys_refused") >= 1, "the refusal in the log")
    assert subject(rig, authority) == "second", "files that cannot be used change nothing"
    assert rig.daemon is not None
    assert rig.daemon.pid == pid


def test_a_key_with_a_passphrase_stops_the_start_and_asks_nobody(tmp_path: Path, authority: Authority) -> None:
    certificate, key = authority.sign("locked")
    locked = tmp_path / "locked.key"
    openssl("ec", "-in", key, "-aes256", "-passout", "pass:secret", "-out", locked)
    rig = open_rig(tmp_path / "rig", tls={"certificate": str(certificate), "key": str(locked)})
    assert rig.launch().wait(20) == 1
    assert "the key has a passphrase" in rig.log.read_text()
