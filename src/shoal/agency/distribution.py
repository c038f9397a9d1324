"""The joint distribution of quasi and sensitive values in a population.

Probabilities are integer multiples of 1/total (counts of records, or units of 10^-18), so "at least p" is exact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.core.arrays import CodeArray, IntArray
from shoal.core.errors import InputError, UsageError
from shoal.core.kernels import find_starts, kernel, pack, places_ascending
from shoal.core.wording import count_noun
from shoal.methods.hilbert.curve import MOST_BITS, curve_keys
from shoal.release.release import CLASS
from shoal.sources.base import Source
from shoal.sources.opening import open_source
from shoal.taxonomies.parse import decimal_numbers, texts, whole_numbers
from shoal.taxonomies.tree import Taxonomy

Order: TypeAlias = Literal["lexicographic", "hilbert", "taxonomy"]
ORDERS: tuple[Order, ...] = ("lexicographic", "hilbert", "taxonomy")
WEIGHTS = ("count", "probability")
DIGITS = 18  # of a probability; further digits are dropped, which never raises it
UNITS = 10**DIGITS
_LONGEST = 40  # digits after the point that a probability may have
_TOLERATED = UNITS // 10**9
_FAR = "[eE][+-]?0*[1-9][0-9]{3}"  # four-digit exponents, which can crash Arrow's decimals
_LARGEST = 2.0**62
_PART = 1 << 14  # points that a thread sorts at a time


class Entries(NamedTuple):
    """The sensitive values and weights of the points."""

    starts: IntArray  # (n_points + 1,)
    codes: CodeArray  # (n_entries,)
    weights: IntArray  # (n_entries,)
    n_values: int


@dataclass(frozen=True, slots=True, eq=False)
class JointDistribution:
    """P over points (combinations of quasi values, in an order) and sensitive values, as integer weights.

    Point i has the sensitive values ``codes[starts[i]:starts[i + 1]]``, ascending, with the probabilities
    ``weights[...] / total``, all above 0. Rameshwar and Tandon, Section 4.
    """

    quasi: tuple[str, ...]
    quasi_values: tuple[tuple[str, ...], ...]  # n_quasi x (n_values,) ranked
    points: tuple[CodeArray, ...]  # n_quasi x (n_points,) into quasi_values
    sensitive: str
    sensitive_values: tuple[str, ...]
    order: Order
    starts: IntArray  # (n_points + 1,)
    codes: CodeArray  # (n_entries,)
    weights: IntArray  # (n_entries,)
    total: int
    counted: bool  # whether weights are numbers of records

    @property
    def entries(self) -> Entries:
        return Entries(self.starts, self.codes, self.weights, self.n_values)

    @property
    def n_points(self) -> int:
        """|Q|."""
        return len(self.starts) - 1

    @property
    def n_values(self) -> int:
        """|S|."""
        return len(self.sensitive_values)

    def marginal(self) -> IntArray:
        """Return (n_values,) the weights of the sensitive values in descending order: p_1, p_2, ... times the total."""
        sums = np.zeros(self.n_values, dtype=np.int64)
        np.add.at(sums, self.codes, self.weights)
        return np.sort(sums)[::-1]

    def tail(self, l: int) -> Fraction:
        """Return p_l + p_{l+1} + ..., the probability of all but the l - 1 most frequent sensitive values."""
        return self.probability(int(self.marginal()[l - 1 :].sum()))

    def point_weights(self) -> IntArray:
        before = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(self.weights)))
        return before[self.starts[1:]] - before[self.starts[:-1]]

    def probability(self, weight: int) -> Fraction:
        return Fraction(int(weight), self.total)

    def threshold(self, p: Fraction) -> int:
        """Return the smallest weight with a probability of at least p."""
        return -(-p.numerator * self.total // p.denominator)


def read_distribution(
    data: object,
    sensitive: str,
    *,
    order: Order = "lexicographic",
    attributes: Sequence[str] | None = None,
    taxonomies: Mapping[str, Taxonomy] | None = None,
) -> JointDistribution:
    """Read a table of quasi columns, a sensitive column and ``count`` or ``probability``; ambiguous tables are refused.

    *attributes* names the quasi columns in the order of a lexicographic order; by default, all other columns in their
    order. Rows with 0 make a point part of the agreed domain without a probability.

    >>> table = pa.table({"age": [40, 9, 9], "illness": ["flu", "flu", "gout"], "count": [2, 1, 1]})
    >>> known = read_distribution(table, "illness")
    >>> known.quasi_values, known.weights.tolist(), known.total
    ((('9', '40'),), [1, 1, 2], 4)
    """
    source = open_source(data)
    quasi, weight_name = _find_columns(source, sensitive, attributes)
    names = [*quasi, sensitive, weight_name]
    table = pa.Table.from_batches(list(source.batches(names, dictionary=names[:-1])))
    for name in names:
        if missing := table.column(name).null_count:
            share = f"{missing:,} of {table.num_rows:,} rows"
            raise InputError(f"column {name!r} of {source.name} lacks a value in {share}; each needs one")
    trees = taxonomies or {}
    if unknown := [name for name in trees if name not in quasi]:
        raise UsageError(f"there is a taxonomy for {unknown[0]!r}, which is not a quasi column")
    if order == "taxonomy" and not trees:
        raise UsageError("the order by taxonomy needs at least one taxonomy")
    with ThreadPoolExecutor() as threads:
        weighing = threads.submit(_read_weights, table.column(weight_name), weight_name, source.name)
        hiding = threads.submit(rank_values, table.column(sensitive), sensitive, None)
        runs = list(threads.map(_find_runs, table.select(quasi).to_batches()))
        heads = pa.Table.from_batches([head for head, _ in runs])
        points, values = zip(*(rank_values(heads.column(name), name, trees.get(name)) for name in quasi), strict=True)
        (weights, total), (hidden, secrets) = weighing.result(), hiding.result()
    starts, sizes = np.concatenate([[0], *(lengths for _, lengths in runs)]).cumsum(), list(map(len, values))
    key = pack(points, sizes)
    if not (key[1:] > key[:-1]).all():  # a point may have several runs
        order_of_runs = np.argsort(key, kind="stable")
        starts, hidden, weights = _move_runs(starts, hidden, weights, order_of_runs)
        first = find_starts([key[order_of_runs]])
        starts, points = starts[np.append(first, -1)], tuple(column[order_of_runs[first]] for column in points)
    with ThreadPoolExecutor() as threads:
        parts = [starts[begin : begin + _PART + 1] for begin in range(0, len(starts) - 1, _PART)]
        repeated = sum(threads.map(lambda part: _sort_values(part, hidden, weights), parts))
    if repeated:
        raise InputError(
            f"{source.name} repeats combinations of {', '.join(map(repr, quasi))} and {sensitive!r} in {repeated:,} "
            "rows; add them up"
        )
    if (places := order_points(points, sizes, order)) is not None:
        starts, hidden, weights = _move_runs(starts, hidden, weights, places)
        points = tuple(column[places] for column in points)
    positive = weights > 0  # points without entries remain
    if not positive.all():
        starts, hidden, weights = np.append(0, np.cumsum(positive))[starts], hidden[positive], weights[positive]
    return JointDistribution(
        quasi, values, points, sensitive, secrets, order, starts, hidden, weights, total, weight_name == "count"
    )


def _find_runs(rows: pa.RecordBatch) -> tuple[pa.RecordBatch, IntArray]:
    """Return the first row of each run of equal rows, and the lengths of the runs; most runs are whole points."""
    codes = [column.indices if pa.types.is_dictionary(column.type) else column for column in rows.columns]
    changes = [pc.not_equal(code.slice(1), code.slice(0, max(len(code) - 1, 0))) for code in codes]
    first = np.append(0, pc.indices_nonzero(reduce(pc.or_, changes)).to_numpy().astype(np.int64) + 1)[: len(rows)]
    return rows.take(pa.array(first)), np.diff(first, append=len(rows))


@kernel
def _sort_values(starts: IntArray, codes: CodeArray, weights: IntArray) -> int:
    """Sort the entries of each point by value in place; return the number of repeated values."""
    repeated = 0
    for point in range(len(starts) - 1):
        begin, end = starts[point], starts[point + 1]
        own, likely = codes[begin:end], weights[begin:end]
        if (own[1:] < own[:-1]).any():
            order = places_ascending(own)
            codes[begin:end], weights[begin:end] = own[order], likely[order]
        repeated += (own[1:] == own[:-1]).sum()
    return repeated


def _find_columns(source: Source, sensitive: str, attributes: Sequence[str] | None) -> tuple[tuple[str, ...], str]:
    """Return the quasi columns in their order, and the weight column."""
    found = [name for name in WEIGHTS if name in source.schema.names]
    if len(found) != 1:
        has = "both of them" if found else "neither"
        raise InputError(f"{source.name} needs a column `count` or a column `probability`; it has {has}")
    weight = found[0]
    others = tuple(name for name in source.schema.names if name not in (sensitive, weight))
    if sensitive in WEIGHTS:
        raise UsageError(f"the sensitive column cannot be {sensitive!r}, the name of the weights")
    if sensitive not in source.schema.names:
        next(source.batches([sensitive]))  # raises, with the nearest name
    if not others:
        raise InputError(f"{source.name} has no quasi column besides {sensitive!r} and {weight!r}")
    if CLASS in (*others, sensitive):
        raise InputError(f"{source.name} has a column {CLASS!r}, the name of class numbers in releases; rename it")
    if attributes is None:
        return others, weight
    if sorted(attributes) != sorted(others):
        raise UsageError(
            f"the order of attributes must name each quasi column of {source.name} once ({', '.join(others)}), "
            f"got {', '.join(attributes) or 'none'}"
        )
    return tuple(attributes), weight


def _read_weights(column: pa.ChunkedArray, name: str, where: str) -> tuple[IntArray, int]:
    """Return the weights and their total."""
    counted = name == "count"
    read = [whole_numbers(chunk) if counted else decimal_numbers(chunk) for chunk in column.chunks]
    kind = "whole numbers below 2^63" if counted else "numbers"
    wrong = {f"not {kind}": [~valid for _, valid in read], "negative": [numbers < 0 for numbers, _ in read]}
    if not counted:
        wrong["above 1"] = [numbers > 1 for numbers, _ in read]
    for what, which in wrong.items():
        if many := sum(map(np.count_nonzero, which)):
            raise InputError(f"column {name!r} of {where}: {many:,} of {len(column):,} values are {what}")
    weights = np.concatenate(
        [numbers for numbers, _ in read] if counted else [_read_units(chunk, name, where) for chunk in column.chunks]
    )
    if float(weights.sum(dtype=np.float64)) >= _LARGEST:
        raise InputError(f"column {name!r} of {where} sums to more than 2^62; shoal cannot count that far")
    total = int(weights.sum())
    if counted and not total:
        raise InputError(f"column {name!r} of {where} is 0 in all rows; it must describe a population")
    if not counted and abs(total - UNITS) > _TOLERATED:
        raise InputError(f"column {name!r} of {where} sums to {total / UNITS:.12g}; probabilities must sum to 1")
    return weights, total if counted else max(total, UNITS)


def _read_units(values: pa.Array, name: str, where: str) -> IntArray:
    """Return decimals as integers in units of 10^-18, rounded down."""
    written = texts(values)
    try:
        if pc.any(pc.match_substring_regex(written, _FAR)).as_py():
            raise pa.ArrowInvalid
        long = written.cast(pa.decimal256(76, _LONGEST))
    except pa.ArrowInvalid:
        raise InputError(
            f"column {name!r} of {where}: a value has more than {_LONGEST} digits after the point"
        ) from None
    short = pc.round(long, DIGITS, "towards_zero").cast(pa.decimal128(38, DIGITS))
    words = np.frombuffer(short.buffers()[1], dtype="<i8").reshape(-1, 2)
    return words[short.offset : short.offset + len(short), 0].astype(np.int64)


def _move_runs(
    starts: IntArray, codes: CodeArray, weights: IntArray, places: IntArray
) -> tuple[IntArray, CodeArray, IntArray]:
    """Bring runs of entries into another order."""
    lengths = np.diff(starts)[places]
    moved = np.append(0, np.cumsum(lengths))
    take = np.repeat(starts[places] - moved[:-1], lengths)
    take += np.arange(len(codes))
    return moved, codes[take], weights[take]


def rank_values(column: pa.ChunkedArray, name: str, taxonomy: Taxonomy | None) -> tuple[CodeArray, tuple[str, ...]]:
    """Return (n_rows,) ranks among the distinct values of a column, and these values in order.

    They are ordered by the leaves of a taxonomy, otherwise as numbers if all are numbers, otherwise as text.

    >>> rank_values(pa.chunked_array([["10", "9", "10"]]), "age", None)
    (array([1, 0, 1], dtype=int32), ('9', '10'))
    """
    given = pa.types.is_dictionary(column.type)
    coded = column.unify_dictionaries() if given else pc.dictionary_encode(column)
    indices, dictionary = [chunk.indices.to_numpy() for chunk in coded.chunks], coded.chunk(0).dictionary
    occurs = np.full(len(dictionary), not given)
    for codes in indices if given else ():
        occurs[codes] = True
    used = np.flatnonzero(occurs)
    entries = dictionary.take(pa.array(used))
    written = texts(entries)
    by_text = np.empty(len(used), dtype=np.int64)
    by_text[pc.sort_indices(written).to_numpy()] = np.arange(len(used))
    numbers, valid = decimal_numbers(written)
    keys = [by_text] + ([numbers] if valid.all() else [])
    if taxonomy is not None:
        leaves = taxonomy.encode(entries)
        if outside := int((leaves < 0).sum()):
            raise InputError(f"column {name!r} has {count_noun(outside, 'value')} outside its taxonomy; extend it")
        keys.append(leaves.astype(np.int64))
    order = np.lexsort(keys)
    rank = np.zeros(len(dictionary), dtype=np.int32)
    rank[used[order]] = np.arange(len(used))
    ranks, begin = np.empty(len(column), dtype=np.int32), 0
    for codes in indices:
        np.take(rank, codes, out=ranks[begin : begin + len(codes)], mode="clip")
        begin += len(codes)
    return ranks, tuple(written.take(pa.array(order)).to_pylist())


def order_points(points: Sequence[CodeArray], sizes: Sequence[int], order: Order) -> IntArray | None:
    """Return (n_points,) the points in another order than the lexicographic one; None if that order stays."""
    if order != "hilbert" or len(points) == 1:
        return None
    bits = max(max(int(size - 1).bit_length() for size in sizes), 1)
    excess = max(bits - MOST_BITS, 0)
    places = np.stack([(column >> excess).astype(np.uint32) for column in points], axis=1)
    words = curve_keys(places, bits - excess)
    return np.lexsort(words[::-1])


def count_records(data: object, quasi: Sequence[str], sensitive: str) -> pa.Table:
    """Count the records of a table for :func:`~shoal.agency.distribution.read_distribution`.

    It has only combinations that occur; they are the domain of a plan made from it.

    >>> past = pa.table({"name": ["a", "b", "c"], "age": [9, 40, 9], "illness": ["flu", "flu", "flu"]})
    >>> count_records(past, ["age"], "illness").to_pydict()
    {'age': [9, 40], 'illness': ['flu', 'flu'], 'count': [2, 1]}
    """
    names = [*quasi, sensitive]
    if repeated := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
        raise UsageError(f"column {repeated[0]!r} is named twice; name each column once")
    if reserved := [name for name in names if name in WEIGHTS]:
        raise UsageError(f"column {reserved[0]!r} has the name of weights; a table of records has no weights")
    source = open_source(data)
    missing = dict.fromkeys(names, 0)
    found: list[pa.Table] = []
    for batch in source.batches(names):
        for name in names:
            missing[name] += batch.column(name).null_count
        ones = pa.array(np.ones(batch.num_rows, dtype=np.int64))
        whole = pa.concat_tables([*found, pa.Table.from_batches([batch]).append_column("count", ones)])
        found = [whole.group_by(names).aggregate([("count", "sum")]).rename_columns([*names, "count"])]
    if lacking := [f"column {name!r} in {count:,}" for name, count in missing.items() if count]:
        raise InputError(f"{source.name} has records without a value: {', '.join(lacking)}; leave these records out")
    if not found:
        raise InputError(f"{source.name} has no rows")
    return found[0]
