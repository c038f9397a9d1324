"""The studio behind its gate, served to one person on this machine.

The token of the link becomes a cookie; Host and Origin must be the announced address.
"""

from __future__ import annotations

import atexit
import contextlib
import hmac
import logging
import os
import secrets
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shoal.core.errors import UsageError, locate_failure
from shoal.studio.answers import SWAP, page_modules, render
from shoal.studio.reading import Reading
from shoal.studio.studio import HOME, PrivateFolder, Studio

_HOST = "127.0.0.1"
_PATIENCE = 2  # seconds for requests in progress at the end
_SAID = {
    400: "The request could not be understood.",
    404: "This page does not exist. The table may have been closed, or the studio restarted.",
    405: "The studio does not support this kind of request.",
}


def create_app(studio: Studio, key: Key, address: str, landing: str = "/") -> Starlette:
    """Return the application behind its gate; a valid link of the *key* leads to *landing*."""
    routes: list[BaseRoute] = [route for module in page_modules() for route in getattr(module, "routes", [])]
    routes.append(Mount("/static", StaticFiles(directory=HOME / "static")))
    app = Starlette(routes=routes, exception_handlers={HTTPException: _refuse})
    app.router.redirect_slashes = False
    app.state.studio = studio

    def pages(scope: Scope) -> Pages:
        request = Request({**scope, "app": app})
        return lambda status, message: (
            render(request, "enter.html", landing=landing) if status == 200 else _page(request, status, message)
        )

    app.add_middleware(Gate, key=key, address=address, pages=pages)
    return app


async def _refuse(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    return _page(request, status, _SAID.get(status, "The studio cannot answer that."))


def _page(request: Request, status: int, message: str) -> Response:
    template = "notice.html" if SWAP in request.headers else "problem.html"
    return render(request, template, status, message=message, title="Not possible")


class Entrance:
    """Links into a running studio."""

    def __init__(self, address: str, key: Key, folder: Path) -> None:
        self._address, self._key, self._folder = address, key, folder

    def link(self) -> str:
        """Return a link that works once; it replaces earlier links."""
        return f"http://{self._address}/?token={self._key.renew()}"

    def file(self, link: str) -> Path:
        """Write a private page that redirects to a link, because command lines of browsers are public."""
        path = self._folder / "enter.html"
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(f'<!doctype html><title>shoal studio</title><meta http-equiv="refresh" content="0;url={link}">')
        return path


def serve(port: int, table: Path | None, announce: Callable[[Entrance], None]) -> None:
    """Serve on loopback until SIGINT, SIGTERM or SIGHUP; *announce* is called once connections are accepted."""
    import uvicorn

    for name in ("uvicorn.error", "asyncio"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)  # a traceback may quote a record
    try:
        listening = socket.create_server((_HOST, port))
    except OSError as error:
        raise UsageError(f"cannot listen on {_HOST} port {port}: {error.strerror}; choose another --port") from None
    address = f"{_HOST}:{listening.getsockname()[1]}"
    key = Key()

    with listening, PrivateFolder() as private:
        atexit.register(private.remove)
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            signal.signal(signal.SIGHUP, lambda *_: signal.raise_signal(signal.SIGTERM))
        studio = Studio(private)
        try:
            landing = "/"
            if table is not None:
                project = studio.open(Reading(table.name, table.absolute()), studio.new_folder())
                landing = f"/projects/{project.id}/columns"
            config = uvicorn.Config(
                create_app(studio, key, address, landing),
                http="h11",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                ws="none",
                lifespan="off",
                timeout_graceful_shutdown=_PATIENCE,
            )
            announce(Entrance(address, key, private.path))
            with contextlib.suppress(KeyboardInterrupt):  # uvicorn raises the signal again after it has stopped
                uvicorn.Server(config).run(sockets=[listening])
        finally:
            studio.close()


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
    "This studio is open only to the browser that used its link. The link works once; press Enter in the terminal of "
    "shoal studio for a new one."
)
_WRONG = "The studio failed at this request. Your table and policy are unchanged; try again."

Pages = Callable[[int, str], Response]  # by status and message; 200 is the entrance


class Key:
    """The URL's token, which works once, and its cookie, which works until the studio ends."""

    def __init__(self) -> None:
        self.token: str | None = None
        self.renew()
        self.cookie = secrets.token_urlsafe(32)

    def renew(self) -> str:
        """Return a new token; an unused earlier one becomes invalid."""
        self.token = secrets.token_urlsafe(32)
        return self.token

    def redeem(self, token: str) -> bool:
        """Return whether the token is right, and invalidate it."""
        known = self.token
        right = known is not None and hmac.compare_digest(known.encode(), token.encode())
        if right:
            self.token = None
        return right

    def opens(self, cookie: str) -> bool:
        return hmac.compare_digest(self.cookie.encode(), cookie.encode())


class Gate:
    """Admits only requests to the announced address, from the browser with the key and the studio's own pages."""

    def __init__(self, app: ASGIApp, key: Key, address: str, pages: Callable[[Scope], Pages]) -> None:
        self._app, self._key, self._address, self._pages = app, key, address, pages

    @property
    def cookie_name(self) -> str:
        """Cookies are shared between ports, so the name contains the port: two studios can run at a time."""
        return f"shoal-studio-{self._address.rpartition(':')[2]}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        started = False

        async def strictly(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                headers = MutableHeaders(scope=message)
                if "content-security-policy" not in headers:
                    headers.update({"content-security-policy": POLICY, "x-frame-options": "DENY"})
                headers.update(HEADERS)
            await send(message)

        pages = self._pages(scope)
        try:
            answer = self._answer(scope, pages)
            await (answer or self._app)(scope, receive, strictly)
        except Exception as error:  # noqa: BLE001 - the message may quote a record, so only kind and place are logged
            _log.error("a request failed: %s", locate_failure(error))
            if not started:
                await pages(500, _WRONG)(scope, receive, strictly)

    def _answer(self, scope: Scope, pages: Pages) -> Response | None:
        """Return the gate's own answer, or None to admit the request."""
        headers, method = Headers(scope=scope), scope["method"]
        if len(scope["headers"]) > MOST_HEADERS:
            return pages(431, "The request has too many headers.")
        if headers.getlist("host") != [self._address]:
            return pages(421, "The studio answers only at the address that it announced.")
        if method not in _METHODS:
            return pages(405, _SAID[405])
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
        length, most = headers.get("content-length", "0"), MOST_UPLOAD if method == "PUT" else MOST_FORM
        if "transfer-encoding" in headers:
            return pages(411, "The request must state the length of its body.")
        if not (length.isascii() and length.isdigit() and len(length) < 20 and int(length) <= most):
            return pages(413, "The request is larger than the studio accepts.")
        return None

    def _welcome(self, pages: Pages) -> Response:
        """Set the cookie with a page that redirects; an HTTP redirect would count as coming from a foreign site."""
        answer = pages(200, "Come in")
        answer.set_cookie(self.cookie_name, self._key.cookie, path="/", httponly=True, samesite="strict")
        return answer


def _cookies(headers: Headers, name: str) -> list[str]:
    """Return all cookies of that name; other programs on this machine may set odd or duplicate cookies."""
    pairs = [part.strip().partition("=") for line in headers.getlist("cookie") for part in line.split(";")]
    return [value for key, _, value in pairs if key == name]
