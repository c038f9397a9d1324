"""Sliced tables as recipients read them: buckets, parts whose values belong together, and the links of parts."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.core.arrays import AnyIntArray, CodeArray, IntArray
from shoal.core.errors import InputError, UsageError
from shoal.core.kernels import same_rows
from shoal.plan.slices import Link, link_parts
from shoal.sources.columns import plain
from shoal.taxonomies.parse import texts

BUCKET = "bucket"
T = TypeVar("T", bound=Hashable)


@dataclass(frozen=True, slots=True, eq=False)
class SlicedPart:
    """Attributes of one part: ``codes`` has the row of ``distinct`` with each row's combination of values.

    Missing is a value like any other. Row i of one part and row i of another need not be about the same person.
    """

    names: tuple[str, ...]
    codes: CodeArray  # (n_rows,) in the order of the file
    distinct: pa.Table  # (n_codes rows), columns `names`

    @property
    def n_codes(self) -> int:
        return int(self.distinct.num_rows)


@dataclass(frozen=True, slots=True, eq=False)
class SlicedTable:
    """Rows in buckets; within a bucket, every part was permuted independently.

    Li, Li, Zhang and Molloy, "Slicing: a new approach for privacy preserving data publishing", section 2.

    >>> rows = pa.table({"bucket": [1, 1, 2], "age": [22, 33, 22], "illness": ["flu", "gout", None]})
    >>> table = SlicedTable.of(rows, [["age"], ["illness"]])
    >>> table.n_buckets, table.bucket.tolist(), table.parts[0].codes.tolist()
    (2, [0, 0, 1], [0, 1, 0])
    >>> table.parts[1].distinct.to_pydict()
    {'illness': ['flu', 'gout', None]}
    """

    bucket: CodeArray  # (n_rows,) from 0; the published number is one more
    n_buckets: int
    parts: tuple[SlicedPart, ...]

    @classmethod
    def of(cls, table: pa.Table, parts: Sequence[Sequence[str]]) -> SlicedTable:
        """Read the published rows of a sliced release; refuse other releases."""
        if len(parts) < 2:
            raise UsageError(
                "this release is not sliced: each row is a whole record, so count, sum and cross-tabulate "
                "`release.data` itself"
            )
        expected = name_columns(parts)
        if table.column_names != [BUCKET, *(name for part in expected for name in part)]:
            raise InputError("the columns are not `bucket` and the manifest's; check that both are of one release")
        rows = plain(table)
        found = []
        for names, columns in zip(parts, expected, strict=True):
            codes, first = number_rows([column_codes(rows.column(column)) for column in columns], rows.num_rows)
            distinct = rows.select(columns).take(pa.array(first)).rename_columns(list(names))
            found.append(SlicedPart(tuple(names), codes, distinct))
        return cls(*_buckets(rows.column(BUCKET)), tuple(found))

    @property
    def n_rows(self) -> int:
        return len(self.bucket)

    @property
    def sizes(self) -> IntArray:
        return np.bincount(self.bucket, minlength=self.n_buckets)

    @property
    def names(self) -> tuple[str, ...]:
        """Every attribute once, in the order of the parts."""
        return tuple(dict.fromkeys(name for part in self.parts for name in part.names))


def name_columns(parts: Sequence[Sequence[str]]) -> list[list[str]]:
    """Return the column names of each part; an attribute's second column has the suffix ``(2)``, and so on.

    >>> name_columns([["age", "sex"], ["sex", "illness"]])
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


def number_rows(columns: Sequence[AnyIntArray], n_rows: int) -> tuple[CodeArray, IntArray]:
    """Return (n_rows,) the number of each row's combination of codes, and (n_combinations,) an example row of each.

    >>> number_rows([np.array([1, 0, 1]), np.array([5, 5, 5])], 3)
    (array([1, 0, 1], dtype=int32), array([1, 0]))
    """
    first, number = same_rows([np.zeros(n_rows, dtype=np.int64), *columns])
    return number, first


def column_codes(column: pa.ChunkedArray) -> CodeArray:
    """Return (n_rows,) the number of each value among the column's distinct values, including missing."""
    coded = column.combine_chunks().dictionary_encode(null_encoding="encode")
    return np.asarray(coded.indices).astype(np.int32, copy=False)


