"""Serving until somebody asks to stop: requests under way are finished, for a bounded time."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from shoal.agency.service.application import create_app
from shoal.agency.service.database import Database
from shoal.agency.service.settings import Settings
from shoal.core.errors import UsageError

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


class BoundedProtocol(H11Protocol):
    """One connection, looked at now and then: who neither asks nor listens from one look to the next is cut off."""

    most: int
    seconds: float
    _timer: asyncio.TimerHandle | None = None
    _seen: tuple[RequestResponseCycle | None, bool, int] = (None, False, 0)  # the request, whether idle, bytes unsent

    def connection_made(self, transport: Any) -> None:
        """Take a connection, unless there are too many."""
        super().connection_made(transport)
        if len(self.connections) > self.most:
            transport.abort()
        else:
            self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def _look(self) -> None:
        request, unsent = self.cycle, self.transport.get_write_buffer_size()
        idle = (request is None or request.response_complete) and not unsent
        last, was_idle, before = self._seen
        if request is last and ((idle and was_idle) or 0 < before <= unsent):
            self.transport.abort()
            return
        self._seen = request, idle, unsent
        self._timer = self.loop.call_later(self.seconds, self._look)


def protocol_of(settings: Settings) -> type[BoundedProtocol]:
    """Return the protocol with the limits of these settings."""
    limits = {"most": settings.connections, "seconds": settings.idle_seconds}
    return type("LimitedProtocol", (BoundedProtocol,), limits)
