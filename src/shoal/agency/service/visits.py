"""A visit is one request of a known caller: what it may use, and how it gets its line in the audit log."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from anyio import CapacityLimiter
from sqlalchemy import Connection

from shoal.agency.service.audit import AuditQueue, Line, append
from shoal.agency.service.bodies import Waiting
from shoal.agency.service.database import Database
from shoal.agency.service.limits import Buckets
from shoal.agency.service.metrics import Metrics
from shoal.agency.service.plan_cache import PlanCache
from shoal.agency.service.refusals import unauthorized
from shoal.agency.service.settings import Settings
from shoal.agency.service.tokens import Holder, now, still_valid


@dataclass(frozen=True, slots=True)
class Service:
    """What all requests share."""

    settings: Settings
    database: Database
    audit: AuditQueue
    plans: PlanCache
    callers: Buckets
    addresses: Buckets
    crowds: Buckets  # lines about too many requests
    bodies: Waiting
    metrics: Metrics
    planners: CapacityLimiter  # threads that make plans
    checkers: CapacityLimiter  # threads that look after health
    tables: CapacityLimiter  # large bodies that are parsed and handled
    known: dict[str, Holder] = field(default_factory=dict)  # by digest, to limit callers without a query


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
                raise unauthorized()
            yield connection
            append(database, connection, [self.line(self.outcome)])
        self.recorded = True

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Yield a connection to read from."""
        with self.service.database.reading() as connection:
            yield connection

    def record(self, status: int) -> None:
        """Have the line written soon, unless the write has written it."""
        if not self.recorded:
            self.service.audit.put(self.line(status))

    def line(self, status: int) -> Line:
        """Return the line of this visit."""
        return Line(now(), self.holder.id, self.holder.role, self.action, self.subject, status)
