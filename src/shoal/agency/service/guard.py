"""The way to every route of the agency: token, rate, role, then the body, and only then the route itself.

Bodies are never more than their limit in memory, and nothing but plain JSON.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Depends, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from shoal.agency.service import refusals
from shoal.agency.service.messages import describe_errors
from shoal.agency.service.refusals import Refusal, invalid
from shoal.agency.service.tokens import Holder, Role, find, read_digest
from shoal.agency.service.visits import Service, Visit
from shoal.core.documents import AmbiguousJsonError, read_json

ROLES_KEY, BODY_KEY = "x-roles", "x-body-limit"
_MOST_KNOWN = 20_000
_DISCARDING = 10.0  # seconds
_SMALL = 64 * 1024  # bytes that are parsed without a thread of their own
_SCHEME = HTTPBearer(scheme_name="token", description="A token of the agency.", auto_error=False)  # for the schema
Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])


class Routes(APIRouter):
    """A router whose routes are guarded."""

    def __init__(self, tag: str) -> None:
        super().__init__(route_class=_GuardedRoute, tags=[tag], dependencies=[Depends(_SCHEME)])

    def serve(
        self,
        path: str,
        roles: tuple[Role, ...],
        model: Any = None,
        *,
        body: str | None = None,
        status: int = 200,
        answers: dict[int | str, dict[str, Any]] | None = None,
    ) -> Callable[[Endpoint], Endpoint]:
        """Return a decorator that serves a function at "METHOD /path" to roles; *body* names the setting of its limit.

        The schema shows roles and limit. A function without a model returns a response of its own.
        """
        method, place = path.split()
        limit = {} if body is None else {BODY_KEY: body}
        options = {"response_model": model} if model is not None else {"response_class": Response}

        def register(function: Endpoint) -> Endpoint:
            self.add_api_route(
                place,
                function,
                methods=[method],
                operation_id=function.__name__,
                status_code=status,
                responses={**describe_errors(body=body is not None), **(answers or {})},
                openapi_extra={ROLES_KEY: list(roles), **limit},
                **options,
            )
            return function

        return register


class _GuardedRoute(APIRoute):
    """A route that only callers with one of its roles reach; all others learn nothing from it."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the framework's handler behind the guard."""
        inner = super().get_route_handler()
        declared = self.openapi_extra or {}
        roles, body = frozenset(declared[ROLES_KEY]), declared.get(BODY_KEY)
        action, outcome, template = self.operation_id or self.name, self.status_code or 200, self.path_format

        async def handle(request: Request) -> Response:
            service: Service = request.app.state.service
            if service.audit.full:
                raise refusals.plain(503, {"Retry-After": "1"})
            holder, refusal = await _find_holder(service, request)
            crowded = refusal is not None and refusal.status == 429  # one line a second: nobody shall fill the disk
            if holder is not None and not (crowded and service.crowds.take(holder.id)):
                request.state.visit = Visit(service, holder, action, _subject(request, template), outcome)
            if holder is None or refusal is not None:
                raise refusal or refusals.no_valid_token()
            if holder.role not in roles:
                raise Refusal(403, "forbidden", f"this is for {' and '.join(sorted(roles))} tokens only")
            if body is None:
                return await inner(request)
            async with StrictRequest(request, service, getattr(service.settings, body)) as limited:
                return await inner(limited)

        return handle


async def _find_holder(service: Service, request: Request) -> tuple[Holder | None, Refusal | None]:
    """Return whose token a request bears, if it is known, and why it is refused: it is not valid, or asks too often."""
    digest = read_digest(request.headers.get("authorization", ""))
    known = None if digest is None else service.known.get(digest)
    if known is not None and (wait := service.callers.take(known.id)):
        return known, refusals.too_many(wait)
    holder = None if digest is None else await run_in_threadpool(find, service.database, digest)
    if digest is None or holder is None or not holder.valid:
        wait = service.addresses.take(caller_address(request))
        return holder, refusals.too_many(wait) if wait else refusals.no_valid_token()
    if holder.expired:
        return holder, refusals.token_expired()
    if known is None:
        if len(service.known) >= _MOST_KNOWN:
            service.known.clear()
        service.known[digest] = holder
        service.callers.take(holder.id)
    return holder, None


def caller_address(request: Request) -> str:
    """Return where a request comes from."""
    return request.client.host if request.client else "unknown"


def _subject(request: Request, template: str) -> str:
    """Return the path if its parameters are numbers, else its template: what callers make up is not logged."""
    ids = request.path_params.values()
    plain = all(isinstance(each, str) and each.isascii() and each.isdigit() and len(each) < 20 for each in ids)
    return template.format(**request.path_params) if plain else template


async def _current_visit(request: Request) -> Visit:
    visit: Visit = request.state.visit
    return visit


CurrentVisit = Annotated[Visit, Depends(_current_visit)]


class StrictRequest(Request):
    """A request whose body is bounded in bytes and time, and plain JSON; it holds its share of memory while entered."""

    def __init__(self, request: Request, service: Service, limit: int) -> None:
        super().__init__(request.scope, request.receive)
        self._service, self._limit = service, limit
        self._taken, self._has_thread = 0, False

    async def __aenter__(self) -> StrictRequest:
        """Refuse what is no JSON by its head."""
        kind, _, parameters = self.headers.get("content-type", "").partition(";")
        charset = parameters.strip().lower().replace('"', "")
        if kind.strip().lower() != "application/json" or charset not in ("", "charset=utf-8"):
            raise Refusal(415, "unsupported_media_type", "the body must be application/json in UTF-8")
        if self.headers.get("content-encoding", "identity").lower() != "identity":
            raise Refusal(415, "unsupported_media_type", "the body must not be compressed")
        return self

    async def __aexit__(self, *_: object) -> None:
        """Give back everything."""
        self._service.body_bytes -= self._taken
        if self._has_thread:
            self._service.tables.release_on_behalf_of(self)

    async def stream(self) -> AsyncGenerator[bytes, None]:
        """Yield the body up to the limit, whatever its length was said to be."""
        said = self.headers.get("content-length", "")
        if said.isascii() and said.isdigit() and int(said[:20]) > self._limit:
            raise TooLarge(self._limit)
        async for piece in super().stream():
            if self._taken + len(piece) > self._limit:
                raise TooLarge(self._limit)
            if self._service.body_bytes + len(piece) > self._service.settings.waiting_bytes:
                message = "the service has too many large bodies at hand; try again"
                raise Refusal(503, "busy", message, {"Retry-After": "1"})
            self._service.body_bytes += len(piece)
            self._taken += len(piece)
            yield piece

    async def body(self) -> bytes:
        """Return the body as it came, if it comes in time; one without content is refused."""
        try:
            async with asyncio.timeout(self._service.settings.body_seconds):
                content = await super().body()
        except TimeoutError:
            raise Refusal(408, "timeout", "the body took too long to arrive", {"Connection": "close"}) from None
        except ClientDisconnect:
            raise Refusal(400, "disconnected", "the body ended too soon") from None
        return content or parse(content)

    async def json(self) -> Any:
        """Return what it says; large bodies are parsed, and then handled, a few at a time."""
        content = await self.body()
        if len(content) <= _SMALL:
            return parse(content)
        await self._service.tables.acquire_on_behalf_of(self)
        self._has_thread = True
        return await run_in_threadpool(parse, content)


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


class TooLarge(Refusal):
    """A body beyond its limit. The rest of it is let in and thrown away, after the answer.

    A caller whose connection breaks while it still sends does not see the answer.
    """

    def __init__(self, limit: int) -> None:
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
