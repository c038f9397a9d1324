"""The gate of the studio: who may come in, how much they may bring, and strict headers on every answer.

Browsers send cookies to every port of a host, so a service of somebody else on this machine can learn the studio's.
Who holds a socket cannot be copied: where the system says whose program is at the other end, it is asked.
"""

from __future__ import annotations

import hmac
import logging
import os
import secrets
import socket
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shoal.core.errors import locate_failure

_log = logging.getLogger("shoal.studio")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; connect-src 'self'; "
    "frame-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = {
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "referrer-policy": "same-origin",  # with no-referrer browsers send forms with the Origin null
    "x-content-type-options": "nosniff",
}
MOST_HEADERS = 64
MOST_FORM = 8 << 20
MOST_UPLOAD = 64 << 30
_READING = frozenset({"GET", "HEAD"})
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT"})
_OWN = frozenset({"same-origin", "none"})
_FOREIGN = "Another page sent this request. Open the studio from its own address."
_CLOSED = (
    "This studio is open only to the browser that used its link. The link works once; press Enter where shoal studio "
    "runs for another."
)
_STRANGER = "This studio is open only to programs of the user who started it."
_TOO_LARGE = "That is more than the studio takes."
_WRONG = "Something went wrong within the studio. Your table and policy are as they were; try again."

Address = tuple[str, int]
Own = Callable[[Address, Address], bool]  # of the other end and of this one

_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_MAPPED = "0000000000000000FFFF0000"  # before an address of IPv4 in the table of IPv6
_ROOT = 0  # may do everything anyway, and carries connections that come from other systems into this one
Pages = Callable[[int, str], Response]  # of a status and a message; 200 is the way in


class Key:
    """The token of the URL, which works once, and the cookie it becomes, which works until the studio ends."""

    def __init__(self) -> None:
        """Make both from the randomness of the operating system."""
        self.token: str | None = None
        self.renew()
        self.cookie = secrets.token_urlsafe(32)

    def renew(self) -> str:
        """Return another token; one that was not used is worth nothing from now on."""
        self.token = secrets.token_urlsafe(32)
        return self.token

    def redeem(self, token: str) -> bool:
        """Whether the token is right; it is worth nothing afterwards."""
        known = self.token
        right = known is not None and hmac.compare_digest(known.encode(), token.encode())
        if right:
            self.token = None
        return right

    def opens(self, cookie: str) -> bool:
        """Whether the cookie is right."""
        return hmac.compare_digest(self.cookie.encode(), cookie.encode())


class TooLargeError(Exception):
    """A body is larger than it may be."""


