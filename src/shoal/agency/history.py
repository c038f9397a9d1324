"""Past records as a distribution: how many there were of each combination of quasi values and a sensitive value."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from shoal.agency.distribution import WEIGHTS
from shoal.core.errors import InputError, UsageError
from shoal.sources.opening import open_source

_COUNT = WEIGHTS[0]


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
    found: pa.Table | None = None
    for batch in source.batches(names):
        for name in names:
            missing[name] += batch.column(name).null_count
        part = pa.Table.from_batches([batch]).group_by(names).aggregate([([], "count_all")])
        part = part.rename_columns([*names, _COUNT])
        found = part if found is None else _added(pa.concat_tables([found, part]), names)
    if lacking := [f"column {name!r} in {count:,}" for name, count in missing.items() if count]:
        raise InputError(f"{source.name} has records without a value: {', '.join(lacking)}; leave these records out")
    if found is None:
        raise InputError(f"{source.name} has no rows")
    return found


def _added(counts: pa.Table, names: list[str]) -> pa.Table:
    """Add up the counts of the same combination."""
    summed = counts.group_by(names).aggregate([(_COUNT, "sum")])
    return summed.rename_columns([*names, _COUNT])
