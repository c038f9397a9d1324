"""The audit log, for the agency."""

from __future__ import annotations

from typing import Any

from sqlalchemy import select

from shoal.agency.service import schema
from shoal.agency.service.answers import AuditPage
from shoal.agency.service.guard import CurrentVisit, access
from shoal.agency.service.messages import After, Limit
from shoal.agency.service.routes.pages import errors, page, router

routes = router("audit")


@routes.get(
    "/v1/audit",
    operation_id="read_audit",
    response_model=AuditPage,
    responses=errors(),
    openapi_extra=access("agency"),
)
def read_audit(visit: CurrentVisit, after: After = 0, limit: Limit = 100) -> Any:
    """Read lines in the order in which they were written; all requests answered before this one are among them."""
    visit.service.audit.flush()
    table = schema.audit
    columns = (
        table.c.number,
        table.c.at,
        table.c.token_id.label("token"),
        table.c.role,
        table.c.action,
        table.c.subject,
        table.c.outcome,
    )
    with visit.reading() as connection:
        rows = connection.execute(select(*columns).where(table.c.number > after).order_by(table.c.number).limit(limit))
        return page(list(rows.mappings()), limit, "number")
