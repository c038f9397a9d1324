"""What an owner tells an agency of its records: how many there are of each combination of the agreed domain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.agency.distribution import WEIGHTS
from shoal.core.arrays import CodeArray, IntArray
from shoal.core.errors import InputError, UsageError
from shoal.core.sorting import pack
from shoal.sources.opening import open_source
from shoal.taxonomies.parse import texts, whole_numbers

_ROOM = 2**62


@dataclass(frozen=True, slots=True)
class Domain:
    """The columns of a campaign and their values, sensitive ones last."""

    names: tuple[str, ...]
    values: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, document: Any) -> Domain:
        """Read the domain of a campaign as its service tells it."""
        try:
            columns = [*document["quasi"], document["sensitive"]]
            names = tuple(column["name"] for column in columns)
            values = tuple(tuple(column["values"]) for column in columns)
        except (KeyError, TypeError):
            raise InputError("the agency's answer has no domain as campaigns have it") from None
        if len(names) < 2 or not all(type(text) is str for text in (*names, *(v for column in values for v in column))):
            raise InputError("the agency's answer has no domain as campaigns have it")
        return cls(names, values)


def counted(data: object, domain: Domain) -> dict[str, Any]:
    """Count the records of a table by the domain, for a contribution; one outside of it is an error by column.

    >>> domain = Domain(("sex", "illness"), (("F", "M"), ("flu", "gout")))
    >>> counted(pa.table({"sex": ["F", "M", "F"], "illness": ["gout", "flu", "gout"]}), domain)
    {'columns': ['sex', 'illness', 'count'], 'rows': [['F', 'gout', 2], ['M', 'flu', 1]]}
    """
    source = open_source(data)
    sizes = [len(values) for values in domain.values]
    if np.prod([float(size) for size in sizes]) >= _ROOM:
        raise UsageError("the campaign's domain has more than 2^62 combinations; shoal cannot count that many")
    outside = _Outside(domain.names)
    keys, counts = [], []
    for batch in source.batches(domain.names, dictionary=domain.names):
        codes = _codes(batch, domain, outside)
        known = np.logical_and.reduce([column >= 0 for column in codes])
        key, count = np.unique(pack([column[known] for column in codes], sizes), return_counts=True)
        keys.append(key)
        counts.append(count)
    outside.refuse(source.name)
    total, places = np.unique(np.concatenate(keys), return_inverse=True)
    sums = np.zeros(len(total), dtype=np.int64)
    np.add.at(sums, places, np.concatenate(counts))
    columns = [pa.array(values).take(code) for values, code in zip(domain.values, _unpacked(total, sizes), strict=True)]
    return _body(domain.names, columns, "count", sums.tolist())


def read_counts(data: object, domain: Domain, *, probabilities: bool = False) -> dict[str, Any]:
    """Read a table of counts by the domain as it is sent; with *probabilities* its last column may be that instead.

    Rows with 0 are kept: in a large domain they say that a combination belongs to it.
    """
    source = open_source(data)
    given = [name for name in (WEIGHTS if probabilities else WEIGHTS[:1]) if name in source.schema.names]
    wanted = " or ".join(f"`{name}`" for name in (WEIGHTS if probabilities else WEIGHTS[:1]))
    if len(given) != 1:
        raise InputError(f"{source.name} needs one column {wanted}; if it has a row per person, give it as --data")
    weight = given[0]
    further = [name for name in source.schema.names if name not in (*domain.names, weight)]
    if further:
        raise InputError(f"{source.name} has columns that the campaign has not: {', '.join(map(repr, further))}")
    outside = _Outside(domain.names)
    batches, codes, weights = [], [], []
    for batch in source.batches((*domain.names, weight), dictionary=domain.names):
        codes.append(_codes(batch, domain, outside))
        batches.append([texts(_whole(batch.column(name))) for name in domain.names])
        weights.append(batch.column(weight))
    outside.refuse(source.name)
    key = pack([np.concatenate(column) for column in zip(*codes, strict=True)], [len(v) for v in domain.values])
    if repeated := len(key) - len(np.unique(key)):
        raise InputError(f"{source.name} has {repeated:,} combinations more than once; add these rows up")
    columns = [pa.concat_arrays(column) for column in zip(*batches, strict=True)]
    given_weights = pa.concat_arrays(weights)
    numbers = _counts(given_weights, source.name) if weight == "count" else _probabilities(given_weights, source.name)
    return _body(domain.names, columns, weight, numbers)


def number_of_records(data: object) -> int:
    """Return how many rows a table has."""
    source = open_source(data)
    if source.n_rows is not None:
        return source.n_rows
    return sum(batch.num_rows for batch in source.batches(source.schema.names[:1]))


class _Outside:
    """How many records have a value outside the domain, by column."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names
        self.records = np.zeros(len(names), dtype=np.int64)

    def refuse(self, where: str) -> None:
        """Raise an error that names the columns with records outside, if there are any."""
        if not self.records.any():
            return
        told = ", ".join(
            f"{name!r} ({number:,})" for name, number in zip(self.names, self.records.tolist(), strict=True) if number
        )
        raise InputError(
            f"{where} has rows whose values are missing or outside the campaign's domain, in the columns {told}; "
            "nothing was sent"
        )


def _codes(batch: pa.RecordBatch, domain: Domain, outside: _Outside) -> list[CodeArray]:
    """Return the place of every value in the domain, -1 where it has none, and note how many those are."""
    found = []
    for place, (name, values) in enumerate(zip(domain.names, domain.values, strict=True)):
        column = texts(_whole(batch.column(name)))
        code = pc.index_in(column, value_set=pa.array(values, type=pa.string())).fill_null(-1)
        codes = code.to_numpy(zero_copy_only=False).astype(np.int32)
        outside.records[place] += int((codes < 0).sum())
        found.append(codes)
    return found


def _whole(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _unpacked(keys: IntArray, sizes: Sequence[int]) -> list[IntArray]:
    columns = []
    for size in reversed(sizes):
        keys, codes = np.divmod(keys, size)
        columns.append(codes)
    return columns[::-1]


def _counts(column: pa.Array, where: str) -> list[int]:
    numbers, valid = whole_numbers(_whole(column))
    if wrong := int((~valid | (numbers < 0)).sum()):
        raise InputError(f"column 'count' of {where}: {wrong:,} values are no whole numbers from 0 on")
    return [int(number) for number in numbers.tolist()]


def _probabilities(column: pa.Array, where: str) -> list[str]:
    if missing := column.null_count:
        raise InputError(f"column 'probability' of {where} has {missing:,} missing values; every row needs one")
    return list(map(str, texts(_whole(column)).to_pylist()))


def _body(names: Sequence[str], columns: Sequence[pa.Array], weight: str, weights: Sequence[object]) -> dict[str, Any]:
    rows = list(map(list, zip(*(column.to_pylist() for column in columns), weights, strict=True)))
    return {"columns": [*names, weight], "rows": rows}
