"""What all requests share, and the visit: one request of a known caller, with its line in the audit log.

Lines of the log are numbered from 1 without gaps, in the order in which they are committed. A write has its line in its
own transaction; lines of reads and refusals wait a moment and are written together.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from anyio import CapacityLimiter
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from sqlalchemy import Connection, func, insert, select

from shoal.agency.service.database import AUDIT_LOCK, Database
from shoal.agency.service.migrations.versions import v0002_campaigns as schema
from shoal.agency.service.refusals import no_valid_token
from shoal.agency.service.settings import Settings
from shoal.agency.service.tokens import Holder, now, still_valid

MOST_WAITING = 20_000  # lines of the audit log
_SECONDS = 0.1
_AT_ONCE = 2_000
_THREADS = 2
_METHODS = frozenset({"GET", "PUT", "POST", "DELETE"})
_DURATIONS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)
_log = logging.getLogger("shoal.agency")


class Buckets:
    """Buckets by key, at most so many; used by the event loop alone, so it needs no lock.

    A forgotten bucket is a full one: the oldest is forgotten, which helps nobody who still has one to empty.
    """

    def __init__(
        self, rate: float, burst: int, most: int = 10_000, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Fill every bucket up to *burst*, by *rate* a second."""
        self._rate, self._burst, self._most, self._clock = rate, burst, most, clock
        self._buckets: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()  # level, when

    def take(self, key: Hashable) -> float:
        """Take one from a bucket and return 0, or return in how many seconds there will be one.

        >>> now = iter([0.0, 0.0, 0.0, 0.5])
        >>> buckets = Buckets(2, 2, clock=lambda: next(now))
        >>> [buckets.take("a") for _ in range(4)]
        [0.0, 0.0, 0.5, 0.0]
        """
        now = self._clock()
        level, since = self._buckets.pop(key, (float(self._burst), now))
        level = min(float(self._burst), level + (now - since) * self._rate)
        wait = 0.0 if level >= 1 else (1 - level) / self._rate
        self._buckets[key] = (level if wait else level - 1, now)
        if len(self._buckets) > self._most:
            self._buckets.popitem(last=False)
        return wait


class SentPlan(NamedTuple):
    """The document of a plan and its digest."""

    digest: str
    content: bytes


class PlanCache:
    """The plans that were asked for last, up to a number of bytes."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._plans: OrderedDict[int, SentPlan] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, campaign: int) -> SentPlan | None:
        """Return the plan of a campaign, if it is here."""
        with self._lock:
            if campaign in self._plans:
                self._plans.move_to_end(campaign)
            return self._plans.get(campaign)

    def store(self, campaign: int, plan: SentPlan) -> None:
        """Keep a plan, and forget those that were not asked for longest; one that is too large is not kept."""
        if len(plan.content) > self._most:
            return
        with self._lock:
            self._plans[campaign] = plan
            while sum(len(each.content) for each in self._plans.values()) > self._most:
                self._plans.popitem(last=False)


class Metrics:
    """What Prometheus learns, by route and status, and nothing of what was in a request."""

    def __init__(self, audit_lines: Callable[[], float], body_bytes: Callable[[], float]) -> None:
        """Begin at zero, apart from any other service in the process; the functions return how much waits."""
        self._registry = own = CollectorRegistry()
        labels = ["method", "route"]
        self._requests = Counter("shoal_agency_requests", "Requests answered.", [*labels, "status"], registry=own)
        self._seconds = Histogram(
            "shoal_agency_request_seconds", "Time until the answer began.", labels, buckets=_DURATIONS, registry=own
        )
        self._under_way = Gauge("shoal_agency_requests_under_way", "Requests under way.", registry=own)
        waiting = Gauge("shoal_agency_audit_lines_waiting", "Lines of the audit log not yet written.", registry=own)
        waiting.set_function(audit_lines)
        held = Gauge("shoal_agency_body_bytes", "Bytes of bodies in memory.", registry=own)
        held.set_function(body_bytes)

    def begin(self) -> None:
        """A request came."""
        self._under_way.inc()

    def end(self, method: str, route: str, status: int, seconds: float) -> None:
        """It was answered; routes are templates, so their number is bounded."""
        self._under_way.dec()
        known = method if method in _METHODS else "other"
        self._requests.labels(known, route, str(status)).inc()
        self._seconds.labels(known, route).observe(seconds)

    def text(self) -> bytes:
        """Return all numbers in Prometheus' form."""
        return generate_latest(self._registry)


