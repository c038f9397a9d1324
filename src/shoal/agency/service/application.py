"""The application of the service and its server."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import ssl
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import shoal
from shoal.agency.client import is_this_machine
from shoal.agency.service import administration, campaigns, plans, refusals, releases
from shoal.agency.service.database import Database
from shoal.agency.service.settings import Settings
from shoal.agency.service.visits import Service
from shoal.core.errors import ShoalError, UsageError

_ROUTERS = (
    administration.unguarded,
    administration.routes,
    campaigns.routes,
    plans.routes,
    releases.routes,
    campaigns.request_routes,
)
_IDLE_SECONDS = 5
_UNFINISHED = "ASGI callable returned without completing"  # the caller hung up


def create_app(settings: Settings, database: Database) -> FastAPI:
    """Return the service on a database with the current schema."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        database.engine.dispose()

    app = FastAPI(
        title="shoal agency",
        description="Plans for several owners of data about the same people, and the releases made by these plans.",
        version=shoal.__version__,
        docs_url=None,
        redoc_url=None,
        swagger_ui_oauth2_redirect_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
    )
    app.state.service = Service(settings, database)
    app.add_middleware(Watch)
    for kind in (HTTPException, RequestValidationError, ShoalError):  # Watch answers all others
        app.add_exception_handler(kind, _refuse)
    for router in _ROUTERS:
        app.include_router(router)
    return app


async def _refuse(_: Request, error: Exception) -> Response:
    return refusals.of_error(error).response()


class Watch:
    """The outermost layer: headers of all answers, HEAD, and an answer to every failure."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if scope["method"] == "HEAD":  # the server leaves out the content
            scope = {**scope, "method": "GET"}
        begun = False

        async def sending(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                headers = MutableHeaders(scope=message)
                headers["X-Content-Type-Options"] = "nosniff"
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        try:
            await self._app(scope, receive, sending)
        except Exception as error:  # noqa: BLE001 - every error gets an answer in the common form
            if not begun:  # otherwise the caller hung up
                await refusals.of_error(error).response()(scope, receive, sending)


def serve(settings: Settings, database: Database, announce: Callable[[str, int], None]) -> None:
    """Serve until SIGTERM or SIGINT; *announce* receives the address once connections are accepted."""
    configure_logs()
    refuse_plain(settings)
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        listening = socket.create_server(
            (settings.host, settings.port), family=family, dualstack_ipv6=family == socket.AF_INET6
        )
    except OSError as error:
        reason = error.strerror or "no such address"
        raise UsageError(f"cannot listen on {settings.host} port {settings.port}: {reason}") from None
    host, port = listening.getsockname()[:2]
    config = uvicorn.Config(
        create_app(settings, database),
        http="h11",
        log_config=None,
        access_log=False,
        server_header=False,
        ws="none",
        lifespan="on",
        ssl_certfile=settings.tls_cert,
        ssl_keyfile=settings.tls_key,
        limit_concurrency=settings.connections,
        proxy_headers=False,
        timeout_keep_alive=_IDLE_SECONDS,
        timeout_graceful_shutdown=settings.shutdown_seconds,
    )
    try:
        config.load()
    except (OSError, ssl.SSLError) as error:
        reason = error.strerror or "certificate and key do not match"
        raise UsageError(f"--tls-cert and --tls-key cannot be used: {reason}; give two files in PEM form") from None
    server = _Server(config)
    announce(f"[{host}]" if ":" in host else host, port)
    with contextlib.suppress(KeyboardInterrupt):  # uvicorn raises the signal again after it has stopped
        server.run(sockets=[listening])


class _Server(uvicorn.Server):
    """A server that ends in time even while a plan is being made."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await super().shutdown(sockets)
        if left := len(self.server_state.tasks):
            logging.getLogger("shoal.agency").error("%d requests took too long and were cut off", left)
            os._exit(0)


def write_port(path: Path, port: int) -> None:
    """Write the port to a file atomically."""
    waiting = path.with_name(f"{path.name}.{os.getpid()}")
    waiting.write_text(f"{port}\n", encoding="ascii")
    waiting.replace(path)


def configure_logs() -> None:
    """Log failures and their places to standard error, never a traceback, because it may quote a request."""

    def admit(record: logging.LogRecord) -> bool:
        record.exc_info = record.exc_text = None
        return not record.getMessage().startswith(_UNFINISHED)

    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(admit)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    for name in ("shoal.agency", "uvicorn.error"):
        log = logging.getLogger(name)
        log.handlers, log.propagate = [handler], False
        log.setLevel(logging.WARNING)


def refuse_plain(settings: Settings) -> None:
    """Refuse to listen to other machines without TLS: the tokens could be read on the way."""
    if (settings.tls_cert is None) != (settings.tls_key is None):
        raise UsageError("--tls-cert and --tls-key belong together; give both")
    if not (is_this_machine(settings.host) or settings.tls_cert or settings.behind_proxy):
        raise UsageError(
            f"on {settings.host} without TLS, tokens could be read on the way; give --tls-cert and --tls-key, or "
            "--behind-proxy if a proxy with TLS is in front of the service"
        )
