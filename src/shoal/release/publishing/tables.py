"""A release as two tables: quasi values by bucket, and how often each bucket has what sensitive values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from shoal.core.arrays import AnyIntArray
from shoal.core.errors import UsageError
from shoal.release.sliced.table import BUCKET, SlicedTable, published_columns

COUNT = "count"


def two_tables(table: SlicedTable, manifest: Mapping[str, Any]) -> tuple[pa.Table, pa.Table]:
    """Return all parts but the sensitive one as they are, and how often each bucket has what of that one.

    Xiao and Tao, "Anatomy: simple and effective privacy preservation" (VLDB 2006), Definition 3. The columns of the
    second table are the bucket, those of the sensitive part, and ``count``.

    >>> rows = pa.table({"bucket": [1, 1, 1], "age": [22, 33, 22], "illness": ["gout", "flu", "gout"]})
    >>> told = {"attributes": {"age": {"role": "quasi"}, "illness": {"role": "sensitive"}}}
    >>> told["parts"] = [["age"], ["illness"]]
    >>> quasi, sensitive = two_tables(SlicedTable.of(rows, told), told)
    >>> quasi.to_pydict()
    {'bucket': [1, 1, 1], 'age': [22, 33, 22]}
    >>> sensitive.to_pydict()
    {'bucket': [1, 1], 'illness': ['flu', 'gout'], 'count': [1, 2]}
    """
    place = _sensitive_part(manifest)
    names = published_columns(manifest["parts"])
    if COUNT in names[place]:
        raise UsageError(
            f"the table of sensitive values has a column {COUNT!r} of its own; rename the attribute {COUNT!r} in the "
            "data and in the policy"
        )
    quasi = _bucket_column(table.bucket)
    for other, part in enumerate(table.parts):
        if other != place:
            shown = part.distinct.take(pa.array(part.codes))
            quasi |= dict(zip(names[other], shown.columns, strict=True))
    part = table.parts[place]
    key = table.bucket.astype(np.int64) * part.n_codes + part.codes
    distinct, counts = np.unique(key, return_counts=True)
    values = part.distinct.take(pa.array(distinct % part.n_codes))
    sensitive = _bucket_column(distinct // part.n_codes)
    sensitive |= dict(zip(names[place], values.columns, strict=True))
    order = [(name, "ascending") for name in sensitive]
    return pa.table(quasi), pa.table({**sensitive, COUNT: counts}).sort_by(order)


def _bucket_column(bucket: AnyIntArray) -> dict[str, Any]:
    return {BUCKET: pa.array(bucket.astype(np.int32) + np.int32(1))}


def _sensitive_part(manifest: Mapping[str, Any]) -> int:
    """Return the place of the only part with sensitive attributes."""
    attributes = manifest["attributes"]
    holders = [
        place
        for place, part in enumerate(manifest["parts"])
        if any(attributes[name]["role"] == "sensitive" for name in part)
    ]
    if len(holders) != 1 or len(manifest["parts"]) < 2:
        raise UsageError(
            "two tables can be made of a sliced release of which one part has all sensitive attributes; here "
            f"{len(holders)} of {len(manifest['parts'])} parts have some"
        )
    return holders[0]
