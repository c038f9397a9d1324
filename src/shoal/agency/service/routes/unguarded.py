"""Routes without a token: health, numbers for Prometheus, and the page about all routes."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from anyio import to_thread
from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.responses import HTMLResponse
from sqlalchemy import select

from shoal.agency.service import schema
from shoal.agency.service.answers import ErrorMessage, Health
from shoal.agency.service.metrics import CONTENT_TYPE
from shoal.agency.service.reference import reference_page
from shoal.agency.service.visits import Service

routes = APIRouter(tags=["service"])
_METRICS: dict[int | str, dict[str, Any]] = {
    200: {"description": "Prometheus' text form.", "content": {"text/plain": {"schema": {"type": "string"}}}}
}
_ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorMessage, "description": text}
    for status, text in (
        (429, "Too many requests."),
        (500, "The service failed."),
        (503, "The database does not answer, or the audit log cannot be written."),
    )
}


@routes.get("/healthz", operation_id="health", response_model=Health, responses=_ERRORS)
async def health(request: Request) -> Any:
    """Say whether the service reaches its database and writes its audit log; it has threads of its own for that."""
    service: Service = request.app.state.service
    await to_thread.run_sync(_asked, service, limiter=service.checkers)
    return {"status": "ok"}


def _asked(service: Service) -> None:
    with service.database.reading() as connection:
        connection.execute(select(schema.campaigns.c.id).limit(1)).all()
    if service.audit.failing:
        service.audit.flush()  # raises if it still fails


@routes.get("/metrics", operation_id="metrics", response_class=Response, responses={**_ERRORS, **_METRICS})
async def metrics(request: Request) -> Response:
    """Send counters of requests by route and status."""
    service: Service = request.app.state.service
    return Response(service.metrics.text(), media_type=CONTENT_TYPE)


@lru_cache(maxsize=1)
def _reference(app: FastAPI) -> tuple[str, str]:
    return reference_page(app.openapi())


@routes.get("/docs", include_in_schema=False)
async def reference(request: Request) -> Response:
    """Send the page about all routes."""
    page, policy = _reference(request.app)
    return HTMLResponse(page, headers={"Content-Security-Policy": policy})
