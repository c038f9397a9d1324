"""The entry of a changed column, the distinct values of that column, and its rows.

The verifier shares no code with the techniques that changed the columns. A technique is a strict model of its entry in
the manifest. It says which published values are possible, and which of them can come from the source.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias

import pyarrow as pa
from pydantic import model_validator

from shoal.manifest import StrictEntry
from shoal.verify.engine import Engine, quote_text, read_as
from shoal.verify.truth import find_type

if TYPE_CHECKING:
    from shoal.verify.manifest import Manifest
    from shoal.verify.rows import Release, SourceRows

NUMBER = r"^\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\s*$"
Demands: TypeAlias = Mapping[str, Callable[[Any], bool]]  # the fault of an entry -> the condition that excludes it
Rule: TypeAlias = tuple[str, str]  # a condition in SQL that faulty values satisfy, and the sentence about them


@dataclass(frozen=True, slots=True)
class Column:
    """The distinct values of a column: a table of each value v, its text t, its number x, and the n rows with it."""

    engine: Engine
    table: str
    present: int  # rows that have a value
    missing: int

    @classmethod
    def make(cls, engine: Engine, table: str, query: str) -> Column:
        """Make the table of a query, in which v is NULL if the value is missing."""
        engine.make(table, query)
        sums = ", ".join(f"coalesce(sum(n) FILTER (v IS {no}NULL), 0)::BIGINT" for no in ("NOT ", ""))
        present, missing = engine.fetch_one(f"SELECT {sums} FROM {table}")
        engine.run(f"DELETE FROM {table} WHERE v IS NULL")
        return cls(engine, table, present, missing)

    @classmethod
    def count(cls, engine: Engine, table: str, query: str) -> Column:
        """Count the values v that a query returns."""
        fraction = "typeof(v) IN ('DOUBLE', 'FLOAT')"
        text = f"CASE WHEN {fraction} THEN regexp_replace(v::VARCHAR, '[.]0$', '') ELSE v::VARCHAR END"
        columns = f"v, {text} AS t, {write_number('v')} AS x, count(*) AS n"
        return cls.make(engine, table, f"SELECT {columns} FROM {query} GROUP BY v")

    def find(self, *aggregates: str) -> tuple[Any, ...]:
        """Return aggregates of the table."""
        return self.engine.fetch_one(f"SELECT {', '.join(aggregates)} FROM {self.table}")

    def find_fault(self, *rules: Rule) -> str | None:
        """Return the sentence of the first rule whose condition some values satisfy."""
        found = self.find(*(f"bool_or({condition})" for condition, _ in rules)) if rules else ()
        return next((said for (_, said), faulty in zip(rules, found, strict=True) if faulty), None)


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """The rows of a release, and of its source in the tables ``original`` and ``expected``, if it is given.

    In the table of expected rows, determined columns have the values that the release must have.
    """

    release: Release
    manifest: Manifest
    original: SourceRows | None
    expected: SourceRows | None

    def list_beside(self, column: str) -> tuple[dict[str, str], list[str]]:
        """Return the other columns of the same part, by attribute, and the attributes that follow from the source."""
        manifest = self.manifest
        part = next(place for place, names in enumerate(manifest.parts) if column in names)
        beside = dict(zip(manifest.parts[part], manifest.part_columns[part], strict=True))
        plain = [one for one in manifest.attributes if not one.boxed and not manifest.is_averaged(one)]
        columns = {one.name: beside[one.name] for one in plain if one.name in beside}
        return columns, [one.name for one in plain if one.name in columns and manifest.is_traced(one)]

    def write_keys(
        self, columns: Mapping[str, str | None], source: SourceRows, table: str
    ) -> tuple[list[str], list[str], list[str]]:
        """Return attributes of the release and of the source as texts to compare in SQL, and their common types.

        Attributes without a published *column* have no text of the release.
        """
        stored = {row[0]: str(row[1]) for row in self.release.engine.fetch(f"DESCRIBE {table}")}
        own, true, kinds = [], [], []
        for name, column in columns.items():
            place, types = source.places[name], [] if column is None else [self.release.types[column]]
            kinds.append(find_type(stored[place], *types))
            true.append(write_key(place, kinds[-1]))
            own += [] if column is None else [write_key(self.release.names[column], kinds[-1])]
        return own, true, kinds


def write_number(value: str) -> str:
    """Return a value in SQL as a finite number, NULL if it is not one."""
    number = f"try_cast({value} AS DOUBLE)"
    fits = f"regexp_matches({value}::VARCHAR, {quote_text(NUMBER)}) AND isfinite({number})"
    return f"CASE WHEN {fits} THEN {number} + 0.0 END"


def write_key(value: str, kind: str) -> str:
    """Return a value in SQL as the text by which it is compared, if columns have a common type of this *kind*.

    Whole numbers have one text, so another spelling is another value.
    """
    if kind in ("VARCHAR", "HUGEINT", "BOOLEAN"):
        return f"{value}::VARCHAR"
    zero = " + 0.0" if kind in ("DOUBLE", "FLOAT") else ""
    return f"coalesce(({read_as(value, kind)}{zero})::VARCHAR, '?' || {value}::VARCHAR)"


def write_list(texts: Sequence[str]) -> str:
    """Return a list of texts in SQL, in which NULL equals NULL."""
    return f"[{', '.join(texts)}]::VARCHAR[]"


class Declared(StrictEntry):
    """A column's technique: the form of its published values, and the values of the source that they come from."""

    moved: ClassVar[bool] = False  # whether rows have each other's values
    numeric: ClassVar[bool] = False  # whether published values are numbers, however they are spelled
    roles: ClassVar[tuple[str, ...]] = ("quasi", "sensitive", "insensitive")
    finding: ClassVar[str] = "values have the declared form"  # without a fault
    agreement: ClassVar[str] = "neither values nor missing values are more frequent than in the source"
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
        """Whether a published value follows from the source's, so rows can be compared by it."""
        return False

    @property
    def compared(self) -> bool:
        """Whether ``compare`` finds more than a comparison of rows does."""
        return not self.determined

    def recompute(self, values: pa.Array) -> pa.Array:
        """Return the published form of source values, none of which is missing, if it is determined."""
        raise NotImplementedError

    @property
    def pattern(self) -> str | None:
        """The regular expression of published texts, if they have a form."""
        return None

    def list_rules(self) -> list[Rule]:
        """Return the rules for faults that published values show by themselves."""
        form = f"NOT regexp_full_match(t, {quote_text(self.pattern)})"
        rules = [("x IS NULL", "has values that are not numbers")] if self.numeric else []
        return [*rules, *([] if self.pattern is None else [(form, "has values that are not of the declared form")])]

    def compare(self, published: Column, original: Column) -> str | None:
        """Return why the published values cannot come from the source's, if they cannot."""
        if published.missing > original.missing or published.present > original.present:
            return "has another number of missing values than the source"
        return None

    def check_rows(self, rows: Rows) -> str | None:  # noqa: ARG002
        """Return why rows cannot have these values together with the others, or None."""
        return None
