"""What an agency knows of a population: how likely each combination of quasi values and a sensitive value is.

Probabilities are whole numbers of a common total (counts of records, or units of 10^-18), so that "at least p" is
decided exactly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.core.arrays import CodeArray, IntArray
from shoal.core.errors import InputError, UsageError
from shoal.core.kernels import kernel, pack
from shoal.methods.hilbert.curve import MOST_BITS, curve_keys
from shoal.release.release import CLASS
from shoal.sources.base import Source
from shoal.sources.opening import open_source
from shoal.taxonomies.parse import decimal_numbers, texts, whole_numbers
from shoal.taxonomies.tree import Taxonomy

Order: TypeAlias = Literal["lexicographic", "hilbert", "taxonomy"]  # classes are runs of points along one of them
ORDERS: tuple[Order, ...] = ("lexicographic", "hilbert", "taxonomy")
WEIGHTS = ("count", "probability")
DIGITS = 18  # kept of a given probability; further ones are dropped, which never makes a value likelier
UNITS = 10**DIGITS
_LONGEST = 40  # digits after the point that a probability may have
_TOLERATED = UNITS // 10**9
_FAR = "[eE][+-]?0*[1-9][0-9]{3}"  # exponents of four digits: Arrow's decimals crash on the largest of them
_LARGEST = 2.0**62
_NEAR = 64  # places that an entry is moved one by one; tables are mostly written point by point


class Entries(NamedTuple):
    """The points' sensitive values and weights, as in the distribution."""

    starts: IntArray  # (n_points + 1,)
    codes: CodeArray  # (n_entries,)
    weights: IntArray  # (n_entries,)
    n_values: int


