"""Serving one person on this machine until they stop it; everything it kept is gone then."""

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

from shoal.core.errors import UsageError
from shoal.studio.application import create_app
from shoal.studio.gate import Key
from shoal.studio.peers import own_peers
from shoal.studio.room import Room
from shoal.studio.studio import Studio

_HOST = "127.0.0.1"
_MOST_LINES = 100  # connections of anybody; a browser has some
_PATIENCE = 2  # seconds for requests under way at the end


class Entrance:
    """The way into a running studio."""

    def __init__(self, address: str, key: Key, room: Room) -> None:
        """Lead to the studio that serves under this address."""
        self._address, self._key, self._room = address, key, room

    def link(self) -> str:
        """Return a link that works once; links from before do not work any more."""
        return f"http://{self._address}/?token={self._key.renew()}"

    def file(self, link: str) -> Path:
        """Write a private page that leads to a link: everybody may see what a browser is started with."""
        path = self._room.folder / "enter.html"
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
    listening = _listening(port)
    address = f"{_HOST}:{listening.getsockname()[1]}"
    key, own = Key(), own_peers()

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
                announce(Entrance(address, key, room))

    with listening, Room() as room:
        atexit.register(room.remove)
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            signal.signal(signal.SIGHUP, lambda *_: signal.raise_signal(signal.SIGTERM))
        studio = Studio(room)
        try:
            landing = "/"
            if table is not None:
                project = studio.open(table.name, table.absolute(), studio.new_folder())
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


def _listening(port: int) -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((_HOST, port))
    except OSError as error:
        made.close()
        raise UsageError(f"cannot listen on {_HOST} port {port}: {error.strerror}; choose another --port") from None
    return made
