"""Serving one person on this machine until they stop it; everything it kept is gone then."""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path

from shoal.errors import UsageError
from shoal.studio.application import create_app
from shoal.studio.gate import Key
from shoal.studio.room import Room
from shoal.studio.studio import Studio

_HOST = "127.0.0.1"
_PATIENCE = 2  # seconds for requests under way at the end


def serve(port: int, table: Path | None, announce: Callable[[str], None]) -> None:
    """Serve on loopback until SIGINT, SIGTERM or SIGHUP; *announce* is told the URL once requests are taken."""
    import uvicorn

    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL + 1)  # a traceback may quote a record
    listening = _listening(port)
    address = f"{_HOST}:{listening.getsockname()[1]}"
    key = Key()

    class Server(uvicorn.Server):
        """A server that tells when it is ready."""

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if self.started:
                announce(f"http://{address}/?token={key.token}")

    with Room() as room:
        atexit.register(room.remove)
        signal.signal(signal.SIGHUP, lambda *_: signal.raise_signal(signal.SIGTERM))
        studio = Studio(room)
        try:
            if table is not None:
                studio.open(table.name, table.absolute(), studio.new_folder())
            config = uvicorn.Config(
                create_app(studio, key, lambda: address),
                http="h11",
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
        if os.name == "posix":
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((_HOST, port))
    except OSError as error:
        made.close()
        raise UsageError(f"cannot listen on {_HOST} port {port}: {error.strerror}; choose another --port") from None
    return made
