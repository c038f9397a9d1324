"""Tokens of callers: 256 random bits, of which only the SHA-256 is kept."""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from sqlalchemy import Connection, bindparam, func, insert, select, update

from shoal.agency.service import schema
from shoal.agency.service.database import COUNT_LOCK, Database
from shoal.agency.service.refusals import absent, conflict

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
    """Whose token it is; owners are told apart by name, so that a token can be replaced by another."""

    id: int
    name: str
    role: Role
    valid: bool = True
    expired: bool = False


def now(days: int = 0) -> str:
    """Return the time, or that in so many days, as it is stored: texts compare as times do."""
    return (datetime.now(UTC) + timedelta(days=days)).isoformat(timespec="microseconds")


def read_digest(header: str) -> str | None:
    """Return the digest of the token in an Authorization header; None if there is none of our form."""
    found = _FORM.fullmatch(header)
    return None if found is None else hashlib.sha256(found[1].encode("ascii")).hexdigest()


def find(database: Database, digest: str) -> Holder | None:
    """Look a token up by its digest: one query, by an index."""
    with database.reading() as connection:
        row = connection.execute(_BY_DIGEST, {"digest": digest}).one_or_none()
    return (
        None
        if row is None
        else Holder(row.id, row.name, cast("Role", row.role), row.revoked_at is None, row.expires_at <= now())
    )


def create(database: Database, connection: Connection, asked: NewToken, limit: int) -> dict[str, Any]:
    """Make a token and return it as it is sent, this once: nobody will see it again."""
    database.lock(connection, COUNT_LOCK)
    valid = select(func.count()).select_from(schema.tokens).where(schema.tokens.c.revoked_at.is_(None))
    if connection.execute(valid).scalar_one() >= limit:
        raise conflict(f"there are {limit:,} valid tokens already; revoke some", "limit_reached")
    token = f"shoal_{secrets.token_urlsafe(32)}"
    shown = {"name": asked.name, "role": asked.role, "expires_at": now(asked.days)}
    digest = hashlib.sha256(token.encode("ascii")).hexdigest()
    made = insert(schema.tokens).values({**shown, "digest": digest, "created_at": now()}).returning(schema.tokens.c.id)
    return {"id": connection.execute(made).scalar_one(), **shown, "token": token}


def renew(connection: Connection, token: int, days: int) -> dict[str, Any]:
    """Let a token end in so many days from now, also one that has expired; a revoked one stays revoked."""
    table = schema.tokens
    here = table.c.id == token, table.c.revoked_at.is_(None)
    if not connection.execute(update(table).where(*here).values(expires_at=now(days))).rowcount:
        raise absent("token, or it was revoked")
    return dict(connection.execute(ENTRY.where(table.c.id == token)).mappings().one())


def revoke(connection: Connection, token: int) -> bool:
    """Revoke a token for good; False if there is none with this id. To revoke it again changes nothing."""
    table = schema.tokens
    connection.execute(update(table).where(table.c.id == token, table.c.revoked_at.is_(None)).values(revoked_at=now()))
    return connection.execute(select(table.c.id).where(table.c.id == token)).one_or_none() is not None


def still_valid(connection: Connection, token: int, *others: int) -> bool:
    """Whether a token is neither revoked nor expired; it stays so until the transaction ends, and so do the others.

    The lock is exclusive: shared ones of a busy caller would keep its own revocation waiting for ever. Several are
    locked in the order of their ids, so that two tokens that revoke each other do not wait for each other.
    """
    table = schema.tokens
    these = (
        select(table.c.id, table.c.revoked_at, table.c.expires_at)
        .where(table.c.id.in_((token, *others)))
        .order_by(table.c.id)
    )
    rows = connection.execute(these.with_for_update(key_share=True)).all()
    return any(row.id == token and row.revoked_at is None and row.expires_at > now() for row in rows)
