"""An agency's service as data owners, clients and staff use it: one method per question.

Requests and answers are bounded in size and time. A token is sent over TLS, or in plain text to this very machine;
redirects are not followed, so it goes nowhere else.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode, urlsplit

from shoal.core.documents import read_json
from shoal.core.errors import InputError, ShoalError, UnreachableError, UsageError
from shoal.release.release import write_bytes

if TYPE_CHECKING:
    from shoal.release.forms.agreed import AgreedPlan


TOKEN_VARIABLE = "SHOAL_AGENCY_TOKEN"  # noqa: S105 - the name of a variable, not a token
LARGEST_ANSWER = 16 * 2**20  # bytes
PATIENCE = 30.0  # seconds for any step of an exchange
LARGEST_PLAN = 512 * 2**20  # bytes
PLANNING = 600.0  # seconds that a plan may take
_PAGE = 1000
_REPORT = ("records", "needed", "missing", "enough")
_MOST_PAGES = 1000
_CAMPAIGN = re.compile(r"[A-Za-z0-9_-]{1,64}")
_TOKEN = re.compile(r"[\x21-\x7e]{8,512}")
_PLACE = re.compile(r"[A-Za-z0-9_.:~/-]*")
_PIECE = 2**16
_LONGEST_TOKEN_FILE = 4096
_LONGEST_MESSAGE = 2000  # characters that are shown of what a service says
_UNREACHABLE = "unreachable"
_UNLIKE = "the answer is not what an agency's service says: is the address right, and its version of shoal the same?"


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


def is_this_machine(host: str) -> bool:
    """Whether a host is this very machine, to which nobody else listens."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


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
        if parts.scheme == "http" and not insecure and not is_this_machine(host):
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
) -> bytes:
    """Send one request and return its answer; a refusal becomes an error that says what the service said."""
    headers = {"Authorization": f"Bearer {token}", "Accept": "application/json", "Connection": "close"}
    content = None
    if body is not None:
        content = json.dumps(body, ensure_ascii=True, allow_nan=False).encode("ascii")
        headers["Content-Type"] = "application/json"
    connection = http.client.HTTPConnection(address.host, address.port, timeout=patience)
    if address.secure:
        context = ssl.create_default_context()
        connection = http.client.HTTPSConnection(address.host, address.port, timeout=patience, context=context)
    try:
        with closing(connection):
            connection.connect()
            with _deadline(connection.sock, 4 * patience):
                with suppress(BrokenPipeError, ConnectionResetError):  # who refuses early does not read on, but answers
                    connection.request(method, address.path + path, body=content, headers=headers)
                with connection.getresponse() as response:
                    status, answer = response.status, _read(response, largest)
    except (OSError, http.client.HTTPException) as error:
        raise _failure(address, error, patience) from None
    if not 200 <= status < 300:
        raise _refusal(address, status, answer)
    return answer


def read_answer(answer: bytes, keys: tuple[str, ...] = ()) -> dict[str, Any]:
    """Read an answer as JSON that has what it must have."""
    try:
        found = read_json(answer)
    except ValueError:
        raise InputError("the answer is no JSON: is this the address of an agency's service?") from None
    return _demand_keys(found, keys)


