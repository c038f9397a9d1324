"""Around every request: counted, timed, with safe headers, and never answered by a traceback."""

from __future__ import annotations

import time
from typing import Any

from fastapi import Request
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shoal.agency.service import refusals
from shoal.agency.service.failures import refusal_of
from shoal.agency.service.guard import address_of
from shoal.agency.service.visits import Service

_GUARDED = "/v1/"
_GONE = 499  # in the metrics only: the caller hung up, or sent what is no HTTP, before it was answered


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
