"""Who may listen to whom: TLS of its own, plain text on this machine only, and silent connections that make room."""

from __future__ import annotations

import datetime
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from shoal.agency.client import AgencyClient

ADDRESS = "127.0.0.1"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory) -> tuple[Path, Path]:
    """A certificate of this machine for itself, and its key."""
    import ipaddress

    folder, key = tmp_path_factory.mktemp("tls"), ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, ADDRESS)])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(ADDRESS))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    kind = serialization.PrivateFormat.PKCS8
    private = key.private_bytes(serialization.Encoding.PEM, kind, serialization.NoEncryption())
    (folder / "key.pem").write_bytes(private)
    (folder / "cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    return folder / "cert.pem", folder / "key.pem"


@pytest.fixture
def secured(new_database, certificate, shoal_serving) -> Iterator[tuple[str, str]]:
    database, token = new_database()
    with shoal_serving("--database", database, "--tls-cert", certificate[0], "--tls-key", certificate[1]) as url:
        yield url, token


def test_the_service_speaks_tls_itself(secured: Any, certificate: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    url, token = secured
    assert url.startswith(f"https://{ADDRESS}:")
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    assert AgencyClient.at(url, token).list("campaigns") == []
    with socket.create_connection((ADDRESS, int(url.rpartition(":")[2])), timeout=10) as plain:
        plain.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"200" not in plain.recv(100)


REFUSED = {
    "a plain listener for others": (("--host", "0.0.0.0"), "--behind-proxy"),
    "a plain listener on IPv6": (("--host", "::"), "--tls-cert"),
    "a certificate without its key": (("--tls-cert", "cert.pem"), "belong together"),
    "files that are not there": (("--tls-cert", "absent.pem", "--tls-key", "absent.pem"), "cannot be used"),
    "files that are no certificate": (("--tls-cert", "nonsense", "--tls-key", "nonsense"), "cannot be used"),
}


@pytest.mark.parametrize("why", REFUSED)
def test_listeners_that_are_refused(why: str, tmp_path: Path, shoal_agency) -> None:
    (tmp_path / "nonsense").write_text("no certificate")
    arguments, words = REFUSED[why]
    given = [str(tmp_path / part) if part in ("nonsense", "absent.pem") else part for part in arguments]
    ended: subprocess.CompletedProcess[str] = shoal_agency(
        "serve", "--port", "0", "--database", f"sqlite:///{tmp_path}/agency.db", *given
    )
    assert ended.returncode == 2, ended
    assert words in ended.stderr
    assert "Traceback" not in ended.stderr


def test_somebody_may_vouch_for_a_proxy(tmp_path: Path, shoal_serving) -> None:
    with shoal_serving("--database", f"sqlite:///{tmp_path}/a.db", "--host", "0.0.0.0", "--behind-proxy") as url:
        port = int(url.rpartition(":")[2])
        with socket.create_connection((ADDRESS, port), timeout=10) as plain:
            plain.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            assert plain.recv(100).startswith(b"HTTP/1.1 200 ")
