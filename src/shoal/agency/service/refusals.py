"""Everything that the service says instead of what it was asked for, in one form that repeats no value of a request.

What goes wrong inside the service is logged by kind and place, never with what a request or a record held.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from starlette.exceptions import HTTPException

from shoal.core.errors import ShoalError, UnreachableError, locate_failure

_CODES = {404: "not_found", 405: "method_not_allowed", 422: "invalid", 500: "internal", 503: "unavailable"}
_MESSAGES = {
    404: "there is nothing at this path",
    405: "this path does not know this method",
    500: "the service failed at this request; its log says where",
    503: "the database of the service does not answer or cannot be written; try again in a moment",
}
_AWAY = {"25006", "25P03"}  # PostgreSQL is read-only, or gave up on us; neither is a mistake of a statement
_log = logging.getLogger("shoal.agency")


class Refusal(HTTPException):
    """A request that is not carried out: status, a code for programs, a message for people that repeats no value."""

    def __init__(self, status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(status, message, headers)
        self.status, self.code, self.message = status, code, message
        self.content = {"error": {"code": code, "message": message}}

    def response(self) -> JSONResponse:
        """Return it as it is sent."""
        return JSONResponse(self.content, self.status, self.headers)


def no_valid_token() -> Refusal:
    """The same for an absent, an unknown and a revoked token."""
    return Refusal(
        401,
        "unauthorized",
        "a valid token is needed: Authorization: Bearer TOKEN",
        {"WWW-Authenticate": 'Bearer realm="shoal agency"'},
    )


def token_expired() -> Refusal:
    """The token was good once; only who has it can ask."""
    message = "the token has expired; have the agency renew it, which keeps the token, or make a new one"
    return Refusal(401, "expired", message, {"WWW-Authenticate": 'Bearer realm="shoal agency", error="invalid_token"'})


def absent(what: str) -> Refusal:
    """Something with this number does not exist."""
    return Refusal(404, "not_found", f"there is no such {what}")


def conflict(message: str, code: str = "wrong_state") -> Refusal:
    """The request is right, but not now."""
    return Refusal(409, code, message)


def invalid(message: str) -> Refusal:
    """The request is wrong."""
    return Refusal(422, "invalid", message)


def plain(status: int, headers: Mapping[str, str] | None = None) -> Refusal:
    """What the web framework or the database refuses, in our form."""
    return Refusal(
        status, _CODES.get(status, "refused"), _MESSAGES.get(status, "the request is not understood"), headers
    )


def of_validation(errors: Sequence[Any]) -> Refusal:
    """Name the first field that is wrong and why, without what was received."""
    if not errors:
        return invalid("the request is not what this path takes")
    first = errors[0]
    place = ".".join(str(part) for part in first.get("loc", ()) if isinstance(part, int) or part.isidentifier())
    kind = str(first.get("type", ""))
    # Keys that the schema does not have are the caller's own words.
    where = "the body" if kind == "extra_forbidden" else place[:200] or "the request"
    more = f", and {len(errors) - 1} more" if len(errors) > 1 else ""
    reason = "has a key that it may not have" if kind == "extra_forbidden" else f"is wrong: {_reason(kind, first)}"
    return invalid(f"{where} {reason}{more}")


def _reason(kind: str, error: Mapping[str, Any]) -> str:
    """Return pydantic's words where they come from the schema alone."""
    if kind in ("value_error", "assertion_error"):
        return str(error.get("ctx", {}).get("error", "not allowed"))
    message = str(error.get("msg", "not allowed"))
    return message[:1].lower() + message[1:300]


def of_error(error: Exception) -> Refusal:
    """Return what a caller learns of an error; one that nobody foresaw is logged."""
    if isinstance(error, Refusal):
        return error
    if isinstance(error, RequestValidationError):
        return of_validation(error.errors())
    if isinstance(error, HTTPException):
        return plain(error.status_code, error.headers)
    if isinstance(error, ShoalError):
        return Refusal(422, "unreachable", str(error)) if isinstance(error, UnreachableError) else invalid(str(error))
    if _is_of_the_database(error):
        _log.warning("the database did not do it: %s", type(error).__name__)
        return plain(503, {"Retry-After": "1"})
    _log.error("unexpected %s", locate_failure(error))
    return plain(500)


def _is_of_the_database(error: Exception) -> bool:
    """Whether the database is away, full, locked or overloaded, which may pass."""
    if isinstance(error, InterfaceError | OperationalError | PoolTimeoutError):
        return True
    if not isinstance(error, DBAPIError):
        return False
    return error.connection_invalidated or getattr(error.orig, "sqlstate", None) in _AWAY
