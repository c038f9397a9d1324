"""Tokens: made, listed and revoked by the agency."""

from __future__ import annotations

from typing import Any

from fastapi import Response
from sqlalchemy import select

from shoal.agency.service import schema, tokens
from shoal.agency.service.answers import CreatedToken, TokenList
from shoal.agency.service.guard import CurrentVisit, access
from shoal.agency.service.messages import After, Id, Limit, NewToken
from shoal.agency.service.refusals import absent, conflict
from shoal.agency.service.routes.pages import errors, page, router

routes = router("tokens")


@routes.post(
    "/v1/tokens",
    operation_id="create_token",
    status_code=201,
    response_model=CreatedToken,
    responses=errors(body=True),
    openapi_extra=access("agency", body="body_bytes"),
)
def create_token(visit: CurrentVisit, asked: NewToken) -> Any:
    """Make a token for somebody; it is shown this once."""
    service = visit.service
    with visit.writing() as connection:
        number, token = tokens.create(service.database, connection, asked.name, asked.role, service.settings.tokens)
        visit.subject = f"/v1/tokens/{number}"
    return {"id": number, "name": asked.name, "role": asked.role, "token": token}


@routes.get(
    "/v1/tokens",
    operation_id="list_tokens",
    response_model=TokenList,
    responses=errors(),
    openapi_extra=access("agency"),
)
def list_tokens(visit: CurrentVisit, after: After = 0, limit: Limit = 100) -> Any:
    """List tokens, revoked ones too; never what they are."""
    table = schema.tokens
    columns = (table.c.id, table.c.name, table.c.role, table.c.created_at, table.c.revoked_at)
    with visit.reading() as connection:
        rows = connection.execute(select(*columns).where(table.c.id > after).order_by(table.c.id).limit(limit))
        return page(list(rows.mappings()), limit)


@routes.delete(
    "/v1/tokens/{token}",
    operation_id="revoke_token",
    status_code=204,
    responses=errors(),
    openapi_extra=access("agency"),
)
def revoke_token(visit: CurrentVisit, token: Id) -> Response:
    """Revoke a token for good; not the one that asks."""
    if token == visit.holder.id:
        raise conflict("a token cannot revoke itself; use another one of the agency", "own_token")
    with visit.writing(token) as connection:
        if not tokens.revoke(connection, token):
            raise absent("token")
    return Response(status_code=204)
