"""The audit log: who asked for what, and how it ended.

Lines are numbered from 1 without gaps, in the order in which they are committed. A write has its line in its own
transaction; lines of reads and refusals wait a moment and are written together.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, func, insert, select

from shoal.agency.service import schema
from shoal.agency.service.database import AUDIT_LOCK, Database

MOST_WAITING = 20_000
_SECONDS = 0.1
_AT_ONCE = 2_000
_log = logging.getLogger("shoal.agency")


@dataclass(frozen=True, slots=True)
class Line:
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
    connection.execute(
        insert(schema.audit),
        [
            {
                "number": number,
                "at": line.at,
                "token_id": line.token_id,
                "role": line.role,
                "action": line.action,
                "subject": line.subject,
                "outcome": line.outcome,
            }
            for number, line in enumerate(lines, last + 1)
        ],
    )


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
        self._thread = threading.Thread(target=self._run, name="audit", daemon=True)

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
        except Exception:  # noqa: BLE001 - told already, and the end goes on
            _log.error("%d lines of the audit log are lost", self.waiting)

    @property
    def waiting(self) -> int:
        """How many lines wait."""
        return len(self._waiting)

    @property
    def full(self) -> bool:
        """Whether so many lines wait that nothing more may be answered."""
        return len(self._waiting) >= MOST_WAITING

    def put(self, line: Line) -> None:
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

    def _run(self) -> None:
        while not self._ending:
            self._wake.wait(_SECONDS)
            self._wake.clear()
            try:
                self.flush()
            except Exception:  # noqa: BLE001 - told already; without this thread nothing would be answered any more
                self._wake.wait(10 * _SECONDS)
