"""The studio put together behind its gate, and served to one person on this machine until they stop it.

Everything it kept is gone then. The link's token becomes a cookie; Host and Origin must be the announced address.
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
_PATIENCE = 2  # seconds for requests under way at the end
_SAID = {
    400: "The request could not be understood.",
    404: "There is no such page. Perhaps the table was closed, or the studio was started anew.",
    405: "The studio does not know this kind of request.",
}


def create_app(studio: Studio, key: Key, address: str, landing: str = "/") -> Starlette:
    """Return the application behind its gate; who comes in by the link of the *key* is led to *landing*."""
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
    """The way into a running studio."""

    def __init__(self, address: str, key: Key, folder: Path) -> None:
        self._address, self._key, self._folder = address, key, folder

    def link(self) -> str:
        """Return a link that works once; links from before do not work any more."""
        return f"http://{self._address}/?token={self._key.renew()}"

    def file(self, link: str) -> Path:
        """Write a private page that leads to a link: everybody may see what a browser is started with."""
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
    listening = _listen(port)
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
            with contextlib.suppress(KeyboardInterrupt):  # the signal again, once the server has stopped
                uvicorn.Server(config).run(sockets=[listening])
        finally:
            studio.close()


def _listen(port: int) -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((_HOST, port))
        made.listen()
    except OSError as error:
        made.close()
        raise UsageError(f"cannot listen on {_HOST} port {port}: {error.strerror}; choose another --port") from None
    return made


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
        return hmac.compare_digest(self.cookie.encode(), cookie.encode())


class Gate:
    """Lets in requests to the announced address, of the browser that has the key, from pages of the studio itself."""

    def __init__(self, app: ASGIApp, key: Key, address: str, pages: Callable[[Scope], Pages]) -> None:
        """Guard *app*; *address* is the announced host with its port, *pages* makes what the gate itself shows."""
        self._app, self._key, self._address, self._pages = app, key, address, pages

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
                headers = MutableHeaders(scope=message)
                if "content-security-policy" not in headers:
                    headers.update({"content-security-policy": POLICY, "x-frame-options": "DENY"})
                headers.update(HEADERS)
            await send(message)

        pages = self._pages(scope)
        try:
            answer = self._answer(scope, pages)
            await (answer or self._app)(scope, receive, strictly)
        except Exception as error:  # noqa: BLE001 - its message may quote a record, so only its kind and place are logged
            _log.error("a request failed: %s", locate_failure(error))
            if not started:
                await pages(500, _WRONG)(scope, receive, strictly)

    def _answer(self, scope: Scope, pages: Pages) -> Response | None:
        """Return the answer that the gate gives itself, or None to let the request in."""
        headers, method = Headers(scope=scope), scope["method"]
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
        length, most = headers.get("content-length", "0"), MOST_UPLOAD if method == "PUT" else MOST_FORM
        if "transfer-encoding" in headers:  # the server sees to it that a body has the length that its head says
            return pages(411, "The request does not say how long its body is.")
        if not (length.isascii() and length.isdigit() and len(length) < 20 and int(length) <= most):
            return pages(413, _TOO_LARGE)
        return None

    def _welcome(self, pages: Pages) -> Response:
        """Give the cookie with a page that leads on: a redirection would still come from where the link was."""
        answer = pages(200, "Come in")
        answer.set_cookie(self.cookie_name, self._key.cookie, path="/", httponly=True, samesite="strict")
        return answer


def _cookies(headers: Headers, name: str) -> list[str]:
    """Return every cookie of that name: others on this machine may set some, odd ones and some of the same name."""
    pairs = [part.strip().partition("=") for line in headers.getlist("cookie") for part in line.split(";")]
    return [value for key, _, value in pairs if key == name]
