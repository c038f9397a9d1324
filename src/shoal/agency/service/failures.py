"""What goes wrong inside the service: logged by kind and place, never with what a request or a record held."""

from __future__ import annotations

import logging
from pathlib import Path

from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from shoal.agency.service import refusals
from shoal.agency.service.database import TurnTimeoutError
from shoal.agency.service.refusals import Refusal

_AWAY = {"25006", "25P03"}  # PostgreSQL is read-only, or gave up on us; neither is a mistake of a statement
_log = logging.getLogger("shoal.agency")


def refusal_of(error: Exception) -> Refusal:
    """Return what a caller is told of an error that nobody foresaw."""
    if _is_of_the_database(error):
        _log.warning("the database did not do it: %s", type(error).__name__)
        return refusals.plain(503, {"Retry-After": "1"})
    _log.error("unexpected %s at %s", type(error).__name__, _place(error))
    return refusals.plain(500)


def _is_of_the_database(error: Exception) -> bool:
    """Whether the database is away, full, locked or overloaded, which may pass."""
    if isinstance(error, InterfaceError | OperationalError | PoolTimeoutError | TurnTimeoutError):
        return True
    if not isinstance(error, DBAPIError):
        return False
    return error.connection_invalidated or getattr(error.orig, "sqlstate", None) in _AWAY


def _place(error: Exception) -> str:
    trace, place = error.__traceback__, "an unknown place"
    while trace is not None:
        place = f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"
        trace = trace.tb_next
    return place
