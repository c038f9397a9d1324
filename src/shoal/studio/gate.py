"""The gate of the studio: who may come in, how much they may bring, and strict headers on every answer."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shoal.studio.peers import Own

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
            await (answer or self._app)(scope, _bounded(receive, _most(scope)), strictly)
        except TooLargeError:
            if not started:
                await pages(413, _TOO_LARGE)(scope, receive, strictly)
        except Exception:  # noqa: BLE001 - its message may quote a record, so none is shown or logged
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


def _bounded(receive: Receive, most: int) -> Receive:
    """Return a way to receive that stops a body longer than *most*, whatever its headers said."""
    left = most

    async def counted() -> Message:
        nonlocal left
        message = await receive()
        left -= len(message.get("body", b""))
        if left < 0:
            raise TooLargeError
        return message

    return counted
