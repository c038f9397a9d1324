"""The client of an agency's service.

Requests and answers are limited in size and time. A token is sent only over TLS or to this machine, and redirects are
not followed.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, urlencode, urlsplit

from shoal.core.documents import read_json
from shoal.core.errors import InputError, ShoalError, UnreachableError, UsageError
from shoal.release.release import write_bytes

if TYPE_CHECKING:
    from shoal.release.forms.agreed import AgreedPlan


TOKEN_VARIABLE = "SHOAL_AGENCY_TOKEN"  # noqa: S105 - a variable's name
LARGEST_ANSWER = 16 * 2**20  # bytes
PATIENCE = 30.0  # seconds for each step of an exchange
LARGEST_PLAN = 512 * 2**20  # bytes
PLANNING = 600.0  # seconds for a plan
_PAGE = 1000
_MOST_PAGES = 1000
_PART = re.compile(r"[A-Za-z0-9_-]{1,64}")
_TOKEN = re.compile(r"[\x21-\x7e]{8,512}")
_PLACE = re.compile(r"[A-Za-z0-9_.:~/-]*")
_LONGEST_TOKEN_FILE = 4096
_LONGEST_MESSAGE = 2000  # characters of a service's message
_UNREACHABLE = "unreachable"
_UNLIKE = "the answer is not what an agency's service sends; check the address and its version of shoal"


def read_token(path: Path | None) -> str:
    """Return the token from a file or the environment; no message contains it."""
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
        raise UsageError(f"{where} holds no token; a token is one line of letters, digits and signs")
    return token


def is_this_machine(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def read_address(url: str, *, insecure: bool = False) -> SplitResult:
    """Read the address of a service; plain http to another machine is refused unless *insecure*.

    >>> read_address("http://127.0.0.1:8321/").geturl()
    'http://127.0.0.1:8321'
    """
    try:
        parts = urlsplit(url.strip())
        _, host = parts.port, parts.hostname  # an invalid port raises
    except ValueError:
        host = None
    if host is None or parts.scheme not in ("http", "https") or not _PLACE.fullmatch(host + parts.path):
        raise UsageError("the address must be such as https://agency.example or http://127.0.0.1:8321")
    if parts.username is not None or parts.query or parts.fragment:
        raise UsageError("the address must not have a user, a query or a fragment; give the token with --token-file")
    if parts.scheme == "http" and not insecure and not is_this_machine(host):
        raise UsageError(
            f"{host} is another machine, and over http the token could be read on the way; use https, or --insecure "
            "if the connection is protected otherwise"
        )
    return parts._replace(path=parts.path.rstrip("/"))


def exchange(
    address: SplitResult,
    token: str,
    method: str,
    path: str,
    body: Any = None,
    *,
    largest: int = LARGEST_ANSWER,
    patience: float = PATIENCE,
) -> bytes:
    """Send one request and return the answer; a refusal raises an error with the service's message."""
    import httpx

    where = address.geturl()
    headers = {"Authorization": f"Bearer {token}", "Accept": "application/json", "Accept-Encoding": "identity"}
    content = None
    if body is not None:
        content = json.dumps(body, ensure_ascii=True, allow_nan=False).encode("ascii")
        headers["Content-Type"] = "application/json"

    async def send() -> tuple[int, bytes]:
        # Single bytes at intervals would never exceed a timeout, so the whole exchange has a limit too.
        async with (
            asyncio.timeout(4 * patience),
            httpx.AsyncClient(timeout=patience, verify=ssl.create_default_context(), trust_env=False) as client,
            client.stream(method, where + path, content=content, headers=headers) as response,
        ):
            answer = bytearray()
            async for piece in response.aiter_raw():
                answer += piece
                if len(answer) > largest:
                    raise InputError(f"the answer is longer than {largest:,} bytes; check the address of the service")
            return response.status_code, bytes(answer)

    try:
        status, answer = asyncio.run(send())
    except (TimeoutError, httpx.TimeoutException):
        raise InputError(
            f"{where} did not answer within {patience:g} seconds; the request may have been carried out nevertheless"
        ) from None
    except httpx.ConnectError as error:
        raise _explain(where, str(error)) from None
    except httpx.HTTPError:
        raise InputError(
            f"the connection to {where} broke; the request may have been carried out nevertheless"
        ) from None
    if not 200 <= status < 300:
        raise _refusal(where, status, answer)
    return answer