def _demand_keys(found: Any, keys: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(found, dict) or any(key not in found for key in keys):
        raise InputError(_UNLIKE)
    return found


def make_printable(text: object, longest: int = _LONGEST_MESSAGE) -> str:
    """Return what another machine said as one line that no terminal takes for a command.

    >>> make_printable("done" + chr(27) + "[2J")
    'done?[2J'
    """
    line = "".join(sign if sign.isprintable() else " " if sign.isspace() else "?" for sign in str(text)[: longest + 1])
    return line if len(line) <= longest else f"{line[:longest]} ..."


@contextmanager
def _deadline(connected: socket.socket, seconds: float) -> Iterator[None]:
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


def _refusal(address: Address, status: int, answer: bytes) -> ShoalError:
    """Return what the service said in its own words, with what to do where that is known."""
    try:
        error = read_answer(answer)["error"]
        code, message = str(error["code"]), make_printable(error["message"]).rstrip(".")
    except (InputError, KeyError, TypeError):
        code, message = "", "it gives no reason that could be read; is this the address of an agency's service?"
    said = f"the agency at {address} says ({status}): {message}"
    if status == http.client.UNPROCESSABLE_ENTITY and code == _UNREACHABLE:
        return UnreachableError(said)
    if status == http.client.UNAUTHORIZED:
        return UsageError(said if code == "expired" else f"{said}; ask the agency for a token")
    return InputError(f"{said}; try again later") if status >= http.client.INTERNAL_SERVER_ERROR else UsageError(said)


@dataclass(frozen=True, slots=True)
class AgencyClient:
    """Asks one service with one token; every refusal is an error in the service's own words."""

    address: Address
    token: str = field(repr=False)
    patience: float = PATIENCE

    @classmethod
    def at(cls, url: str, token: str, *, insecure: bool = False) -> AgencyClient:
        """Return a client for a URL; plain http only to this machine, unless *insecure*."""
        return cls(Address.of(url, insecure=insecure), token)

    def campaigns(self) -> list[dict[str, Any]]:
        """Return all campaigns."""
        return self._list("/v1/campaigns", ("id", "name", "state", "promise", "l", "k", "delta"))

    def campaign(self, campaign: str) -> dict[str, Any]:
        """Return one campaign with its domain."""
        return self._ask("GET", _path_of(campaign), keys=("id", "name", "state", "domain"))

    def open_campaign(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Create a campaign (agency)."""
        return self._ask("POST", "/v1/campaigns", body, keys=("id",))

    def distribute(self, campaign: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Give a campaign its distribution (agency)."""
        return self._ask("PUT", f"{_path_of(campaign)}/distribution", body)

    def move(self, campaign: str, state: str) -> dict[str, Any]:
        """Move a campaign to a later state (agency)."""
        return self._ask("POST", f"{_path_of(campaign)}/state", {"state": state})

    def contribute(self, campaign: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Give this owner's counts, in place of earlier ones (owner)."""
        return self._ask("PUT", f"{_path_of(campaign)}/counts", body)

    def contributions(self, campaign: str) -> list[dict[str, Any]]:
        """Return who contributed how many records (agency)."""
        return self._list(f"{_path_of(campaign)}/counts", ("owner", "records"))

    def settle(self, campaign: str, *, p: float | None = None, samples: int | None = None) -> dict[str, Any]:
        """Have the plan made, once and for all (agency)."""
        return self._ask(
            "POST",
            f"{_path_of(campaign)}/plan",
            {"p": p, "samples": samples},
            keys=("classes", "records", "digest"),
            patience=PLANNING,
        )

    def fetch(self, campaign: str, path: Path) -> AgreedPlan:
        """Write the plan to a new file, if its digest and all it says of itself are right (owner, agency)."""
        from shoal.release.forms.agreed import parse_plan  # which brings all of planning along

        if path.exists() or path.is_symlink():
            raise UsageError(f"{path} exists already; choose another file or remove it first")
        place = f"{_path_of(campaign)}/plan"
        content = exchange(self.address, self.token, "GET", place, largest=LARGEST_PLAN, patience=self.patience)
        plan = parse_plan(content, f"the plan of campaign {campaign}")
        write_bytes(path, content)
        return plan

    def report(self, campaign: str, records: int) -> dict[str, Any]:
        """Tell how many records this owner has (owner)."""
        return self._ask("PUT", f"{_path_of(campaign)}/records", {"records": records}, keys=_REPORT)

    def reports(self, campaign: str) -> list[dict[str, Any]]:
        """Return who has how many records (agency)."""
        return self._list(f"{_path_of(campaign)}/records", ("owner", *_REPORT))

    def register(self, campaign: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Register a release by its manifest, digests and counts (owner)."""
        return self._ask("POST", f"{_path_of(campaign)}/releases", body, keys=("id", "basis"))

    def releases(self, campaign: str) -> list[dict[str, Any]]:
        """Return the releases that are registered."""
        return self._list(f"{_path_of(campaign)}/releases", ("id", "owner", "rows", "basis", "at"))

    def guarantee(self, campaign: str, releases: int | None = None) -> dict[str, Any]:
        """Return what holds for any so many releases together; without a number, for all registered."""
        query = "" if releases is None else f"?{urlencode({'releases': releases})}"
        return self._ask("GET", f"{_path_of(campaign)}/guarantee{query}", keys=("statement",))

    def link(self, campaign: str, target: Mapping[str, str]) -> dict[str, Any]:
        """Return what the releases with counts leave together of somebody whose quasi values are known."""
        keys = ("number", "checked", "declared", "l", "remaining", "statement")
        return self._ask("POST", f"{_path_of(campaign)}/linkage", {"target": dict(target)}, keys=keys)

    def request(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Ask for releases (client)."""
        return self._ask("POST", "/v1/requests", body, keys=("id", "state"))

    def requests(self) -> list[dict[str, Any]]:
        """Return requests and what was decided; a client sees its own."""
        return self._list("/v1/requests", ("id", "client", "campaign", "state", "purpose", "reason"))

    def decide(self, request: int, body: Mapping[str, Any]) -> dict[str, Any]:
        """Approve or refuse a request (agency)."""
        return self._ask("POST", f"/v1/requests/{request}/decision", body, keys=("client", "state"))

    def _ask(
        self, method: str, path: str, body: Any = None, *, keys: tuple[str, ...] = (), patience: float | None = None
    ) -> dict[str, Any]:
        answer = exchange(self.address, self.token, method, path, body, patience=patience or self.patience)
        return read_answer(answer, keys)

    def _list(self, path: str, keys: tuple[str, ...]) -> list[dict[str, Any]]:
        """Return all entries of a list that comes in pages."""
        entries: list[dict[str, Any]] = []
        after = 0
        for _ in range(_MOST_PAGES):
            page = self._ask("GET", f"{path}?{urlencode({'after': after, 'limit': _PAGE})}", keys=("items", "next"))
            if not isinstance(page["items"], list):
                raise InputError(_UNLIKE)
            entries.extend(_demand_keys(entry, keys) for entry in page["items"])
            if page["next"] is None:
                return entries
            if type(page["next"]) is not int or page["next"] <= after:
                raise InputError(_UNLIKE)
            after = page["next"]
        raise InputError(f"the agency's list has more than {_MOST_PAGES * _PAGE:,} entries; shoal reads no further")


def _path_of(campaign: str) -> str:
    if not _CAMPAIGN.fullmatch(campaign):
        raise UsageError("a campaign is named by its number, as `shoal agency campaigns` lists it")
    return f"/v1/campaigns/{quote(campaign)}"
