"""The path to every route of the agency: token, role, then the body, and only then the route itself."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Coroutine
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Depends, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer

from shoal.agency.service import refusals
from shoal.agency.service.messages import describe_errors
from shoal.agency.service.refusals import Refusal, invalid
from shoal.agency.service.tokens import Role, find, read_digest
from shoal.agency.service.visits import Service, Visit
from shoal.core.documents import AmbiguousJsonError, read_json

ROLES_KEY, BODY_KEY = "x-roles", "x-body-limit"
_SMALL = 64 * 1024  # bytes; larger bodies wait for one another
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

        The schema shows roles and limit. A function without a model returns its own response.
        """
        method, place = path.split()

        def register(function: Endpoint) -> Endpoint:
            self.add_api_route(
                place,
                function,
                methods=[method],
                operation_id=function.__name__,
                status_code=status,
                responses={**describe_errors(body=body is not None), **(answers or {})},
                openapi_extra={ROLES_KEY: list(roles), **({} if body is None else {BODY_KEY: body})},
                **({"response_class": Response} if model is None else {"response_model": model}),
            )
            return function

        return register


class _GuardedRoute(APIRoute):
    """A route that only callers with one of its roles reach; others learn nothing from it."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        inner = super().get_route_handler()
        declared = self.openapi_extra or {}
        roles, body = frozenset(declared[ROLES_KEY]), declared.get(BODY_KEY)
        action, outcome, template = self.operation_id or self.name, self.status_code or 200, self.path_format

        async def answer(request: Request, visit: Visit) -> Response:
            holder, service = visit.holder, visit.service
            if not holder.valid:
                raise refusals.no_valid_token()
            if holder.expired:
                raise refusals.token_expired()
            if holder.role not in roles:
                raise Refusal(403, "forbidden", f"this is for {' and '.join(sorted(roles))} tokens only")
            if body is None:
                return await inner(request)
            size = _check_head(request, getattr(service.settings, body))
            strict = _StrictRequest(request.scope, request.receive)
            await strict.body()  # a slow sender must not block others
            async with service.tables if size > _SMALL else contextlib.nullcontext():
                return await inner(strict)

        async def handle(request: Request) -> Response:
            service: Service = request.app.state.service
            digest = read_digest(request.headers.get("authorization", ""))
            holder = None if digest is None else await run_in_threadpool(find, service.database, digest)
            if holder is None:
                raise refusals.no_valid_token()
            visit = request.state.visit = Visit(service, holder, action, _subject(request, template), outcome)
            try:
                response = await answer(request, visit)
            except Exception as error:  # noqa: BLE001 - every error gets an answer in the common form
                refusal = refusals.of_error(error)
                await run_in_threadpool(visit.record, refusal.status)
                raise refusal from None
            await run_in_threadpool(visit.record, response.status_code)
            return response

        return handle


def _subject(request: Request, template: str) -> str:
    """Return the path if its parameters are numbers, otherwise its template: callers' own words are not logged."""
    ids = request.path_params.values()
    plain = all(isinstance(each, str) and each.isascii() and each.isdigit() and len(each) < 20 for each in ids)
    return template.format(**request.path_params) if plain else template


async def _current_visit(request: Request) -> Visit:
    visit: Visit = request.state.visit
    return visit


CurrentVisit = Annotated[Visit, Depends(_current_visit)]


def _check_head(request: Request, limit: int) -> int:
    """Return the declared size of a JSON body, before any of it is read."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise Refusal(415, "unsupported_media_type", "the body must be application/json")
    size = request.headers.get("content-length", "")
    if not (size.isascii() and size.isdigit()):
        raise Refusal(411, "length_required", "the body must have a Content-Length", {"Connection": "close"})
    if int(size[:20]) > limit:
        raise Refusal(413, "too_large", f"the body is larger than {limit:,} bytes", {"Connection": "close"})
    return int(size)


class _StrictRequest(Request):
    """A request whose body is plain JSON."""

    async def json(self) -> Any:
        return await run_in_threadpool(parse, await self.body())


def parse(content: bytes) -> Any:
    """Read JSON; duplicate keys and NUL characters, which databases or other readers misread, are refused."""
    try:
        document = read_json(content)
    except AmbiguousJsonError as error:
        raise invalid(f"the body is not plain JSON: {error}") from None
    except ValueError as error:
        place = f" (line {error.lineno} column {error.colno})" if isinstance(error, json.JSONDecodeError) else ""
        raise invalid(f"the body is not JSON in UTF-8{place}") from None
    if b"\\u0000" in content:
        raise invalid("the body has a NUL character, which no text may have")
    return document
