"""Connections of callers: a bounded number, and none for long that only keeps others out."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from shoal.agency.service.settings import Settings


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
