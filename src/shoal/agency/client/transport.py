"""One request to an agency's service and its answer: bounded in size and time, and never to another place.

A token is sent over TLS, or in plain text to this very machine; redirects are not followed, so it goes nowhere else.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from shoal.core.errors import InputError, ShoalError, UnreachableError, UsageError
from shoal.core.strict_json import read_json

TOKEN_VARIABLE = "SHOAL_AGENCY_TOKEN"  # noqa: S105 - the name of a variable, not a token
LARGEST_ANSWER = 16 * 2**20  # bytes
PATIENCE = 30.0  # seconds for any step of an exchange
_TOKEN = re.compile(r"[\x21-\x7e]{8,512}")
_PLACE = re.compile(r"[A-Za-z0-9_.:~/-]*")
_PIECE = 2**16
_LONGEST_TOKEN_FILE = 4096
_LONGEST_MESSAGE = 2000  # characters that are shown of what a service says
_UNREACHABLE = "unreachable"


def read_token(path: Path | None) -> str:
    """Return the token in a file, or that of the environment; it is never part of a message."""
    if path is None:
        text, where = os.environ.get(TOKEN_VARIABLE, ""), f"the variable {TOKEN_VARIABLE}"
        if not text.strip():
            raise UsageError(f"this needs a token: give --token-file, or set {TOKEN_VARIABLE}")
    else:
        where = path.name
        try:
            with path.open("rb") as file:
                text = file.read(_LONGEST_TOKEN_FILE + 1).decode("ascii", errors="replace")
        except OSError as error:
            raise UsageError(f"cannot read the token in {where}: {error.strerror or 'input or output error'}") from None
    token = text.strip()
    if not _TOKEN.fullmatch(token):
        raise UsageError(f"{where} holds no token: one line of letters, digits and signs is expected")
    return token


@dataclass(frozen=True, slots=True)
class Answer:
    """What a service answered when it agreed."""

    status: int
    content: bytes = field(repr=False)

    def document(self) -> Any:
        """Return the answer as JSON."""
        try:
            return read_json(self.content)
        except ValueError:
            raise InputError("the answer is no JSON: is this the address of an agency's service?") from None


@dataclass(frozen=True, slots=True)
class Address:
    """Where a service is, as far as a token may be sent there."""

    secure: bool
    host: str
    port: int | None
    path: str

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http{'s' if self.secure else ''}://{host}{'' if self.port is None else f':{self.port}'}{self.path}"

    @classmethod
    def of(cls, url: str, *, insecure: bool = False) -> Address:
        """Read a URL; plain http is refused to any other machine unless *insecure*.

        >>> Address.of("http://127.0.0.1:8321/").port
        8321
        """
        try:
            parts = urlsplit(url.strip())
            port, host = parts.port, parts.hostname
        except ValueError:
            host = None
        if host is None or parts.scheme not in ("http", "https") or not _PLACE.fullmatch(host + parts.path):
            raise UsageError("the address must be such as https://agency.example or http://127.0.0.1:8321")
        if parts.username is not None or parts.query or parts.fragment:
            raise UsageError(
                "the address must be without a user, a question mark and a number sign; tokens go elsewhere"
            )
        if parts.scheme == "http" and not insecure and not _is_loopback(host):
            raise UsageError(
                f"{host} is another machine, and over http everybody on the way could read the token; use https, or "
                "give --insecure if the way is protected otherwise"
            )
        return cls(parts.scheme == "https", host, port, parts.path.rstrip("/"))


def exchange(
    address: Address,
    token: str,
    method: str,
    path: str,
    body: Any = None,
    *,
    largest: int = LARGEST_ANSWER,
    patience: float = PATIENCE,
) -> Answer:
    """Send one request and return its answer; a refusal becomes an error that says what the service said."""
    headers = {"Authorization": f"Bearer {token}", "Accept": "application/json", "Connection": "close"}
    content = None
    if body is not None:
        content = json.dumps(body, ensure_ascii=True, allow_nan=False).encode("ascii")
        headers["Content-Type"] = "application/json"
    try:
        with closing(_connection(address, patience)) as connection:
            connection.connect()
            with _ending(connection.sock, 4 * patience):
                with suppress(BrokenPipeError, ConnectionResetError):  # who refuses early does not read on, but answers
                    connection.request(method, address.path + path, body=content, headers=headers)
                with connection.getresponse() as response:
                    answer = Answer(response.status, _read(response, largest))
    except (OSError, http.client.HTTPException) as error:
        raise _failure(address, error, patience) from None
    if 200 <= answer.status < 300:
        return answer
    raise _refusal(address, answer)


def plain(text: object, longest: int = _LONGEST_MESSAGE) -> str:
    """Return what another machine said as one line that no terminal takes for a command.

    >>> plain("done" + chr(27) + "[2J")
    'done?[2J'
    """
    line = "".join(sign if sign.isprintable() else " " if sign.isspace() else "?" for sign in str(text)[: longest + 1])
    return line if len(line) <= longest else f"{line[:longest]} ..."


def _connection(address: Address, patience: float) -> http.client.HTTPConnection:
    if address.secure:
        context = ssl.create_default_context()
        return http.client.HTTPSConnection(address.host, address.port, timeout=patience, context=context)
    return http.client.HTTPConnection(address.host, address.port, timeout=patience)


@contextmanager
def _ending(connected: socket.socket, seconds: float) -> Iterator[None]:
    """End an exchange that takes longer than this in all: who sends a byte now and then would never be too late."""
    late = threading.Event()

    def end() -> None:
        late.set()
        with suppress(OSError):
            socket.socket.shutdown(connected, socket.SHUT_RDWR)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    except (OSError, http.client.HTTPException):
        if not late.is_set():
            raise
    finally:
        timer.cancel()
    if late.is_set():
        raise TimeoutError


def _read(response: http.client.HTTPResponse, largest: int) -> bytes:
    pieces, size = [], 0
    while piece := response.read1(_PIECE):
        pieces.append(piece)
        size += len(piece)
        if size > largest:
            raise InputError(f"the answer is longer than {largest:,} bytes; this is not what an agency's service sends")
    if response.length:
        raise http.client.IncompleteRead(b"", response.length)
    return b"".join(pieces)


def _failure(address: Address, error: Exception, patience: float) -> ShoalError:
    if isinstance(error, ssl.SSLCertVerificationError):
        return UsageError(
            f"{address} shows a certificate that is not trusted here; if it is right, name its authority's file in the "
            "variable SSL_CERT_FILE"
        )
    if isinstance(error, ssl.SSLError):
        return UsageError(f"{address} does not speak TLS as expected; is it http?")
    if isinstance(error, socket.gaierror):
        return UsageError(f"there is no machine called {address.host}, or its name cannot be looked up now")
    if isinstance(error, ConnectionRefusedError):
        return InputError(f"nobody answers at {address}: is the service running there?")
    if isinstance(error, TimeoutError):
        return InputError(
            f"{address} did not answer within {patience:g} seconds; what was asked may be done all the same"
        )
    return InputError(f"the connection to {address} broke; what was asked may be done all the same")


def _refusal(address: Address, answer: Answer) -> ShoalError:
    """Return what the service said in its own words, with what to do where that is known."""
    try:
        told = answer.document()["error"]
        code, message = str(told["code"]), plain(told["message"]).rstrip(".")
    except (InputError, KeyError, TypeError):
        code, message = "", "it gives no reason that could be read; is this the address of an agency's service?"
    said = f"the agency at {address} says ({answer.status}): {message}"
    if answer.status == http.client.UNPROCESSABLE_ENTITY and code == _UNREACHABLE:
        return UnreachableError(said)
    if answer.status == http.client.UNAUTHORIZED:
        return UsageError(f"{said}; ask the agency for a token")
    if answer.status >= http.client.INTERNAL_SERVER_ERROR:
        return InputError(f"{said}; try again later")
    return UsageError(said)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