@dataclass(frozen=True, slots=True, eq=False)
class JointDistribution:
    """P over points (combinations of quasi values, in an order) and sensitive values, in whole numbers.

    Point i has the sensitive values ``codes[starts[i]:starts[i + 1]]``, ascending, with probabilities
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
        """What compiled loops go through."""
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
        """Return (n_values,) the weights of the sensitive values, the largest first: p_1, p_2, ... times the total."""
        sums = np.zeros(self.n_values, dtype=np.int64)
        np.add.at(sums, self.codes, self.weights)
        return np.sort(sums)[::-1]

    def tail(self, l: int) -> Fraction:
        """Return p_l + p_{l+1} + ..., the probability of all sensitive values but the l - 1 likeliest."""
        return self.probability(int(self.marginal()[l - 1 :].sum()))

    def point_weights(self) -> IntArray:
        """Return (n_points,) the weights of the points."""
        before = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(self.weights)))
        return before[self.starts[1:]] - before[self.starts[:-1]]

    def probability(self, weight: int) -> Fraction:
        """Return a weight as a probability."""
        return Fraction(int(weight), self.total)

    def threshold(self, p: Fraction) -> int:
        """Return the smallest weight that is a probability of at least p."""
        return -(-p.numerator * self.total // p.denominator)


def read_distribution(
    data: object,
    sensitive: str,
    *,
    order: Order = "lexicographic",
    attributes: Sequence[str] | None = None,
    taxonomies: Mapping[str, Taxonomy] | None = None,
) -> JointDistribution:
    """Read a table of quasi columns, a sensitive column and ``count`` or ``probability``; what is unclear is refused.

    *attributes* names the quasi columns in the order that matters to a lexicographic order; without it they are all
    other columns as they come. Rows with 0 make a point part of the agreed domain without saying that it occurs.

    >>> table = pa.table({"age": [40, 9, 9], "illness": ["flu", "flu", "gout"], "count": [2, 1, 1]})
    >>> known = read_distribution(table, "illness")
    >>> known.quasi_values, known.weights.tolist(), known.total
    ((('9', '40'),), [1, 1, 2], 4)
    """
    source = open_source(data)
    quasi, weight_name = _find_columns(source, sensitive, attributes)
    names = [*quasi, sensitive, weight_name]
    batches = source.batches(names, dictionary=names[:-1])
    table = pa.Table.from_batches(list(batches))  # not in one piece: columns are put together as they are ranked
    for name in names:
        if missing := table.column(name).null_count:
            share = f"{missing:,} of {table.num_rows:,} rows"
            raise InputError(f"column {name!r} of {source.name} lacks a value in {share}; each needs one")
    trees = taxonomies or {}
    if unknown := [name for name in trees if name not in quasi]:
        raise UsageError(f"there is a taxonomy for {unknown[0]!r}, which is no quasi column")
    if order == "taxonomy" and not trees:
        raise UsageError("the order by taxonomy needs at least one taxonomy")
    with ThreadPoolExecutor() as threads:
        weighing = threads.submit(_read_weights, table.column(weight_name), weight_name, source.name)
        ranking = threads.map(lambda name: rank_values(table.column(name), name, trees.get(name)), names[:-1])
        weights, total = weighing.result()
        *columns, secret = ranking
    codes, values = [column.codes for column in columns], tuple(column.values for column in columns)
    sizes, hidden = list(map(len, values)), secret.codes
    key = pack([*codes, hidden], [*sizes, len(secret.values)])  # that of a point, times a number, plus the value
    if not _sort_within_points(key, hidden, weights):
        rows = np.argsort(key, kind="stable")
        key, hidden, weights = key[rows], hidden[rows], weights[rows]
        codes = [column[rows] for column in codes]
    if repeated := int(np.count_nonzero(key[1:] == key[:-1])):
        raise InputError(
            f"{source.name}: rows that say again how likely a combination of {', '.join(map(repr, quasi))} and "
            f"{sensitive!r} is: {repeated:,}; add them up"
        )
    key -= hidden
    first = np.concatenate((np.zeros(1, dtype=np.int64), np.flatnonzero(key[1:] != key[:-1]) + 1))
    points = tuple(column[first] for column in codes)
    places = order_points(points, sizes, order)
    starts, entries, kept = _order_entries(first, hidden, weights, places)
    if places is not None:
        points = tuple(column[places] for column in points)
    return JointDistribution(
        quasi,
        values,
        points,
        sensitive,
        secret.values,
        order,
        starts,
        entries,
        kept,
        total,
        weight_name == "count",
    )


@kernel
def _sort_within_points(keys: IntArray, codes: CodeArray, weights: IntArray) -> bool:
    """Sort entries of ascending points in place; return whether that was all: no point is out of order or too long."""
    for at in range(1, len(keys)):
        key, code, weight, to = keys[at], codes[at], weights[at], at
        if keys[at - 1] > key and keys[at - 1] - codes[at - 1] != key - code:
            return False
        while to > 0 and keys[to - 1] > key and at - to < _NEAR:
            keys[to], codes[to], weights[to] = keys[to - 1], codes[to - 1], weights[to - 1]
            to -= 1
        keys[to], codes[to], weights[to] = key, code, weight
        if to > 0 and keys[to - 1] > key:
            return False
    return True


def _find_columns(source: Source, sensitive: str, attributes: Sequence[str] | None) -> tuple[tuple[str, ...], str]:
    """Return the quasi columns in their order, and the column that says how likely a row is."""
    found = [name for name in WEIGHTS if name in source.schema.names]
    if len(found) != 1:
        has = "both of them" if found else "neither"
        raise InputError(f"{source.name} needs a column `count` or a column `probability`; it has {has}")
    weight = found[0]
    others = tuple(name for name in source.schema.names if name not in (sensitive, weight))
    if sensitive in WEIGHTS:
        raise UsageError(f"the sensitive column cannot be {sensitive!r}, which says how likely a row is")
    if sensitive not in source.schema.names:
        next(source.batches([sensitive]))  # says so, with the nearest name
    if not others:
        raise InputError(f"{source.name} has no quasi column besides {sensitive!r} and {weight!r}")
    if CLASS in (*others, sensitive):
        raise InputError(
            f"{source.name} has a column {CLASS!r}, which is what releases call the number of the class; rename it"
        )
    if attributes is None:
        return others, weight
    if sorted(attributes) != sorted(others):
        raise UsageError(
            f"the order of attributes must name each quasi column of {source.name} once ({', '.join(others)}), "
            f"got {', '.join(attributes) or 'none'}"
        )
    return tuple(attributes), weight


def _read_weights(column: pa.ChunkedArray, name: str, where: str) -> tuple[IntArray, int]:
    """Return the weights, and the total that they are parts of."""
    values = column.combine_chunks()
    values = pa.concat_arrays(values.chunks) if isinstance(values, pa.ChunkedArray) else values
    counted = name == "count"
    numbers, valid = whole_numbers(values) if counted else decimal_numbers(values)
    kind = "whole numbers below 2^63" if counted else "numbers"
    wrong = {f"no {kind}": ~valid, "negative": numbers < 0, **({} if counted else {"above 1": numbers > 1})}
    for what, which in wrong.items():
        if many := int(np.count_nonzero(which)):
            raise InputError(f"column {name!r} of {where}: {many:,} of {len(values):,} values are {what}")
    weights = np.require(numbers, np.int64, ["C", "W"]) if counted else _read_units(values, name, where)
    if float(weights.sum(dtype=np.float64)) >= _LARGEST:
        raise InputError(f"column {name!r} of {where} sums to more than 2^62; shoal cannot count that far")
    total = int(weights.sum())
    if counted and not total:
        raise InputError(f"column {name!r} of {where} is 0 everywhere: nothing is known of the population")
    if not counted and abs(total - UNITS) > _TOLERATED:
        raise InputError(f"column {name!r} of {where} sums to {total / UNITS:.12g}; probabilities must sum to 1")
    return weights, total if counted else max(total, UNITS)


def _read_units(values: pa.Array, name: str, where: str) -> IntArray:
    """Return decimals as whole numbers of 10^-18, rounded down."""
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


def _order_entries(
    first: IntArray, codes: CodeArray, weights: IntArray, places: IntArray | None
) -> tuple[IntArray, CodeArray, IntArray]:
    """Bring the points into their order and drop entries of weight 0, but not their points."""
    lengths = np.diff(np.append(first, len(codes)))
    if places is not None:
        lengths, origin = lengths[places], first[places]
        after = np.cumsum(lengths)
        take = np.repeat(origin - (after - lengths), lengths) + np.arange(len(codes))
        codes, weights = codes[take], weights[take]
    positive = weights > 0
    ends = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(lengths)))
    if positive.all():
        return ends, codes, weights
    before = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(positive)))
    return before[ends], codes[positive], weights[positive]


class Ranked(NamedTuple):
    """A column as places among its distinct values."""

    codes: CodeArray  # (n_rows,)
    values: tuple[str, ...]  # in their order


def rank_values(column: pa.ChunkedArray, name: str, taxonomy: Taxonomy | None) -> Ranked:
    """Rank the values of a column: by the leaves of a taxonomy, else numbers as numbers, else as text.

    >>> rank_values(pa.chunked_array([["10", "9", "10"]]), "age", None)
    Ranked(codes=array([1, 0, 1], dtype=int32), values=('9', '10'))
    """
    coded = column if pa.types.is_dictionary(column.type) else pc.dictionary_encode(column)
    whole = coded.unify_dictionaries().combine_chunks()
    whole = whole.chunk(0) if isinstance(whole, pa.ChunkedArray) else whole
    codes = whole.indices.to_numpy(zero_copy_only=False)
    occurs = np.zeros(len(whole.dictionary), dtype=np.bool_)
    occurs[codes] = True
    used = np.flatnonzero(occurs)
    entries = whole.dictionary.take(pa.array(used))
    written = texts(entries)
    by_text = np.empty(len(used), dtype=np.int64)
    by_text[pc.sort_indices(written).to_numpy()] = np.arange(len(used))
    numbers, valid = decimal_numbers(written)
    keys = [by_text] + ([numbers] if valid.all() else [])
    if taxonomy is not None:
        leaves = taxonomy.encode(entries)
        if outside := int((leaves < 0).sum()):
            raise InputError(f"column {name!r} has {outside:,} values that its taxonomy does not cover; add them to it")
        keys.append(leaves.astype(np.int64))
    order = np.lexsort(keys)
    rank = np.zeros(len(whole.dictionary), dtype=np.int32)
    rank[used[order]] = np.arange(len(used))
    return Ranked(rank[codes], tuple(written.take(pa.array(order)).to_pylist()))


def order_points(points: Sequence[CodeArray], sizes: Sequence[int], order: Order) -> IntArray | None:
    """Return (n_points,) which point of the lexicographic order comes when; None if that order stays."""
    if order != "hilbert" or len(points) == 1:
        return None
    bits = max(max(int(size - 1).bit_length() for size in sizes), 1)
    excess = max(bits - MOST_BITS, 0)
    places = np.stack([(column >> excess).astype(np.uint32) for column in points], axis=1)
    words = curve_keys(places, bits - excess)
    return np.lexsort(words[::-1])


def count_records(data: object, quasi: Sequence[str], sensitive: str) -> pa.Table:
    """Count the records of a table, so that :func:`~shoal.agency.distribution.read_distribution` can read them.

    Only combinations that occur are in it, and so in the domain of a plan that is made from it.

    >>> past = pa.table({"name": ["a", "b", "c"], "age": [9, 40, 9], "illness": ["flu", "flu", "flu"]})
    >>> count_records(past, ["age"], "illness").to_pydict()
    {'age': [9, 40], 'illness': ['flu', 'flu'], 'count': [2, 1]}
    """
    names = [*quasi, sensitive]
    if repeated := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
        raise UsageError(f"column {repeated[0]!r} is named twice; name each column once")
    if reserved := [name for name in names if name in WEIGHTS]:
        raise UsageError(f"column {reserved[0]!r} says how likely a row is; a table of records has no such column")
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
