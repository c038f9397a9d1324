"""The service put together: routes, limits, and the same form for every refusal."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from anyio import CapacityLimiter, to_thread
from fastapi import FastAPI, Request, Response
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import shoal
from shoal.agency.service import refusals
from shoal.agency.service.audit import AuditQueue
from shoal.agency.service.bodies import Waiting
from shoal.agency.service.database import Database
from shoal.agency.service.failures import refusal_of
from shoal.agency.service.guard import address_of
from shoal.agency.service.limits import Buckets
from shoal.agency.service.metrics import Metrics
from shoal.agency.service.plan_cache import PlanCache
from shoal.agency.service.refusals import Refusal
from shoal.agency.service.routes import audit, campaigns, plans, releases, tokens, unguarded
from shoal.agency.service.settings import Settings
from shoal.agency.service.visits import Service

_GUARDED = "/v1/"
_GONE = 499  # in the metrics only: the caller hung up, or sent what is no HTTP, before it was answered
_MODULES = (unguarded, tokens, campaigns, plans, releases, audit)
_PLANNERS = 2
_CHECKERS = 2
_TABLES = 2  # parsed, a body takes up to thirty times its bytes
_LINES_A_SECOND = 1


def service_of(settings: Settings, database: Database) -> Service:
    """Return what the requests of one service share."""
    queue, waiting = AuditQueue(database), Waiting(settings.waiting_bytes)
    return Service(
        settings=settings,
        database=database,
        audit=queue,
        plans=PlanCache(settings.cache_bytes),
        callers=Buckets(settings.rate, settings.burst),
        addresses=Buckets(settings.address_rate, settings.address_burst),
        crowds=Buckets(_LINES_A_SECOND, _LINES_A_SECOND),
        bodies=waiting,
        metrics=Metrics(lambda: queue.waiting, lambda: waiting.taken),
        planners=CapacityLimiter(_PLANNERS),
        checkers=CapacityLimiter(_CHECKERS),
        tables=CapacityLimiter(_TABLES),
    )


def create_app(settings: Settings, database: Database) -> FastAPI:
    """Return the service on a database that is at the newest version."""
    service = service_of(settings, database)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        service.audit.start()
        yield
        await to_thread.run_sync(service.audit.stop)
        database.engine.dispose()

    app = _Documented(
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
    app.add_exception_handler(Refusal, _refused)
    app.add_exception_handler(HTTPException, _refused_by_framework)
    for module in _MODULES:
        app.include_router(module.routes)
    return app


class _Documented(FastAPI):
    """An application whose schema says how callers show their token."""

    def openapi(self) -> dict[str, Any]:
        """Return the schema, with the security scheme that routes name."""
        schema = super().openapi()
        scheme = {"type": "http", "scheme": "bearer", "description": "A token of the agency."}
        schema["components"].setdefault("securitySchemes", {"token": scheme})
        return schema


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)  # noqa: S101 - registered for these only
    return error.response()


async def _refused_by_framework(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - registered for these only
    if error.status_code == 405:  # the framework names the methods of one route of several with this path
        return refusals.plain(405, {"Allow": ", ".join(sorted(_methods(request)))}).response()
    return refusals.plain(error.status_code, error.headers).response()


def _methods(request: Request) -> set[str]:
    found = {"GET"} if request.url.path == request.app.openapi_url else set()
    for route in (route for module in _MODULES for route in module.routes.routes):
        if route.matches(request.scope)[0] is not Match.NONE:
            found |= getattr(route, "methods", None) or set()
    return found | {"HEAD"} if "GET" in found else found


class _GoneError(Exception):
    """The answer cannot be sent any more, which is no fault of the service."""


class Watch:
    """The outermost layer of the service."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        """Stand around an application."""
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
                headers = MutableHeaders(scope=message)
                headers["X-Content-Type-Options"] = "nosniff"
                headers.setdefault("Cache-Control", "no-store")
            try:
                await send(message)
            except Exception as error:
                raise _GoneError from error

        metrics.begin()
        try:
            wait = (
                0.0 if scope["path"].startswith(_GUARDED) else self._service.addresses.take(address_of(Request(scope)))
            )
            if wait:
                await refusals.too_many(wait).response()(scope, receive, sending)
            else:
                await self._app(scope, receive, sending)
        except _GoneError:
            status = _GONE
        except Exception as error:
            refusal = refusal_of(error)
            if status:
                raise
            await refusal.response()(scope, receive, sending)
        finally:
            metrics.end(scope["method"], _template(scope), status or 500, time.perf_counter() - began)


def _template(scope: Scope) -> str:
    route: Any = scope.get("route")
    return getattr(route, "path_format", None) or getattr(route, "path", None) or "none"