class Line(NamedTuple):
    """One line, before it has its number."""

    at: str
    token_id: int
    role: str
    action: str
    subject: str
    outcome: int


def append(database: Database, connection: Connection, lines: Sequence[Line]) -> None:
    """Write lines at the end; must be the last that a transaction does, for others wait here for its commit."""
    database.lock(connection, AUDIT_LOCK)
    last = connection.execute(select(func.coalesce(func.max(schema.audit.c.number), 0))).scalar_one()
    numbered = [{"number": number, **line._asdict()} for number, line in enumerate(lines, last + 1)]
    connection.execute(insert(schema.audit), numbered)


class AuditQueue:
    """Lines that wait for a thread which writes them; none is dropped as long as the process lives."""

    def __init__(self, database: Database) -> None:
        """Start with nothing waiting and no thread."""
        self._database = database
        self._waiting: list[Line] = []
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._wake = threading.Event()
        self._ending = False
        self.failing = False  # whether the last attempt to write failed
        self._thread = threading.Thread(target=self._keep_writing, name="audit", daemon=True)

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def stop(self) -> None:
        """Write what waits, and end; lines that cannot be written even now are lost, which is said."""
        self._ending = True
        self._wake.set()
        self._thread.join()
        try:
            self.flush()
        except Exception:  # noqa: BLE001 - logged already, and the end goes on
            _log.error("%d lines of the audit log are lost", self.waiting)

    @property
    def waiting(self) -> int:
        """How many lines wait."""
        return len(self._waiting)

    @property
    def full(self) -> bool:
        """Whether so many lines wait that nothing more may be answered."""
        return len(self._waiting) >= MOST_WAITING

    def add(self, line: Line) -> None:
        """Have a line written soon."""
        with self._lock:
            self._waiting.append(line)
        if len(self._waiting) >= _AT_ONCE:
            self._wake.set()

    def flush(self) -> None:
        """Write everything that waits by now."""
        with self._writing:
            try:
                self._write()
            except Exception as error:
                if not self.failing:
                    _log.error("the audit log cannot be written (%s); trying again", type(error).__name__)
                self.failing = True
                raise
            if self.failing:
                _log.warning("the audit log is written again")
            self.failing = False

    def _write(self) -> None:
        while lines := self._waiting[:_AT_ONCE]:
            with self._database.writing() as connection:
                append(self._database, connection, lines)
            with self._lock:
                del self._waiting[: len(lines)]

    def _keep_writing(self) -> None:
        while not self._ending:
            self._wake.wait(_SECONDS)
            self._wake.clear()
            try:
                self.flush()
            except Exception:  # noqa: BLE001 - logged already; without this thread nothing would be answered any more
                self._wake.wait(10 * _SECONDS)


class Service:
    """What all requests share."""

    def __init__(self, settings: Settings, database: Database) -> None:
        self.settings, self.database = settings, database
        self.audit = AuditQueue(database)
        self.plans = PlanCache(settings.cache_bytes)
        self.callers = Buckets(settings.rate, settings.burst)
        self.addresses = Buckets(settings.address_rate, settings.address_burst)
        self.crowds = Buckets(1, 1)  # lines about too many requests: one a second of a token
        self.body_bytes = 0  # of all bodies in memory; only the event loop counts them
        self.metrics = Metrics(lambda: self.audit.waiting, lambda: self.body_bytes)
        self.planners = CapacityLimiter(_THREADS)  # threads that make plans
        self.checkers = CapacityLimiter(_THREADS)  # threads that look after health
        self.tables = CapacityLimiter(_THREADS)  # large bodies at a time: parsed, one takes thirty times its bytes
        self.known: dict[str, Holder] = {}  # by digest, to limit callers without a query


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
            append(database, connection, [self.line(self.outcome)])
        self.recorded = True

    def reading(self) -> AbstractContextManager[Connection]:
        """Return a connection to read from."""
        return self.service.database.reading()

    def owner_columns(self, campaign: int) -> dict[str, object]:
        """Return the columns that say who adds a row to a campaign, and when."""
        return {"campaign_id": campaign, "owner": self.holder.name, "token_id": self.holder.id, "at": now()}

    def record(self, status: int) -> None:
        """Have the line written soon, unless the write has written it."""
        if not self.recorded:
            self.service.audit.add(self.line(status))

    def line(self, status: int) -> Line:
        """Return the line of this visit."""
        return Line(now(), self.holder.id, self.holder.role, self.action, self.subject, status)
