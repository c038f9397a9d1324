"""What all requests share, and the visit: one request of a known caller, with its line in the audit log.

Lines of the log are numbered from 1 without gaps, in the order in which they are committed. A write has its line in its
own transaction. The line of a read or a refusal is committed before the answer is sent.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from anyio import CapacityLimiter
from sqlalchemy import Connection, func, insert, select

from shoal.agency.service import schema
from shoal.agency.service.database import AUDIT_LOCK, Database
from shoal.agency.service.refusals import no_valid_token
from shoal.agency.service.settings import Settings
from shoal.agency.service.tokens import Holder, now, still_valid

_THREADS = 2


class Line(NamedTuple):
    """One line of the audit log, before it has its number."""

    at: str
    token_id: int
    role: str
    action: str
    subject: str
    outcome: int


def append(database: Database, connection: Connection, line: Line) -> None:
    """Write a line at the end. It must be a transaction's last step: others wait here until it is committed."""
    database.lock(connection, AUDIT_LOCK)
    last = connection.execute(select(func.coalesce(func.max(schema.audit.c.number), 0))).scalar_one()
    connection.execute(insert(schema.audit), {"number": last + 1, **line._asdict()})


class Service:
    """What all requests share."""

    def __init__(self, settings: Settings, database: Database) -> None:
        self.settings, self.database = settings, database
        self.planners = CapacityLimiter(_THREADS)  # threads that make plans
        self.tables = CapacityLimiter(_THREADS)  # large bodies at a time: parsed, one takes thirty times its bytes


@dataclass(slots=True)
class Visit:
    """One request of a holder of a token."""

    service: Service
    holder: Holder
    action: str
    subject: str  # a path
    outcome: int  # status if all goes well
    recorded: bool = False

    @contextmanager
    def writing(self, *tokens: int) -> Iterator[Connection]:
        """Yield a transaction which, when it is committed, has this visit's line of the audit log.

        A token that was revoked since the request began is refused. *tokens* are those that it will change.
        """
        database = self.service.database
        with database.writing() as connection:
            if not still_valid(connection, self.holder.id, *tokens):
                raise no_valid_token()
            yield connection
            append(database, connection, self._line(self.outcome))
        self.recorded = True

    def reading(self) -> AbstractContextManager[Connection]:
        """Return a connection to read from."""
        return self.service.database.reading()

    def owner_columns(self, campaign: int) -> dict[str, object]:
        """Return the columns that say who adds a row to a campaign, and when."""
        return {"campaign_id": campaign, "owner": self.holder.name, "token_id": self.holder.id, "at": now()}

    def record(self, status: int) -> None:
        """Write the line, unless the transaction of a write has written it."""
        if not self.recorded:
            with self.service.database.writing() as connection:
                append(self.service.database, connection, self._line(status))

    def _line(self, status: int) -> Line:
        return Line(now(), self.holder.id, self.holder.role, self.action, self.subject, status)
