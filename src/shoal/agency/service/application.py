"""The service put together and served: routes, limits, the same form for every refusal, and an orderly end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import ssl
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import uvicorn
from anyio import to_thread
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

import shoal
from shoal.agency.client import is_this_machine
from shoal.agency.service import administration, campaigns, plans, refusals, releases
from shoal.agency.service.database import Database
from shoal.agency.service.guard import caller_address
from shoal.agency.service.refusals import Refusal
from shoal.agency.service.settings import Settings
from shoal.agency.service.visits import Service
from shoal.core.errors import ShoalError, UsageError

_GUARDED = "/v1/"
_GONE = 499  # in the metrics only: the caller hung up, or sent what is no HTTP, before it was answered
_ROUTERS = (
    administration.unguarded,
    administration.routes,
    campaigns.routes,
    plans.routes,
    releases.routes,
    campaigns.request_routes,
)
_IDLE_SECONDS = 5
_UNFINISHED = "ASGI callable returned without completing"  # to callers that hung up; all others are answered


def create_app(settings: Settings, database: Database) -> FastAPI:
    """Return the service on a database that is at the newest version."""
    service = Service(settings, database)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        service.audit.start()
        yield
        await to_thread.run_sync(service.audit.stop)
        database.engine.dispose()

    app = FastAPI(
        title="shoal agency",
        description="Plans for several owners of data about the same people, and the releases that are made by them.",
        version=shoal.__version__,
        docs_url=None,
        redoc_url=None,
        swagger_ui_oauth2_redirect_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
    )
    app.state.service = service
    app.add_middleware(Watch, service=service)
    for kind in (HTTPException, RequestValidationError, ShoalError):  # all others come to Watch
        app.add_exception_handler(kind, _refuse)
    for router in _ROUTERS:
        app.include_router(router)
    return app


async def _refuse(request: Request, error: Exception) -> Response:
    """Answer a refusal, ours or the framework's, in our form."""
    if isinstance(error, Refusal) or not isinstance(error, HTTPException):
        return refusals.of_error(error).response()
    if error.status_code == 405:  # the framework names the methods of one route of several with this path
        return refusals.plain(405, {"Allow": ", ".join(sorted(_methods(request)))}).response()
    return refusals.plain(error.status_code, error.headers).response()


def _methods(request: Request) -> set[str]:
    found = {"GET"} if request.url.path == request.app.openapi_url else set()
    for route in (route for router in _ROUTERS for route in router.routes):
        if route.matches(request.scope)[0] is not Match.NONE:
            found |= getattr(route, "methods", None) or set()
    return found | {"HEAD"} if "GET" in found else found


class _GoneError(Exception):
    """The answer cannot be sent any more, which is no fault of the service."""


