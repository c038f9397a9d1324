"""Bodies of requests: never more than their limit in memory, and nothing in them but plain JSON."""

from __future__ import annotations

import asyncio
import contextlib
import json
from dataclasses import dataclass, field
from typing import Any

from fastapi import Request
from fastapi.responses import JSONResponse
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from shoal.agency.service.refusals import Refusal, invalid
from shoal.core.strict_json import AmbiguousJsonError, read_json

_DISCARDING = 10.0  # seconds
SMALL = 64 * 1024  # bytes that are parsed without a thread of their own


@dataclass(slots=True)
class Waiting:
    """How many bytes of bodies are in memory; only the event loop counts them."""

    limit: int
    taken: int = 0


@dataclass(slots=True)
class Room:
    """What one request takes of the memory for bodies, until it is answered."""

    waiting: Waiting
    taken: int = field(default=0)

    def take(self, size: int) -> None:
        """Count bytes, or refuse them."""
        if self.waiting.taken + size > self.waiting.limit:
            raise Refusal(503, "busy", "the service has too many large bodies at hand; try again", {"Retry-After": "1"})
        self.waiting.taken += size
        self.taken += size

    def leave(self) -> None:
        """Give back everything."""
        self.waiting.taken -= self.taken
        self.taken = 0


class ParsedRequest(Request):
    """A request whose body was read and parsed before the framework asks for it."""

    def __init__(self, request: Request, content: bytes, parsed: Any) -> None:
        """Stand for a request."""
        super().__init__(request.scope, request.receive)
        self._content, self._parsed = content, parsed

    async def body(self) -> bytes:
        """Return the body as it came."""
        return self._content

    async def json(self) -> Any:
        """Return what it says."""
        return self._parsed


async def received(request: Request, limit: int, seconds: float, room: Room) -> bytes:
    """Read a JSON body up to a limit, whatever its length was said to be."""
    _check_type(request)
    try:
        async with asyncio.timeout(seconds):
            return await _content(request, limit, room)
    except TimeoutError:
        raise Refusal(408, "timeout", "the body took too long to arrive", {"Connection": "close"}) from None
    except ClientDisconnect:
        raise Refusal(400, "disconnected", "the body ended too soon") from None


def parse(content: bytes) -> Any:
    """Read JSON; what databases or other readers would stumble over is refused here."""
    try:
        document = read_json(content)
    except AmbiguousJsonError as error:
        raise invalid(f"the body is no plain JSON: {error}") from None
    except ValueError as error:
        place = f" (line {error.lineno} column {error.colno})" if isinstance(error, json.JSONDecodeError) else ""
        raise invalid(f"the body is no JSON in UTF-8{place}") from None
    if b"\\u0000" in content:
        raise invalid("the body has a NUL character, which no text may have")
    return document


async def _content(request: Request, limit: int, room: Room) -> bytes:
    told = request.headers.get("content-length", "")
    if told.isascii() and told.isdigit() and int(told[:20]) > limit:
        raise TooLarge(limit)
    pieces: list[bytes] = []
    size = 0
    async for piece in request.stream():
        size += len(piece)
        if size > limit:
            raise TooLarge(limit)
        room.take(len(piece))
        pieces.append(piece)
    return b"".join(pieces)


def _check_type(request: Request) -> None:
    kind, _, parameters = request.headers.get("content-type", "").partition(";")
    charset = parameters.strip().lower().replace('"', "")
    if kind.strip().lower() != "application/json" or charset not in ("", "charset=utf-8"):
        raise Refusal(415, "unsupported_media_type", "the body must be application/json in UTF-8")
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise Refusal(415, "unsupported_media_type", "the body must not be compressed")


class TooLarge(Refusal):
    """A body beyond its limit. The rest of it is let in and thrown away, after the answer.

    A caller whose connection breaks while it still sends does not see the answer.
    """

    def __init__(self, limit: int) -> None:
        """Name the limit."""
        super().__init__(413, "too_large", f"the body is larger than {limit:,} bytes", {"Connection": "close"})

    def response(self) -> JSONResponse:
        """Return it as it is sent."""
        return _Lingering(self.content, self.status, self.headers)


class _Lingering(JSONResponse):
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        await send({"type": "http.response.body", "body": self.body, "more_body": True})
        asks = any(name == b"expect" for name, _ in scope["headers"])  # whoever asks first sends nothing more
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_DISCARDING):
                while not asks and (await receive()).get("more_body"):
                    pass
        await send({"type": "http.response.body", "body": b""})