def _buckets(column: pa.ChunkedArray) -> tuple[CodeArray, int]:
    """Return the buckets from 0 and their number; every number up to the largest must occur."""
    try:
        numbers = np.asarray(pc.cast(column, pa.int32()).combine_chunks(), dtype=np.int32)
    except (pa.ArrowException, ValueError, TypeError):
        numbers = np.zeros(1, dtype=np.int32)  # refused below
    if column.null_count or numbers.min(initial=1) < 1:
        raise InputError("column 'bucket' must hold the whole numbers 1, 2, ...; is it the published file?")
    n_buckets = int(numbers.max(initial=0))
    if n_buckets > len(numbers) or not np.bincount(numbers, minlength=n_buckets + 1)[1:].all():
        raise InputError("column 'bucket' skips numbers; records of the release are missing here")
    return numbers - np.int32(1), n_buckets


MISSING = "missing"


def multisets(table: SlicedTable, kept: Collection[str]) -> pa.Table:
    """Return the rows with each attribute but the *kept* ones as a multiset: Table 1(d) of the slicing paper.

    A multiset reads ``22:2,33:1``: values in ascending order, each with its number of records. Except for relations
    within a part, the multisets have the same information as the slices.

    >>> rows = pa.table({"bucket": [1, 1, 1], "age": [33, 22, 22], "illness": ["flu", "gout", None]})
    >>> sliced = SlicedTable.of(rows, [["age"], ["illness"]])
    >>> multisets(sliced, kept={"illness"}).to_pydict()
    {'bucket': [1, 1, 1], 'age': ['22:2,33:1', '22:2,33:1', '22:2,33:1'], 'illness': ['flu', 'gout', None]}
    """
    columns: dict[str, object] = {BUCKET: pa.array(table.bucket + np.int32(1))}
    for part in table.parts:
        for name in part.names:
            if name not in columns:
                codes = pa.array(part.codes)
                columns[name] = part.distinct.column(name).take(codes) if name in kept else _texts(table, part, name)
    return pa.table(columns)


def _texts(table: SlicedTable, part: SlicedPart, name: str) -> pa.Array:
    column = part.distinct.column(name).combine_chunks()
    codes = column_codes(pa.chunked_array([column]))
    values = column.take(pa.array(number_rows([codes], len(codes))[1]))  # each distinct value at its code
    rank = np.empty(len(values), dtype=np.int32)
    rank[pc.sort_indices(values).to_numpy()] = np.arange(len(values), dtype=np.int32)
    pairs, first = number_rows([table.bucket, rank[codes][part.codes]], table.n_rows)
    written = texts(values).fill_null(MISSING).take(pa.array(codes[part.codes[first]]))
    entries = pc.binary_join_element_wise(written, pa.array(np.bincount(pairs)).cast(pa.string()), ":")
    edges = np.searchsorted(table.bucket[first], np.arange(table.n_buckets + 1)).astype(np.int32)
    joined = pc.binary_join(pa.ListArray.from_arrays(pa.array(edges), entries), ",")
    return joined.take(pa.array(table.bucket))


def sample_linking(table: SlicedTable, rng: np.random.Generator) -> pa.Table:
    """Return a table with the parts linked at random; all linkings within buckets are equally likely.

    Parts that share attributes are linked only if they have the same values of these. The attributes have the order of
    the parts, each once.

    >>> rows = pa.table({"bucket": [1, 1, 2], "age": [22, 33, 52], "illness": ["flu", "gout", "flu"]})
    >>> sliced = SlicedTable.of(rows, [["age"], ["illness"]])
    >>> sample_linking(sliced, np.random.default_rng(3)).to_pydict()
    {'age': [22, 33, 52], 'illness': ['gout', 'flu', 'flu']}
    """
    place: dict[int, AnyIntArray] = {0: np.arange(table.n_rows)}  # part -> (n_rows,) the rows that its values come from
    for link in tree_of([part.names for part in table.parts]):
        parent_key, key = link_keys(table, link)
        mixed = rng.permutation(table.n_rows)
        rows = np.empty(table.n_rows, dtype=np.int64)
        rows[np.argsort(parent_key[place[link.parent]], kind="stable")] = mixed[np.argsort(key[mixed], kind="stable")]
        place[link.part] = rows
    columns: dict[str, pa.ChunkedArray] = {}
    for number, part in enumerate(table.parts):
        codes = pa.array(part.codes[place[number]])
        columns |= {name: part.distinct.column(name).take(codes) for name in part.names if name not in columns}
    return pa.table(columns)


COUNT = "count"


