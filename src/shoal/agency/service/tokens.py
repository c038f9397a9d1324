"""Tokens of callers: 256 random bits, stored as their SHA-256 only."""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from sqlalchemy import Connection, bindparam, select, update

from shoal.agency.service import schema
from shoal.agency.service.database import Database, insert_limited
from shoal.agency.service.refusals import absent

if TYPE_CHECKING:
    from shoal.agency.service.messages import NewToken

Role: TypeAlias = Literal["agency", "owner", "client"]
ROLES: tuple[Role, ...] = ("agency", "owner", "client")
ENTRY = select(*(column for column in schema.tokens.c if column.name != "digest"))
_FORM = re.compile(r"Bearer +(shoal_[A-Za-z0-9_-]{43})", re.IGNORECASE)
_BY_DIGEST = select(*(schema.tokens.c[name] for name in ("id", "name", "role", "revoked_at", "expires_at"))).where(
    schema.tokens.c.digest == bindparam("digest")
)


@dataclass(frozen=True, slots=True)
class Holder:
    """The holder of a token. Names identify owners, which lets a new token replace an old one."""

    id: int
    name: str
    role: Role
    valid: bool = True
    expired: bool = False


def now(days: int = 0) -> str:
    """Return the current time plus a number of days as it is stored: these strings sort by time."""
    return (datetime.now(UTC) + timedelta(days=days)).isoformat(timespec="microseconds")


def read_digest(header: str) -> str | None:
    """Return the digest of the token in an Authorization header; None if the header has no such token."""
    found = _FORM.fullmatch(header)
    return None if found is None else hashlib.sha256(found[1].encode("ascii")).hexdigest()


def find(database: Database, digest: str) -> Holder | None:
    with database.reading() as connection:
        row = connection.execute(_BY_DIGEST, {"digest": digest}).one_or_none()
    if row is None:
        return None
    return Holder(row.id, row.name, cast("Role", row.role), row.revoked_at is None, row.expires_at <= now())


def create(database: Database, connection: Connection, asked: NewToken, limit: int) -> dict[str, Any]:
    """Make a token and return it with its secret, which is not stored."""
    table = schema.tokens
    token = f"shoal_{secrets.token_urlsafe(32)}"
    shown = {"name": asked.name, "role": asked.role, "expires_at": now(asked.days)}
    digest = hashlib.sha256(token.encode("ascii")).hexdigest()
    values = {**shown, "digest": digest, "created_at": now()}
    message = f"there are {limit:,} valid tokens already; revoke some"
    number = insert_limited(database, connection, table, values, limit, message, table.c.revoked_at.is_(None))
    return {"id": number, **shown, "token": token}


def renew(connection: Connection, token: int, days: int) -> dict[str, Any]:
    """Extend a token, even an expired one, to a number of days from now; a revoked token stays revoked."""
    table = schema.tokens
    here = table.c.id == token, table.c.revoked_at.is_(None)
    if not connection.execute(update(table).where(*here).values(expires_at=now(days))).rowcount:
        raise absent("token, or it was revoked")
    return dict(connection.execute(ENTRY.where(table.c.id == token)).mappings().one())


def revoke(connection: Connection, token: int) -> bool:
    """Revoke a token for good; return whether it exists. A second call changes nothing."""
    table = schema.tokens
    connection.execute(update(table).where(table.c.id == token, table.c.revoked_at.is_(None)).values(revoked_at=now()))
    return connection.execute(select(table.c.id).where(table.c.id == token)).one_or_none() is not None


def still_valid(connection: Connection, token: int, *others: int) -> bool:
    """Return whether a token is neither revoked nor expired; it and the others are locked until the transaction ends.

    The lock is exclusive: with shared locks, a busy caller could delay its own revocation without end. Locks are taken
    in the order of ids, so two tokens that revoke each other do not wait for each other.
    """
    table = schema.tokens
    these = (
        select(table.c.id, table.c.revoked_at, table.c.expires_at)
        .where(table.c.id.in_((token, *others)))
        .order_by(table.c.id)
    )
    rows = connection.execute(these.with_for_update(key_share=True)).all()
    return any(row.id == token and row.revoked_at is None and row.expires_at > now() for row in rows)
