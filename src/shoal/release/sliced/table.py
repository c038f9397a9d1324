"""A sliced table as whoever receives it reads it: buckets, and parts whose values belong together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.core.arrays import AnyIntArray, CodeArray, IntArray
from shoal.core.errors import InputError, UsageError
from shoal.sources.columns import plain

BUCKET = "bucket"


@dataclass(frozen=True, slots=True, eq=False)
class SlicedPart:
    """Attributes that were kept together: ``codes`` tells which of the ``distinct`` combinations each row has.

    Missing is a value like any other. Row i of one part and row i of another need not be about the same person.
    """

    names: tuple[str, ...]
    codes: CodeArray  # (n_rows,) in the order of the file
    distinct: pa.Table  # (n_codes rows), columns `names`

    @property
    def n_codes(self) -> int:
        """Number of distinct combinations."""
        return int(self.distinct.num_rows)


@dataclass(frozen=True, slots=True, eq=False)
class SlicedTable:
    """Rows in buckets: within a bucket, every part was permuted by itself.

    Li, Li, Zhang and Molloy, "Slicing: a new approach for privacy preserving data publishing", section 2.

    >>> rows = pa.table({"bucket": [1, 1, 2], "age": [22, 33, 22], "illness": ["flu", "gout", None]})
    >>> table = SlicedTable.of(rows, {"parts": [["age"], ["illness"]]})
    >>> table.n_buckets, table.bucket.tolist(), table.parts[0].codes.tolist()
    (2, [0, 0, 1], [0, 1, 0])
    >>> table.parts[1].distinct.to_pydict()
    {'illness': ['flu', 'gout', None]}
    """

    bucket: CodeArray  # (n_rows,) from 0; the published number is one more
    n_buckets: int
    parts: tuple[SlicedPart, ...]

    @classmethod
    def of(cls, table: pa.Table, manifest: Mapping[str, Any]) -> SlicedTable:
        """Read the published rows, whose manifest tells which columns make up a part."""
        parts = sliced_parts(manifest)
        expected = published_columns(parts)
        if table.column_names != [BUCKET, *(name for part in expected for name in part)]:
            raise InputError(
                "the columns are not `bucket` and those that the manifest's parts tell; is it the same release?"
            )
        rows = plain(table)
        bucket, n_buckets = _buckets(rows.column(BUCKET))
        return cls(bucket, n_buckets, tuple(_part(rows, *both) for both in zip(parts, expected, strict=True)))

    @property
    def n_rows(self) -> int:
        """Number of published records."""
        return len(self.bucket)

    @property
    def sizes(self) -> IntArray:
        """(n_buckets,) records of each bucket."""
        return np.bincount(self.bucket, minlength=self.n_buckets)

    @property
    def names(self) -> tuple[str, ...]:
        """Every attribute once, in the order of the parts."""
        return tuple(dict.fromkeys(name for part in self.parts for name in part.names))


def is_sliced(manifest: Mapping[str, Any]) -> bool:
    """Whether the rows of a release are slices: no part has all of a record."""
    return len(manifest["parts"]) > 1


def sliced_parts(manifest: Mapping[str, Any]) -> list[list[str]]:
    """Return the names of each part's attributes; a release that is not sliced is refused."""
    if not is_sliced(manifest):
        raise UsageError(
            "this release is not sliced: each of its rows is a record as it stands, so count, sum and cross-tabulate "
            "`release.data` itself"
        )
    return [list(part) for part in manifest["parts"]]


def published_columns(parts: Sequence[Sequence[str]]) -> list[list[str]]:
    """Return the names of each part's columns: an attribute's second column is told by ``(2)``, and so on.

    >>> published_columns([["age", "sex"], ["sex", "illness"]])
    [['age', 'sex'], ['sex (2)', 'illness']]
    """
    seen: dict[str, int] = {}
    columns: list[list[str]] = []
    for part in parts:
        columns.append([])
        for name in part:
            seen[name] = seen.get(name, 0) + 1
            columns[-1].append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return columns


def numbered(columns: Sequence[AnyIntArray], n_rows: int) -> tuple[CodeArray, IntArray]:
    """Return (n_rows,) the number of each row's combination of codes, and (n_combinations,) a row that has it.

    >>> numbered([np.array([1, 0, 1]), np.array([5, 5, 5])], 3)
    (array([1, 0, 1], dtype=int32), array([1, 0]))
    """
    codes = np.zeros(n_rows, dtype=np.int64)
    for column in columns:
        codes *= int(column.max(initial=0)) + 1
        codes += column
        codes = _compact(codes)
    first = np.zeros(int(codes.max(initial=-1)) + 1, dtype=np.int64)
    first[codes[::-1]] = np.arange(n_rows - 1, -1, -1)
    return codes.astype(np.int32), first


def _compact(codes: IntArray) -> IntArray:
    """Number the codes that occur, in their order."""
    n_codes = int(codes.max(initial=-1)) + 1
    if n_codes > 4 * len(codes) + 1024:
        return np.unique(codes, return_inverse=True)[1].reshape(-1)
    occurs = np.zeros(n_codes, dtype=np.int64)
    occurs[codes] = 1
    return (np.cumsum(occurs) - 1)[codes]


def column_codes(column: pa.ChunkedArray) -> CodeArray:
    """Return (n_rows,) the number of each value among the column's distinct ones; missing is one of them."""
    coded = column.combine_chunks().dictionary_encode(null_encoding="encode")
    return np.asarray(coded.indices).astype(np.int32, copy=False)


def _part(rows: pa.Table, names: Sequence[str], columns: Sequence[str]) -> SlicedPart:
    codes, first = numbered([column_codes(rows.column(column)) for column in columns], rows.num_rows)
    distinct = rows.select(list(columns)).take(pa.array(first)).rename_columns(list(names))
    return SlicedPart(tuple(names), codes, distinct)


def _buckets(column: pa.ChunkedArray) -> tuple[CodeArray, int]:
    """Return the buckets from 0 and their number; every number up to the largest must occur."""
    try:
        numbers = np.asarray(pc.cast(column, pa.int32()).combine_chunks(), dtype=np.int32)
    except (pa.ArrowException, ValueError, TypeError):
        numbers = np.zeros(1, dtype=np.int32)  # told below
    if column.null_count or numbers.min(initial=1) < 1:
        raise InputError("column 'bucket' must hold the whole numbers 1, 2, ...; is it the published file?")
    n_buckets = int(numbers.max(initial=0))
    if n_buckets > len(numbers) or not np.bincount(numbers, minlength=n_buckets + 1)[1:].all():
        raise InputError("column 'bucket' skips numbers; records of the release are missing here")
    return numbers - np.int32(1), n_buckets