def two_tables(table: SlicedTable, sensitive: Collection[str]) -> tuple[pa.Table, pa.Table]:
    """Return the parts without *sensitive* attributes unchanged, and each bucket's counts of the sensitive part.

    Xiao and Tao, "Anatomy: simple and effective privacy preservation" (VLDB 2006), Definition 3. The columns of the
    second table are the bucket, the sensitive part, and ``count``.

    >>> rows = pa.table({"bucket": [1, 1, 1], "age": [22, 33, 22], "illness": ["gout", "flu", "gout"]})
    >>> quasi, sensitive = two_tables(SlicedTable.of(rows, [["age"], ["illness"]]), ["illness"])
    >>> quasi.to_pydict()
    {'bucket': [1, 1, 1], 'age': [22, 33, 22]}
    >>> sensitive.to_pydict()
    {'bucket': [1, 1], 'illness': ['flu', 'gout'], 'count': [1, 2]}
    """
    holders = [place for place, part in enumerate(table.parts) if not set(sensitive).isdisjoint(part.names)]
    if len(holders) != 1:
        raise UsageError(
            "two tables need a sliced release with all sensitive attributes in one part; here "
            f"{len(holders)} of {len(table.parts)} parts have some"
        )
    (place,) = holders
    names = name_columns([part.names for part in table.parts])
    if COUNT in names[place]:
        raise UsageError(
            f"the table of sensitive values adds a column {COUNT!r}; rename the attribute {COUNT!r} in the data and in "
            "the policy"
        )
    rows = {BUCKET: pa.array(table.bucket + np.int32(1))}
    others, own = dict(rows), dict(rows)
    for number, part in enumerate(table.parts):
        shown = dict(zip(names[number], part.distinct.take(pa.array(part.codes)).columns, strict=True))
        (own if number == place else others).update(shown)
    keys = list(own)
    counted = pa.table(own).group_by(keys).aggregate([([], "count_all")]).rename_columns([*keys, COUNT])
    return pa.table(others), counted.sort_by([(name, "ascending") for name in keys])


def tree_of(parts: Sequence[Sequence[T]]) -> tuple[Link[T], ...]:
    """Return the links of every part but the first to an earlier one; refuse overlaps that form no tree."""
    links = link_parts(parts)
    if links is None:
        raise UsageError("the parts overlap in a cycle, so they cannot be linked")
    return links


def find_parts(parts: Sequence[Sequence[T]], names: Collection[T]) -> tuple[int, ...]:
    """Return a small set of parts that have these attributes and everything that links them.

    A part that shares attributes with only one other part can be left out if the others have all *names*.

    >>> find_parts([["age"], ["zip", "sex"], ["illness"]], ["age", "illness"])
    (0, 2)
    """
    wanted, kept = set(names), list(range(len(parts)))

    def is_spare(number: int) -> bool:
        others = [set(parts[other]) for other in kept if other != number]
        everything = set[T]().union(*others)
        shared = everything & set(parts[number])
        return wanted <= everything and any(shared <= other for other in others)

    for number, part in enumerate(parts):
        if wanted <= set(part):
            return (number,)
    while (spare := next(filter(is_spare, kept), None)) is not None:
        kept.remove(spare)
    return tuple(kept)


def overlap(parts: Sequence[Sequence[str]]) -> bool:
    names = [name for part in parts for name in part]
    return len(set(names)) < len(names)


def link_keys(table: SlicedTable, link: Link[str]) -> tuple[CodeArray, CodeArray]:
    """Return (n_rows,) the number of each row's bucket and shared values, in its parent part and in its own part.

    Rows of the parent and of the part can be about the same record only if they have the same number.
    """
    if not link.shared:
        return table.bucket, table.bucket
    parent, part = table.parts[link.parent], table.parts[link.part]
    both = pa.concat_tables([side.distinct.select(list(link.shared)) for side in (parent, part)])
    shared, _ = number_rows([column_codes(column) for column in both.columns], both.num_rows)
    values = np.concatenate([shared[: parent.n_codes][parent.codes], shared[parent.n_codes :][part.codes]])
    keys, _ = number_rows([np.concatenate([table.bucket, table.bucket]), values], 2 * table.n_rows)
    before, after = keys[: table.n_rows], keys[table.n_rows :]
    if not np.array_equal(np.bincount(before, minlength=len(keys)), np.bincount(after, minlength=len(keys))):
        listed = ", ".join(repr(name) for name in link.shared)
        raise InputError(f"two parts of the release differ in the values of {listed} within a bucket")
    return before, after
