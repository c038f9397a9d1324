"""Routes for the agency's staff, tokens and the audit log; and the public routes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse
from pydantic import ValidationError
from sqlalchemy import Connection, select

from shoal.agency.service import messages, schema, tokens
from shoal.agency.service.database import Database, naming_failures, open_with_tables, read_page
from shoal.agency.service.guard import CurrentVisit, Routes
from shoal.agency.service.refusals import Refusal, absent, conflict
from shoal.agency.service.settings import Settings
from shoal.agency.service.visits import Service, append
from shoal.core.errors import UsageError
from shoal.reports.templates import environment

routes, unguarded = Routes("administration"), APIRouter(tags=["service"])
_PAGE_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_ERRORS: dict[int | str, dict[str, Any]] = {
    status: entry for status, entry in messages.describe_errors().items() if status in (500, 503)
}


@routes.serve("POST /v1/tokens", ("agency",), messages.CreatedToken, status=201, body="body_bytes")
def create_token(visit: CurrentVisit, asked: messages.NewToken) -> Any:
    """Make a token; its secret is shown only once."""
    service = visit.service
    with visit.writing() as connection:
        made = tokens.create(service.database, connection, asked, service.settings.tokens)
        visit.subject = f"/v1/tokens/{made['id']}"
    return made


@routes.serve("POST /v1/tokens/{token}/renewal", ("agency",), messages.TokenEntry, body="body_bytes")
def renew_token(visit: CurrentVisit, token: messages.Id, asked: messages.Lifetime) -> Any:
    """Extend a token, even an expired one, to a number of days from now."""
    with visit.writing(token) as connection:
        return tokens.renew(connection, token, asked.days)


@routes.serve("GET /v1/tokens", ("agency",), messages.Page[messages.TokenEntry])
def list_tokens(visit: CurrentVisit, paging: messages.CurrentPage) -> Any:
    """List tokens, including revoked ones, without their secrets."""
    with visit.service.database.reading() as connection:
        return read_page(connection, tokens.ENTRY, schema.tokens.c.id, paging)


@routes.serve("DELETE /v1/tokens/{token}", ("agency",), status=204)
def revoke_token(visit: CurrentVisit, token: messages.Id) -> Response:
    """Revoke another token for good."""
    if token == visit.holder.id:
        raise conflict("a token cannot revoke itself; use another one of the agency", "own_token")
    with visit.writing(token) as connection:
        if not tokens.revoke(connection, token):
            raise absent("token")
    return Response(status_code=204)


@routes.serve("GET /v1/audit", ("agency",), messages.Page[messages.AuditLine])
def read_audit(visit: CurrentVisit, paging: messages.CurrentPage) -> Any:
    """Read lines in the order of their commits; they include all requests answered before this one."""
    table = schema.audit
    columns = [column.label("token") if column.name == "token_id" else column for column in table.c]
    with visit.service.database.reading() as connection:
        return read_page(connection, select(*columns), table.c.number, paging)


@unguarded.get("/healthz", operation_id="health", response_model=messages.Health, responses=_ERRORS)
def health(request: Request) -> Any:
    """Return whether the service reaches its database."""
    service: Service = request.app.state.service
    with service.database.reading() as connection:
        connection.execute(select(schema.campaigns.c.id).limit(1)).all()
    return {"status": "ok"}


@unguarded.get("/docs", include_in_schema=False)
async def reference(request: Request) -> Response:
    """Send the page about all routes: no scripts, no external resources."""
    page = render_reference(request.app.openapi())
    return HTMLResponse(page, headers={"Content-Security-Policy": _PAGE_POLICY})


def render_reference(schema: Mapping[str, Any]) -> str:
    return environment(Path(__file__).parent).get_template("reference.html").render(schema=schema)


def create_first_token(settings: Settings, name: str, role: str, days: int) -> dict[str, Any]:
    """Make a token without the service, with its line in the audit log, and return it as the service does."""
    try:
        asked = messages.NewToken.model_validate({"name": name, "role": role, "days": days})
    except ValidationError:
        known = ", ".join(tokens.ROLES)
        raise UsageError(f"--role must be one of {known}, and --name a text of 1 to 200 characters") from None
    with _write_beside(settings) as (database, connection):
        made = tokens.create(database, connection, asked, settings.tokens)
        place = f"/v1/tokens/{made['id']}"
        append(database, connection, made["id"], role, "create_token_by_command", place, 201)
    return made


def renew_beside(settings: Settings, token: int, days: int) -> dict[str, Any]:
    """Renew a token without the service, for example the agency's last one after it has expired."""
    with _write_beside(settings) as (database, connection):
        made = tokens.renew(connection, token, days)
        place = f"/v1/tokens/{token}"
        append(database, connection, token, made["role"], "renew_token_by_command", place, 200)
    return made


@contextmanager
def _write_beside(settings: Settings) -> Iterator[tuple[Database, Connection]]:
    """Yield a transaction in the database; the service need not run."""
    database = open_with_tables(settings.database, creating=False)
    try:
        with naming_failures(database), database.writing() as connection:
            yield database, connection
    except Refusal as refusal:
        raise UsageError(refusal.message) from None
    finally:
        database.engine.dispose()