class Watch:
    """The outermost layer of the service."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app, self._service = app, service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if scope["method"] == "HEAD":  # answered as GET is; the server leaves out the content
            scope = {**scope, "method": "GET"}
        metrics = self._service.metrics
        status, began = 0, time.perf_counter()

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                if "visit" in scope.get("state", {}):
                    scope["state"]["visit"].record(status)
                headers = MutableHeaders(scope=message)
                headers["X-Content-Type-Options"] = "nosniff"
                headers.setdefault("Cache-Control", "no-store")
            try:
                await send(message)
            except Exception as error:
                raise _GoneError from error

        metrics.begin()
        try:
            guarded = scope["path"].startswith(_GUARDED)
            if wait := 0.0 if guarded else self._service.addresses.take(caller_address(Request(scope))):
                await refusals.too_many(wait).response()(scope, receive, sending)
            else:
                await self._app(scope, receive, sending)
        except _GoneError:
            status = _GONE
        except Exception as error:
            refusal = refusals.of_error(error)
            if status:
                raise
            await refusal.response()(scope, receive, sending)
        finally:
            route = scope.get("route")
            template = getattr(route, "path_format", None) or getattr(route, "path", None) or "none"
            metrics.end(scope["method"], template, status or 500, time.perf_counter() - began)


def serve(settings: Settings, database: Database, announce: Callable[[str, int], None]) -> None:
    """Serve until SIGTERM or SIGINT; *announce* gets the address once requests are taken."""
    configure_logs()
    refuse_plain(settings)
    listening = _listen(settings.host, settings.port)
    host, port = listening.getsockname()[:2]
    config = uvicorn.Config(
        create_app(settings, database),
        http=make_protocol(settings),
        log_config=None,
        access_log=False,
        server_header=False,
        ws="none",
        lifespan="on",
        ssl_certfile=settings.tls_cert,
        ssl_keyfile=settings.tls_key,
        proxy_headers=bool(settings.trusted_proxies),
        forwarded_allow_ips=settings.trusted_proxies or None,
        timeout_keep_alive=_IDLE_SECONDS,
        timeout_graceful_shutdown=settings.shutdown_seconds,
    )
    try:
        config.load()
    except (OSError, ssl.SSLError) as error:
        reason = error.strerror or "they are no certificate and key that fit"
        raise UsageError(f"--tls-cert and --tls-key cannot be used: {reason}; give two files in PEM form") from None
    server = _Server(config, lambda: announce(f"[{host}]" if ":" in host else host, port))
    with contextlib.suppress(KeyboardInterrupt):  # the signal again, once the server has stopped
        server.run(sockets=[listening])


class _Server(uvicorn.Server):
    """A server that says when it is ready, and does not wait for ever at the end."""

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


def configure_logs() -> None:
    """Log to standard error: what happened and where, never a traceback, for it may quote a request."""

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
    """Refuse to listen to other machines without TLS: everybody on the way could read the tokens."""
    if (settings.tls_cert is None) != (settings.tls_key is None):
        raise UsageError("--tls-cert and --tls-key belong together; give both")
    if not (is_this_machine(settings.host) or settings.tls_cert or settings.behind_proxy):
        raise UsageError(
            f"listening on {settings.host} without TLS would let everybody on the way read the tokens; give --tls-cert "
            "and --tls-key, or --behind-proxy if a proxy with TLS stands before the service"
        )


def _listen(host: str, port: int) -> socket.socket:
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
    """One connection, looked at now and then: who neither asks nor listens from one look to the next is cut off.

    At the limit of connections an idle one makes room for a new one; if none is idle, the new one is cut off.
    """

    most: int
    seconds: float
    since: float = 0.0  # when it was made
    _timer: asyncio.TimerHandle | None = None
    _seen: tuple[RequestResponseCycle | None, bool, int] = (None, False, 0)  # the request, whether idle, bytes unsent

    def connection_made(self, transport: Any) -> None:
        """Take a connection, unless there are too many that are all busy."""
        super().connection_made(transport)
        self.since = self.loop.time()
        if len(self.connections) > self.most:
            others = [each for each in self.connections if isinstance(each, BoundedProtocol) and each is not self]
            idle = [each for each in others if each.idle and not each.transport.is_closing()]
            # Who never asked anything goes before who did, the oldest first.
            leaving = min(idle, key=lambda each: (each.cycle is not None, each.since), default=self)
            leaving.transport.abort()
        if not transport.is_closing():
            self._look()

    @property
    def idle(self) -> bool:
        """Whether there is no request under way, and nothing of an answer left to send."""
        answered = self.cycle is None or self.cycle.response_complete
        return answered and not self.transport.get_write_buffer_size()

    def connection_lost(self, exc: Exception | None) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def _look(self) -> None:
        request, unsent = self.cycle, self.transport.get_write_buffer_size()
        idle = self.idle
        last, was_idle, before = self._seen
        if request is last and ((idle and was_idle) or 0 < before <= unsent):
            self.transport.abort()
            return
        self._seen = request, idle, unsent
        self._timer = self.loop.call_later(self.seconds, self._look)


def make_protocol(settings: Settings) -> type[BoundedProtocol]:
    """Return the protocol with the limits of these settings."""
    limits = {"most": settings.connections, "seconds": settings.idle_seconds}
    return type("LimitedProtocol", (BoundedProtocol,), limits)
