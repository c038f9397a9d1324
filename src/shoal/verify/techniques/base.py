"""The entry of a column that was changed before anything else, and the values that a column holds.

The verifier shares no code with the techniques that changed the columns. A technique is a strict model of its entry in
the manifest. It says how published values must look, and which values of the source they can come from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Self, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, model_validator

from shoal.core.arrays import FloatArray
from shoal.manifest import StrictEntry
from shoal.verify.covers import is_text
from shoal.verify.engine import Engine, quote_text, read_as

MOST_DECIMALS = 9
Decimals = Annotated[int, Field(ge=0, le=MOST_DECIMALS)]
_NUMBER = r"^\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\s*$"
_FLOATS = ("DOUBLE", "FLOAT")
_NUMERIC = ("INT", "INTEGER", *_FLOATS)  # ends of the names of types in DuckDB
Demands: TypeAlias = Mapping[str, Callable[[Any], bool]]  # the fault of an entry -> the condition that excludes it
SAME_GAPS = "neither values nor missing values are more frequent than in the source"


@dataclass(frozen=True, slots=True)
class Column:
    """The distinct values of a column: a table of each value v, its text t, its number x, and the n rows with it."""

    engine: Engine
    table: str
    present: int  # rows that have a value
    missing: int

    @classmethod
    def count(cls, engine: Engine, table: str, query: str) -> Column:
        """Count the values v that a query returns; NULL is missing."""
        kind = find_kind(engine, f"SELECT v FROM {query}")
        text = "regexp_replace(v::VARCHAR, '[.]0$', '')" if kind in _FLOATS else "v::VARCHAR"
        counted = f"SELECT v, count(*) AS n FROM {query} GROUP BY 1"
        engine.make(table, f"SELECT v, {text} AS t, {write_number('v', kind)} AS x, n FROM ({counted})")
        return cls.of_table(engine, table)

    @classmethod
    def of_table(cls, engine: Engine, table: str) -> Column:
        """Read a table of such columns, in which rows without a value count the missing values."""
        sums = (f"coalesce(sum(n) FILTER (v IS {which}NULL), 0)" for which in ("NOT ", ""))
        present, missing = engine.fetch_one(f"SELECT {', '.join(sums)} FROM {table}")
        engine.run(f"DELETE FROM {table} WHERE v IS NULL")
        return cls(engine, table, int(present), int(missing))

    def find(self, expressions: str) -> tuple[Any, ...]:
        """Return the only row of aggregates of the table."""
        return self.engine.fetch_one(f"SELECT {expressions} FROM {self.table}")

    def find_fault(self, *faults: tuple[str, str]) -> str | None:
        """Return the sentence of the first condition in SQL that a value satisfies."""
        return next((said for which, said in faults if self.find(f"count(*) FILTER ({which})")[0]), None)

    def sum_extremes(self, term: str, n: int, total: str = "sum") -> tuple[Any, ...]:
        """Return the totals of a term over the n smallest and over the n greatest numbers."""
        first = "sum(n) OVER (ORDER BY x {} ROWS UNBOUNDED PRECEDING) - n AS {}".format
        windows = f"(SELECT *, {first('ASC', 'below')}, {first('DESC', 'above')} FROM {self.table})"
        sums = (f"coalesce({total}({term} * greatest(least(n, {n} - {end}), 0)), 0)" for end in ("below", "above"))
        return self.engine.fetch_one(f"SELECT {', '.join(sums)} FROM {windows}")


def find_kind(engine: Engine, query: str) -> str:
    """Return the type of the only column of a query."""
    return str(engine.fetch(f"DESCRIBE {query}")[0][1])


def write_number(value: str, kind: str = "VARCHAR") -> str:
    """Return a value of this type as a finite number in SQL, NULL if it is not one."""
    number = f"{value}::DOUBLE"
    if not kind.startswith("DECIMAL") and not kind.endswith(_NUMERIC):
        text = f"{value}::VARCHAR"
        number = f"CASE WHEN regexp_matches({text}, {quote_text(_NUMBER)}) THEN try_cast({text} AS DOUBLE) END"
    return f"CASE WHEN isfinite({number}) THEN {number} + 0.0 END"


def write_key(value: str, kind: str) -> str:
    """Return a value in SQL as the text by which it is compared, if columns have a common type of this *kind*.

    Whole numbers have one text, so another spelling is another value.
    """
    if kind in ("VARCHAR", "HUGEINT", "BOOLEAN"):
        return f"{value}::VARCHAR"
    zero = " + 0.0" if kind in _FLOATS else ""
    return f"coalesce(({read_as(value, kind)}{zero})::VARCHAR, '?' || {value}::VARCHAR)"


def write_list(texts: Sequence[str]) -> str:
    """Return a list of texts in SQL, in which NULL equals NULL."""
    return f"[{', '.join(texts)}]::VARCHAR[]"


class Declared(StrictEntry):
    """A column's technique: the form of its published values, and the values of the source that they come from."""

    moved: ClassVar[bool] = False  # whether rows have each other's values
    numeric: ClassVar[bool] = False  # whether published values are numbers, however they are spelled
    roles: ClassVar[tuple[str, ...]] = ("quasi", "sensitive", "insensitive")
    agreement: ClassVar[str] = ""  # the result of ``compare`` if it finds no fault
    finding: ClassVar[str] = ""  # the result of ``find_fault`` if it finds no fault
    uncheckable: ClassVar[str] = "the random draw"  # files do not show it, unless values are determined

    demands: ClassVar[Demands] = {}  # of several fields together

    column: str  # the entry's key in the manifest
    technique: str

    @model_validator(mode="after")
    def _meet_demands(self) -> Self:
        for otherwise, holds in self.demands.items():
            if not holds(self):
                raise ValueError(otherwise)
        return self

    @property
    def determined(self) -> bool:
        """Whether a published value follows from the source's, so that rows can be compared by it."""
        return False

    @property
    def compared(self) -> bool:
        """Whether ``compare`` looks for something in the source's values."""
        return not self.determined and not self.moved

    def recompute(self, values: pa.Array) -> pa.Array:
        """Return the published form of source values, none of which is missing, if it is determined."""
        raise NotImplementedError

    def find_fault(self, published: Column) -> str | None:  # noqa: ARG002
        """Return a fault of the published values by themselves."""
        return None

    def compare(self, published: Column, original: Column) -> str | None:
        """Return why the published values cannot come from the source's, if they cannot."""
        return compare_missing(published, original)


def compare_missing(published: Column, original: Column) -> str | None:
    """Return a fault unless values and missing values are both no more than the source has."""
    if published.missing > original.missing or published.present > original.present:
        return "has another number of missing values than the source"
    return None


def as_numbers(values: pa.Array) -> FloatArray:
    """Return (n,) values as numbers, NaN for other values.

    >>> as_numbers(pa.array(["17", "1.50", "x"])).tolist()
    [17.0, 1.5, nan]
    """
    if is_text(values.type):
        texts = values.cast(pa.string())
        values = pc.if_else(pc.match_substring_regex(texts, pattern=_NUMBER), pc.utf8_trim_whitespace(texts), None)
    elif not (
        pa.types.is_integer(values.type) or pa.types.is_floating(values.type) or pa.types.is_decimal(values.type)
    ):
        values = pa.nulls(len(values), pa.float64())
    return np.asarray(values.cast(pa.float64(), safe=False).fill_null(float("nan")), dtype=np.float64)
