"""PostgreSQL through ADBC, which transfers rows in the binary COPY format."""

from __future__ import annotations

import re
from typing import ClassVar

import pyarrow as pa
import pyarrow.types as pt

from shoal.core.errors import InputError
from shoal.sources.addresses import DatabaseTable, Kind, quote_name
from shoal.sources.base import import_optional
from shoal.sources.databases.base import Column, Connection

_AS_THEY_COME = {
    "int2": pa.int16(),
    "int4": pa.int32(),
    "int8": pa.int64(),
    "float4": pa.float32(),
    "float8": pa.float64(),
    "bool": pa.bool_(),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
    **dict.fromkeys(("text", "varchar", "bpchar", "name", "char"), pa.string()),
}
# The narrowest type that can store every value.
_STORED = {
    **dict.fromkeys((pa.int8(), pa.uint8(), pa.int16()), ("smallint", pa.int16())),
    **dict.fromkeys((pa.uint16(), pa.int32()), ("integer", pa.int32())),
    **dict.fromkeys((pa.uint32(), pa.int64()), ("bigint", pa.int64())),
    pa.uint64(): ("numeric(20, 0)", pa.decimal128(20, 0)),
    pa.float32(): ("real", pa.float32()),
    pa.float64(): ("double precision", pa.float64()),
    pa.bool_(): ("boolean", pa.bool_()),
    pa.string(): ("text", pa.string()),
    **{kind: (name, kind) for name, kind in _AS_THEY_COME.items() if pt.is_temporal(kind)},
}
_DIGITS = 76  # precision of Arrow's largest decimal type
_SECONDS = 30  # until a server that does not answer is an error
_TABLES = """
SELECT CASE nspname WHEN 'public' THEN relname ELSE nspname || '.' || relname END AS name
FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
WHERE relkind IN ('r', 'v', 'm', 'p', 'f') AND nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')
"""
_REFUSALS = {
    "password authentication failed": "wrong user or password; PGPASSWORD and ~/.pgpass are read too",
    "no password supplied": "a password is needed; set PGPASSWORD or write ~/.pgpass",
    "no pg_hba.conf entry": "pg_hba.conf does not allow this user to connect from here",
    "does not exist": "the database or the user does not exist",
    "Connection refused": "no server listens there",
    "could not translate host name": "the host name is unknown",
    "timeout expired": "the server does not answer in time",
}
_STATES = {
    "57P01": "the server ended the connection",
    "53100": "the server's disk is full",
    "42501": "the user lacks the privilege",
    "25006": "a query that is read from must not write",
    "57014": "the server cancelled the query",
    "22021": "a text has a NUL character, which PostgreSQL cannot store",
}


class PostgreSQL(Connection):
    """A transaction that sees the database as it was at one moment."""

    kind: ClassVar[Kind] = "postgresql"
    stored = _STORED
    decimals = ("numeric", _DIGITS)

    def __init__(self, asked: DatabaseTable, *, write: bool) -> None:
        super().__init__(asked)
        self._driver = import_optional("adbc_driver_postgresql.dbapi", "PostgreSQL", "databases")
        separator = "&" if "?" in asked.address else "?"
        patience = "" if "connect_timeout=" in asked.address else f"{separator}connect_timeout={_SECONDS}"
        try:
            self._connection = self._driver.connect(asked.address + patience)
        except self.failures as error:
            message = str(error)
            reasons = (words for sign, words in _REFUSALS.items() if sign in message)
            reason = next(reasons, "the server refuses the connection")
            raise InputError(f"cannot connect to the PostgreSQL server at {asked.server}: {reason}") from None
        self._cursor = self._connection.cursor()
        if not write:
            self._cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")

    def tables(self) -> list[str]:
        """Return all tables and views except for system tables."""
        return [name for (name,) in self._answer(_TABLES)]

    def exists(self) -> bool:
        """Whether the search path finds the table."""
        ((found,),) = self._answer(f"SELECT to_regclass({_literal(quote_name(*self.asked.parts))})::text")
        return found is not None

    def columns(self) -> list[Column]:
        """Return the columns; numbers without declared precision are read to find it."""
        with self._reading():
            schema = self._cursor.adbc_execute_schema(f"SELECT * FROM {self.asked.relation}")  # noqa: S608
            return [self._column(field) for field in schema]

    def reason(self, error: Exception) -> str:
        """Describe an error, in the server's own words only if they are about the query and not about rows."""
        state = getattr(error, "sqlstate", None) or ""
        if state in _STATES:
            return _STATES[state]
        if state.startswith(("42", "3F")):
            found = re.search(r"ERROR:\s+(.*)", str(error))
            return found[1] if found else "the query is not valid"
        if state:
            return f"the server reports an error (state {state})"
        return "the server stopped at a row; does a cast fail?" if "ERROR:" in str(error) else "the connection broke"

    def _column(self, field: pa.Field) -> Column:
        name, given = field.name, (field.metadata or {}).get(b"POSTGRESQL:type", b"").decode()
        place = quote_name(name)
        if given in _AS_THEY_COME:
            return Column(name, place, _AS_THEY_COME[given], given)
        if given == "numeric":
            return Column(name, place, self._decimal(place, int(field.metadata.get(b"POSTGRESQL:typmod", -1))), given)
        number = re.fullmatch(r"unnamed<oid:(\d+)>", given)  # a type created after the driver read the types
        which = f"oid = {number[1]}" if number else f"typname = {_literal(given)}"
        types = self._answer(f"SELECT typname::text, typtype::text FROM pg_type WHERE {which}")  # noqa: S608
        if given in ("uuid", "citext") or (types and all(sort == "e" for _, sort in types)):
            return Column(name, f"{place}::text AS {place}", pa.string(), given)
        return Column(name, place, None, types[0][0] if types else given)

    def _decimal(self, place: str, modifier: int) -> pa.DataType | None:
        """Return the decimal type that a numeric column declares or that its values need."""
        digits, scale = ((modifier - 4) >> 16) & 0xFFFF, (modifier - 4) & 0x7FF
        if modifier < 4 or scale > digits:
            ((digits, scale),) = self._answer(
                f"SELECT coalesce(max(length(trunc(abs({place}))::text)), 1), coalesce(max(scale({place})), 0) "  # noqa: S608
                f"FROM {self.asked.relation} WHERE {place}::text NOT IN ('NaN', 'Infinity', '-Infinity')"
            )
            digits += scale
        if digits > _DIGITS:
            return None
        return pa.decimal128(digits, scale) if digits <= 38 else pa.decimal256(digits, scale)


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
