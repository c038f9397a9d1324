"""The way to every route of the agency: token, rate, role, then the body, and only then the route itself."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Annotated, Any

from fastapi import Depends, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute

from shoal.agency.service import refusals
from shoal.agency.service.bodies import SMALL, ParsedRequest, Room, parse, received
from shoal.agency.service.failures import refusal_of
from shoal.agency.service.refusals import Refusal
from shoal.agency.service.tokens import Holder, Role, digest_of, find
from shoal.agency.service.visits import Service, Visit
from shoal.core.errors import ShoalError, UnreachableError

ROLES_KEY, BODY_KEY = "x-roles", "x-body-limit"
_MOST_KNOWN = 20_000


def access(*roles: Role, body: str | None = None) -> dict[str, Any]:
    """Say who may use a route and which setting limits its body; the schema shows both."""
    limit = {} if body is None else {BODY_KEY: body}
    return {ROLES_KEY: list(roles), "security": [{"token": []}], **limit}


class GuardedRoute(APIRoute):
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
            holder = await _holder(service, request, lambda known: visit_of(service, request, known))
            visit = visit_of(service, request, holder)
            request.state.visit = visit
            room = Room(service.bodies)
            try:
                response = await answered(service, request, holder, room)
            finally:
                room.leave()
            visit.record(response.status_code)
            return response

        def visit_of(service: Service, request: Request, holder: Holder) -> Visit:
            return Visit(service, holder, action, _subject(request, template), outcome)

        async def answered(service: Service, request: Request, holder: Holder, room: Room) -> Response:
            try:
                if holder.role not in roles:
                    raise Refusal(403, "forbidden", f"this is for {' and '.join(sorted(roles))} tokens only")
                if body is None:
                    return await inner(request)
                content = await received(request, getattr(service.settings, body), service.settings.body_seconds, room)
                if len(content) <= SMALL:
                    return await inner(ParsedRequest(request, content, parse(content)))
                async with service.tables:
                    return await inner(ParsedRequest(request, content, await run_in_threadpool(parse, content)))
            except Refusal as refusal:
                return refusal.response()
            except RequestValidationError as error:
                return refusals.of_validation(error.errors()).response()
            except UnreachableError as error:
                return Refusal(422, "unreachable", str(error)).response()
            except ShoalError as error:
                return refusals.invalid(str(error)).response()
            except Exception as error:  # noqa: BLE001 - it must be a line of the audit log, too
                return refusal_of(error).response()

        return handle


async def _holder(service: Service, request: Request, visit: Callable[[Holder], Visit]) -> Holder:
    """Return whose token a request bears; who has none, or asks too often, is refused."""
    digest = digest_of(request.headers.get("authorization", ""))
    known = None if digest is None else service.known.get(digest)
    if known is not None and (wait := service.callers.take(known.id)):
        _record_crowd(service, known, visit)
        raise refusals.too_many(wait)
    holder = None if digest is None else await run_in_threadpool(_look_up, service, digest)
    if digest is None or holder is None or not holder.valid:
        wait = service.addresses.take(address_of(request))
        if holder is not None and wait:
            _record_crowd(service, holder, visit)
        elif holder is not None:
            visit(holder).record(401)
        raise refusals.too_many(wait) if wait else refusals.unauthorized()
    if known is None:
        if len(service.known) >= _MOST_KNOWN:
            service.known.clear()
        service.known[digest] = holder
        service.callers.take(holder.id)
    return holder


def _record_crowd(service: Service, holder: Holder, visit: Callable[[Holder], Visit]) -> None:
    """Have a line written that a token asks too often, once a second: nobody shall fill the disk, revoked or not."""
    if not service.crowds.take(holder.id):
        visit(holder).record(429)


def _look_up(service: Service, digest: str) -> Holder | None:
    with service.database.reading() as connection:
        return find(connection, digest)


def address_of(request: Request) -> str:
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
