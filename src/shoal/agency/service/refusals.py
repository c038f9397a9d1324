"""The form of all refusals, which repeat no value of a request.

Failures of the service are logged by kind and place, never with the content of a request or a record.
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
from starlette.requests import ClientDisconnect

from shoal.core.errors import ShoalError, UnreachableError, locate_failure

_KNOWN = {
    400: ("disconnected", "the body ended too soon"),
    404: ("not_found", "there is nothing at this path"),
    405: ("method_not_allowed", "this path does not support this method"),
    500: ("internal", "the service failed; its log has the place of the failure"),
    503: ("unavailable", "the database does not respond or cannot be written; try again in a moment"),
}
_AWAY = {"25006", "25P03"}  # PostgreSQL is read-only, or closed the session
_log = logging.getLogger("shoal.agency")


class Refusal(HTTPException):
    """A request that is not carried out: a status, a code for programs, and a message for people."""

    def __init__(self, status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(status, message, headers)
        self.status, self.code, self.message = status, code, message

    def response(self) -> JSONResponse:
        return JSONResponse({"error": {"code": self.code, "message": self.message}}, self.status, self.headers)


def no_valid_token() -> Refusal:
    """Return the same refusal for an absent, an unknown and a revoked token."""
    message = "a valid token is needed: Authorization: Bearer TOKEN"
    return Refusal(401, "unauthorized", message, {"WWW-Authenticate": 'Bearer realm="shoal agency"'})


def token_expired() -> Refusal:
    """Return the refusal of an expired token, which only its holder can see."""
    message = "the token has expired; ask the agency to renew it, which keeps the token, or to make a new one"
    return Refusal(401, "expired", message, {"WWW-Authenticate": 'Bearer realm="shoal agency", error="invalid_token"'})


def absent(what: str) -> Refusal:
    return Refusal(404, "not_found", f"this {what} does not exist")


def conflict(message: str, code: str = "wrong_state") -> Refusal:
    return Refusal(409, code, message)


def invalid(message: str) -> Refusal:
    return Refusal(422, "invalid", message)


def plain(status: int, headers: Mapping[str, str] | None = None) -> Refusal:
    """Return a refusal of the web framework or the database in the service's form."""
    return Refusal(status, *_KNOWN.get(status, ("refused", "the request is not understood")), headers)


def of_validation(errors: Sequence[Any]) -> Refusal:
    """Name the first wrong field and the reason, without the received value."""
    if not errors:
        return invalid("the request does not fit this path")
    first, more = errors[0], f", and {len(errors) - 1} more" if len(errors) > 1 else ""
    kind = first.get("type", "")
    if kind == "extra_forbidden":  # the unknown key is the caller's own word
        return invalid(f"the body has an unexpected key{more}")
    place = ".".join(str(part) for part in first.get("loc", ()) if isinstance(part, int) or part.isidentifier())
    reason = str(first.get("msg", "not allowed"))
    reason = reason[:1].lower() + reason[1:300]
    if kind in ("value_error", "assertion_error"):
        reason = str(first.get("ctx", {}).get("error", "not allowed"))
    return invalid(f"{place[:200] or 'the request'} is wrong: {reason}{more}")


def of_error(error: Exception) -> Refusal:
    """Return the refusal for an error; an unexpected one is logged."""
    if isinstance(error, Refusal):
        return error
    if isinstance(error, RequestValidationError):
        return of_validation(error.errors())
    if isinstance(error, HTTPException):
        return plain(error.status_code, error.headers)
    if isinstance(error, ClientDisconnect):
        return plain(400)
    if isinstance(error, ShoalError):
        return Refusal(422, "unreachable", str(error)) if isinstance(error, UnreachableError) else invalid(str(error))
    temporary = isinstance(error, InterfaceError | OperationalError | PoolTimeoutError)
    if not temporary and isinstance(error, DBAPIError):
        temporary = error.connection_invalidated or getattr(error.orig, "sqlstate", None) in _AWAY
    if temporary:
        _log.warning("the database refused: %s", type(error).__name__)
        return plain(503, {"Retry-After": "1"})
    _log.error("unexpected %s", locate_failure(error))
    return plain(500)
