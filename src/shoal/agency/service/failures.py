"""What goes wrong inside the service: logged by kind and place, never with what a request or a record held."""

from __future__ import annotations

import logging
from pathlib import Path

from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from shoal.agency.service import refusals
from shoal.agency.service.refusals import Refusal

_log = logging.getLogger("shoal.agency")


def refusal_of(error: Exception) -> Refusal:
    """Return what a caller is told of an error that nobody foresaw."""
    if isinstance(error, InterfaceError | OperationalError | PoolTimeoutError):
        _log.warning("the database did not answer: %s", type(error).__name__)
        return refusals.plain(503, {"Retry-After": "1"})
    _log.error("unexpected %s at %s", type(error).__name__, _place(error))
    return refusals.plain(500)


def _place(error: Exception) -> str:
    trace, place = error.__traceback__, "an unknown place"
    while trace is not None:
        place = f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"
        trace = trace.tb_next
    return place