def _explain(where: str, error: str) -> ShoalError:
    if "CERTIFICATE_VERIFY_FAILED" in error:
        return UsageError(
            f"{where} has a certificate that is not trusted here; if it is correct, set SSL_CERT_FILE to the file of "
            "its authority"
        )
    if "SSL" in error:
        return UsageError(f"{where} does not speak TLS; is it http?")
    return InputError(f"no service answers at {where}; check the address, and that the service is running")


class Answer(dict[str, Any]):
    """A JSON object of the service; a missing key is an error."""

    @classmethod
    def of(cls, found: Any) -> Answer:
        if not isinstance(found, dict):
            raise InputError(_UNLIKE)
        return cls(found)

    def __missing__(self, key: str) -> Any:
        raise InputError(_UNLIKE)


def read_answer(answer: bytes) -> Answer:
    try:
        return Answer.of(read_json(answer))
    except ValueError:
        raise InputError("the answer is not JSON; check the address of the agency's service") from None


def make_printable(text: object, longest: int = _LONGEST_MESSAGE) -> str:
    """Return text of another machine as one line without control characters.

    >>> make_printable("done" + chr(27) + "[2J")
    'done?[2J'
    """
    line = "".join(sign if sign.isprintable() else " " if sign.isspace() else "?" for sign in str(text)[: longest + 1])
    return line if len(line) <= longest else f"{line[:longest]} ..."


def _refusal(where: str, status: int, answer: bytes) -> ShoalError:
    """Return an error with the service's message, and with advice if there is some."""
    try:
        error = read_answer(answer)["error"]
        code, message = str(error["code"]), make_printable(error["message"]).rstrip(".")
    except (InputError, KeyError, TypeError):
        code, message = "", "no readable reason; check the address of the agency's service"
    said = f"the agency at {where} says ({status}): {message}"
    if status == 422 and code == _UNREACHABLE:
        return UnreachableError(said)
    if status == 401:
        return UsageError(said if code == "expired" else f"{said}; ask the agency for a token")
    return InputError(f"{said}; try again later") if status >= 500 else UsageError(said)


@dataclass(frozen=True, slots=True)
class AgencyClient:
    """A client for one service and one token; every refusal raises an error with the service's message."""

    address: SplitResult
    token: str = field(repr=False)
    patience: float = PATIENCE

    @classmethod
    def at(cls, url: str, token: str, *, insecure: bool = False) -> AgencyClient:
        """Return a client for a URL; plain http only to this machine, unless *insecure*."""
        return cls(read_address(url, insecure=insecure), token)

    def fetch(self, campaign: str, path: Path) -> AgreedPlan:
        """Check a campaign's plan and write it to a new file (owner, agency)."""
        from shoal.release.forms.agreed import parse_plan

        if path.exists() or path.is_symlink():
            raise UsageError(f"{path} exists already; choose another file or remove it first")
        place = make_path("campaigns", campaign, "plan")
        content = exchange(self.address, self.token, "GET", place, largest=LARGEST_PLAN, patience=self.patience)
        plan = parse_plan(content, f"the plan of campaign {campaign}")
        write_bytes(path, content)
        return plan

    def ask(
        self,
        method: str,
        *path: str,
        body: Any = None,
        query: Mapping[str, Any] | None = None,
        patience: float | None = None,
    ) -> Answer:
        place = make_path(*path) + (f"?{urlencode(query)}" if query else "")
        return read_answer(exchange(self.address, self.token, method, place, body, patience=patience or self.patience))

    def list(self, *path: str) -> list[Answer]:
        """Return all entries of a paged list."""
        entries: list[Answer] = []
        after = 0
        for _ in range(_MOST_PAGES):
            page = self.ask("GET", *path, query={"after": after, "limit": _PAGE})
            if not isinstance(page["items"], list):
                raise InputError(_UNLIKE)
            entries.extend(map(Answer.of, page["items"]))
            if page["next"] is None:
                return entries
            if type(page["next"]) is not int or page["next"] <= after:
                raise InputError(_UNLIKE)
            after = page["next"]
        raise InputError(f"the agency's list has more than {_MOST_PAGES * _PAGE:,} entries, the most that shoal reads")


def make_path(*parts: str) -> str:
    """Return the path of these parts, none of which can contain a slash or a dot."""
    if not all(map(_PART.fullmatch, parts)):
        raise UsageError("a campaign is named by its number; `shoal agency campaigns` lists the numbers")
    return "/".join(("/v1", *parts))
