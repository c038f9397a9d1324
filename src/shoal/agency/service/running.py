"""Serving until somebody asks to stop: requests under way are finished, for a bounded time."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import uvicorn

from shoal.agency.service.application import create_app
from shoal.agency.service.connections import protocol_of
from shoal.agency.service.database import Database
from shoal.agency.service.settings import Settings
from shoal.errors import UsageError

_IDLE_SECONDS = 5
_UNFINISHED = "ASGI callable returned without completing"  # to callers that hung up; all others are answered


def serve(settings: Settings, database: Database, announce: Callable[[str, int], None]) -> None:
    """Serve until SIGTERM or SIGINT; *announce* is told the address once requests are taken."""
    logs()
    listening = _listening(settings.host, settings.port)
    host, port = listening.getsockname()[:2]
    config = uvicorn.Config(
        create_app(settings, database),
        http=protocol_of(settings),
        log_config=None,
        access_log=False,
        server_header=False,
        ws="none",
        lifespan="on",
        proxy_headers=bool(settings.trusted_proxies),
        forwarded_allow_ips=settings.trusted_proxies or None,
        timeout_keep_alive=_IDLE_SECONDS,
        timeout_graceful_shutdown=settings.shutdown_seconds,
    )
    server = _Server(config, lambda: announce(f"[{host}]" if ":" in host else host, port))
    with contextlib.suppress(KeyboardInterrupt):  # the signal again, once the server has stopped
        server.run(sockets=[listening])


class _Server(uvicorn.Server):
    """A server that tells when it is ready, and does not wait for ever at the end."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await super().shutdown(sockets)
        if left := len(self.server_state.tasks):
            logging.getLogger("shoal.agency").error("%d requests took too long and were cut off", left)
            os._exit(0)


def write_port(path: Path, port: int) -> None:
    """Write the port to a file, whole or not at all."""
    beside = path.with_name(f"{path.name}.{os.getpid()}")
    beside.write_text(f"{port}\n", encoding="ascii")
    beside.replace(path)


def logs() -> None:
    """Log to standard error: what happened and where, never a traceback, for it may quote a request."""
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(lambda record: not record.getMessage().startswith(_UNFINISHED))
    handler.setFormatter(_WithoutTraceback("%(asctime)s %(levelname)s %(message)s"))
    for name in ("shoal.agency", "uvicorn.error"):
        log = logging.getLogger(name)
        log.handlers, log.propagate = [handler], False
        log.setLevel(logging.WARNING)


class _WithoutTraceback(logging.Formatter):
    """One line a record."""

    def formatException(self, ei: object) -> str:  # noqa: ARG002, N802 - the signature is logging's
        return ""


def _listening(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        made = socket.socket(family, kind, protocol)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
    except OSError as error:
        raise UsageError(f"cannot listen on {host} port {port}: {error.strerror or 'no such address'}") from None
    return made