class Gate:
    """Lets in requests to the announced address, of the browser that has the key, from pages of the studio itself.

    Where the system tells whose a connection is, those of other users stay outside even with the key.
    """

    def __init__(
        self, app: ASGIApp, key: Key, address: str, pages: Callable[[Scope], Pages], own: Own | None = None
    ) -> None:
        """Guard *app*; *address* is the announced host with its port, *pages* makes what the gate itself shows."""
        self._app, self._key, self._address, self._pages, self._own = app, key, address, pages, own

    @property
    def cookie_name(self) -> str:
        """Cookies are not told apart by port, so the name has it: two studios can run at once."""
        return f"shoal-studio-{self._address.rpartition(':')[2]}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, strictly."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        started = False

        async def strictly(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                _add_headers(MutableHeaders(scope=message))
            await send(message)

        pages = self._pages(scope)
        try:
            answer = self._answer(scope, pages)
            await (answer or self._app)(scope, _limit_body(receive, _most(scope)), strictly)
        except TooLargeError:
            if not started:
                await pages(413, _TOO_LARGE)(scope, receive, strictly)
        except Exception as error:  # noqa: BLE001 - its message may quote a record, so only its kind and place are logged
            _log.error("a request failed: %s", locate_failure(error))
            if not started:
                await pages(500, _WRONG)(scope, receive, strictly)

    def _answer(self, scope: Scope, pages: Pages) -> Response | None:
        """Return the answer that the gate gives itself, or None to let the request in."""
        headers, method = Headers(scope=scope), scope["method"]
        if self._own is not None and not self._own(scope["client"], scope["server"]):
            return pages(403, _STRANGER)
        if len(scope["headers"]) > MOST_HEADERS:
            return pages(431, "The request has too many headers.")
        if headers.getlist("host") != [self._address]:
            return pages(421, "The studio answers only under the address that it announced.")
        if method not in _METHODS:
            return pages(405, "The studio does not know this kind of request.")
        entered = any(map(self._key.opens, _cookies(headers, self.cookie_name)))
        token = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if token and scope["path"] == "/" and method == "GET" and (entered or self._key.redeem(token)):
            return self._welcome(pages)
        if headers.get("sec-fetch-site", "none") not in _OWN:
            return pages(403, _FOREIGN)
        if method not in _READING and headers.getlist("origin") != [f"http://{self._address}"]:
            return pages(403, _FOREIGN)
        if not entered:
            return pages(403, _CLOSED)
        length = headers.get("content-length", "0")
        if not (length.isascii() and length.isdigit() and len(length) < 20 and int(length) <= _most(scope)):
            return pages(413, _TOO_LARGE)
        return None

    def _welcome(self, pages: Pages) -> Response:
        """Give the cookie with a page that leads on: a redirection would still come from where the link was."""
        answer = pages(200, "Come in")
        answer.set_cookie(self.cookie_name, self._key.cookie, path="/", httponly=True, samesite="strict")
        return answer


def _add_headers(headers: MutableHeaders) -> None:
    if "content-security-policy" not in headers:
        headers["content-security-policy"] = POLICY
        headers["x-frame-options"] = "DENY"
    for name, value in HEADERS.items():
        headers[name] = value


def _cookies(headers: Headers, name: str) -> list[str]:
    """Return every cookie of that name: others on this machine may set some, odd ones and some of the same name."""
    pairs = [part.strip().partition("=") for line in headers.getlist("cookie") for part in line.split(";")]
    return [value for key, _, value in pairs if key == name]


def _most(scope: Scope) -> int:
    return MOST_UPLOAD if scope["method"] == "PUT" else MOST_FORM


def _limit_body(receive: Receive, most: int) -> Receive:
    """Return a way to receive that stops a body longer than *most*, whatever its headers said."""
    left = most

    async def count() -> Message:
        nonlocal left
        message = await receive()
        left -= len(message.get("body", b""))
        if left < 0:
            raise TooLargeError
        return message

    return count


def find_own_peers() -> Own | None:
    """Return what tells whether a connection comes from the user of this process; None where no system says so."""
    if not os.access(_TABLES[0], os.R_OK):
        return None
    users = {_ROOT, os.geteuid()}
    if os.geteuid() == _ROOT and os.environ.get("SUDO_UID", "").isdigit():
        users.add(int(os.environ["SUDO_UID"]))
    return lambda there, here: _owner(there, here) in users


def _owner(there: Address, here: Address) -> int | None:
    for table in _TABLES:
        try:
            lines = table.read_text(encoding="ascii").splitlines()[1:]
        except OSError:
            continue
        found = owner_in(lines, there, here)
        if found is not None:
            return found
    return None


def owner_in(lines: Iterable[str], there: Address, here: Address) -> int | None:
    """Return the user who holds the other end by lines of the system's table; None if nobody does, or does any more.

    >>> line = "1: 0100007F:A1A5 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1000        0 23456 1"
    >>> owner_in([line], ("127.0.0.1", 0xA1A5), ("127.0.0.1", 8080))
    1000
    """
    wanted = [_format_address(there), _format_address(here)]
    for line in lines:
        words = line.split()
        if [word.removeprefix(_MAPPED) for word in words[1:3]] == wanted:
            user, file = words[7], words[9]
            return None if file == "0" else int(user)  # without a file the table says root, whoever it was
    return None


def _format_address(address: Address) -> str:
    """Return an address as the table has it: a number in the machine's order of bytes, and the port."""
    return f"{int.from_bytes(socket.inet_aton(address[0]), sys.byteorder):08X}:{address[1]:04X}"
