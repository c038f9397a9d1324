"""A visit: one request of the holder of a token, with its line in the audit log.

Lines of the log are numbered from 1 without gaps, in the order of their commits. A write has its line in its own
transaction. The line of a read or a refusal is committed before the answer is sent.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from anyio import CapacityLimiter
from sqlalchemy import Connection, func, insert, select

from shoal.agency.service import schema
from shoal.agency.service.database import AUDIT_LOCK, Database
from shoal.agency.service.refusals import no_valid_token
from shoal.agency.service.settings import Settings
from shoal.agency.service.tokens import Holder, now, still_valid

_THREADS = 2


def append(
    database: Database, connection: Connection, token: int, role: str, action: str, subject: str, outcome: int
) -> None:
    """Append a line, as a transaction's last step: other writers wait here until it is committed."""
    database.lock(connection, AUDIT_LOCK)
    last = connection.execute(select(func.coalesce(func.max(schema.audit.c.number), 0))).scalar_one()
    line = {"at": now(), "token_id": token, "role": role, "action": action, "subject": subject, "outcome": outcome}
    connection.execute(insert(schema.audit), {"number": last + 1, **line})


class Service:
    """The state that all requests share."""

    def __init__(self, settings: Settings, database: Database) -> None:
        self.settings, self.database = settings, database
        self.planners = CapacityLimiter(_THREADS)  # concurrent plans
        self.tables = CapacityLimiter(_THREADS)  # concurrent large bodies; parsing one needs thirty times its size


@dataclass(slots=True)
class Visit:
    """One request of the holder of a token."""

    service: Service
    holder: Holder
    action: str
    subject: str  # a path
    outcome: int  # status on success
    recorded: bool = False

    @contextmanager
    def writing(self, *tokens: int) -> Iterator[Connection]:
        """Yield a transaction whose commit includes this visit's line of the audit log.

        A token that was revoked since the request began is refused. *tokens* are also locked.
        """
        with self.service.database.writing() as connection:
            if not still_valid(connection, self.holder.id, *tokens):
                raise no_valid_token()
            yield connection
            self._append(connection, self.outcome)
        self.recorded = True

    def owner_columns(self, campaign: int) -> dict[str, object]:
        """Return the columns for the owner who adds a row to a campaign, and the time."""
        return {"campaign_id": campaign, "owner": self.holder.name, "token_id": self.holder.id, "at": now()}

    def record(self, status: int) -> None:
        """Write the line, unless the transaction of a write has written it."""
        if not self.recorded:
            with self.service.database.writing() as connection:
                self._append(connection, status)

    def _append(self, connection: Connection, status: int) -> None:
        holder = self.holder
        append(self.service.database, connection, holder.id, holder.role, self.action, self.subject, status)
