"""Lists in pages, and the answers that every route may give."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter

from shoal.agency.service.answers import ErrorMessage
from shoal.agency.service.guard import GuardedRoute

_ERRORS = {
    401: "No valid token.",
    403: "A token of another role.",
    404: "No such thing.",
    409: "Not in this state, or a limit is reached.",
    422: "The request is wrong.",
    429: "Too many requests.",
    500: "The service failed.",
    503: "The database does not answer, or the service is busy.",
}
_BODY_ERRORS = {
    400: "The body ended too soon.",
    408: "The body took too long.",
    413: "The body is too large.",
    415: "The body is no JSON.",
}


def errors(*, body: bool = False) -> dict[int | str, dict[str, Any]]:
    """Describe the refusals of a route."""
    told = {**_ERRORS, **(_BODY_ERRORS if body else {})}
    return {status: {"model": ErrorMessage, "description": text} for status, text in sorted(told.items())}


def router(tag: str) -> APIRouter:
    """Return a router whose routes are guarded."""
    return APIRouter(route_class=GuardedRoute, tags=[tag])


def page(rows: Sequence[Any], limit: int, key: str = "id", *, kept: bool = True) -> dict[str, Any]:
    """Return entries, and after which one the next page begins; None at the end."""
    items = [dict(row) for row in rows]
    following = items[-1][key] if len(items) == limit else None
    if not kept:
        items = [{name: value for name, value in item.items() if name != key} for item in items]
    return {"items": items, "next": following}
