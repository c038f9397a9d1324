"""The studio put together, and served to one person on this machine until they stop it.

Everything it kept is gone then.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import logging
import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from shoal.core.errors import UsageError
from shoal.studio.answers import SWAP, page_modules, render
from shoal.studio.gate import Gate, Key, Own, Pages, find_own_peers
from shoal.studio.reading import Reading
from shoal.studio.studio import HOME, PrivateFolder, Studio

_HOST = "127.0.0.1"
_MOST_LINES = 100  # connections of anybody; a browser has some
_PATIENCE = 2  # seconds for requests under way at the end
_SAID = {
    400: "The request could not be understood.",
    404: "There is no such page. Perhaps the table was closed, or the studio was started anew.",
    405: "The studio does not know this kind of request.",
}


def create_app(studio: Studio, key: Key, address: str, landing: str = "/", own: Own | None = None) -> Starlette:
    """Return the application behind its gate; who comes in by the link of the *key* is led to *landing*.

    *own* tells whether a connection is one of the studio's user, where that is known.
    """
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

    app.add_middleware(Gate, key=key, address=address, pages=pages, own=own)
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
        """Lead to the studio that serves under this address."""
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
    """Serve on loopback until SIGINT, SIGTERM or SIGHUP; *announce* is called once requests are taken."""
    import uvicorn
    from uvicorn.protocols.http.h11_impl import H11Protocol

    for name in ("uvicorn.error", "asyncio"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)  # a traceback may quote a record
    listening = _listen(port)
    address = f"{_HOST}:{listening.getsockname()[1]}"
    key, own = Key(), find_own_peers()

    class Line(H11Protocol):
        """A connection; where there are many, others of this machine get no more, so that its user still does."""

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            if len(self.connections) > _MOST_LINES and not (
                own and self.client and own(self.client, listening.getsockname())
            ):
                transport.abort()

    class Server(uvicorn.Server):
        """A server that tells when it is ready."""

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if self.started:
                announce(Entrance(address, key, private.path))

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
                create_app(studio, key, address, landing, own),
                http=Line,
                backlog=_MOST_LINES,
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                ws="none",
                lifespan="off",
                timeout_graceful_shutdown=_PATIENCE,
            )
            with contextlib.suppress(KeyboardInterrupt):  # the signal again, once the server has stopped
                Server(config).run(sockets=[listening])
        finally:
            studio.close()


def _listen(port: int) -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((_HOST, port))
    except OSError as error:
        made.close()
        raise UsageError(f"cannot listen on {_HOST} port {port}: {error.strerror}; choose another --port") from None
    return made
