"""A release as a table of the source's shape, as somebody who works with it would make one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.compare.ground import UNKNOWN, Compared, Ground
from shoal.core.arrays import CodeArray, FloatArray, IntArray
from shoal.linking.columns import coded
from shoal.release.release import Release
from shoal.release.sliced.table import is_sliced
from shoal.taxonomies.parse import days, decimal_numbers
from shoal.taxonomies.scales import Categories, Prefixes
from shoal.taxonomies.tree import Cover


def reconstructed(release: Release, ground: Ground, rng: np.random.Generator) -> CodeArray:
    """Return (n_attributes, n_rows) leaves: where a label stands for several, each row has one of them at random.

    Parts of a sliced release are linked at random within buckets. Values and averages are taken as they are; what is no
    value of the attribute, such as a token, is unknown.
    """
    table: pa.Table = release.sample_table(rng) if is_sliced(release.manifest) else release.data
    entries = release.manifest["attributes"]
    columns = []
    for compared in ground.attributes:
        labels = entries[compared.name].get("labels")
        column = table.column(compared.name)
        columns.append(compared.codes(column) if labels is None else _drawn(compared, column, labels, rng))
    return np.stack(columns)


def _drawn(
    compared: Compared, column: pa.ChunkedArray, labels: Mapping[str, Cover], rng: np.random.Generator
) -> CodeArray:
    codes, found = coded(column)
    below = [_below(compared, {"missing": True} if text is None else labels[text]) for text in found]
    sizes = np.array([len(leaves) for leaves in below], dtype=np.int64)
    starts = np.cumsum(sizes) - sizes
    place = starts[codes] + np.floor(rng.random(len(codes)) * sizes[codes]).astype(np.int64)
    drawn: CodeArray = np.concatenate(below).astype(np.int32)[place]
    return drawn


def _below(compared: Compared, cover: Cover) -> IntArray:
    """Return the leaves that a label covers; where none does, the nearest one or UNKNOWN.

    >>> from shoal.policy.policy import AttributePolicy
    >>> age = Compared.of("age", AttributePolicy("quasi"), [pa.chunked_array([[20, 30, 40, 50]])])
    >>> _below(age, {"from": 25, "below": 50}).tolist(), _below(age, {"any": True}).tolist()
    ([1, 2], [0, 1, 2, 3])
    >>> town = Compared.of("town", AttributePolicy("quasi"), [pa.chunked_array([["Bonn", "Ulm"]])])
    >>> _below(town, {"values": ["Ulm"]}).tolist(), _below(town, {"values": ["Hof"]}).tolist()
    ([1], [-1])
    """
    if "any" in cover:
        return np.arange(compared.taxonomy.n_leaves)
    found = _present(compared, cover)
    missing = compared.taxonomy.missing
    if cover.get("missing") and missing is not None:
        found = np.append(found, missing)
    return found if len(found) else np.array([UNKNOWN])


def _present(compared: Compared, cover: Cover) -> IntArray:
    if "values" in cover:
        leaves = np.unique(compared.leaves(pa.array(cover["values"], pa.string())))
        return np.asarray(leaves[leaves != UNKNOWN], dtype=np.int64)
    scale = compared.taxonomy.scale
    if compared.places is not None and "from" in cover:
        return _between(compared, cover["from"], cover["below"])
    if not isinstance(scale, Categories | Prefixes):
        return np.empty(0, dtype=np.int64)
    if "prefixes" in cover:
        inside = [pc.starts_with(scale.leaves, pattern=prefix) for prefix in cover["prefixes"]]
    else:
        inside = [_texts_between(scale.leaves, cover.get("from"), cover.get("through"))] if "from" in cover else []
    held = [np.asarray(each.to_numpy(zero_copy_only=False), dtype=np.bool_) for each in inside]
    return np.flatnonzero(np.logical_or.reduce(held)) if held else np.empty(0, dtype=np.int64)


def _texts_between(leaves: pa.Array, first: str | None, last: str | None) -> pa.Array:
    inside = leaves.is_valid()
    if first is not None:
        inside = pc.and_(inside, pc.greater_equal(leaves, first))
    return inside if last is None else pc.and_(inside, pc.less_equal(leaves, last))


def _between(compared: Compared, low: Any, below: Any) -> IntArray:
    """Return the leaves whose place is from *low* on and below *below*, or the one nearest to their middle."""
    places: FloatArray = np.asarray(compared.places)
    ends = _numbers(compared, [low, below])
    first = places[0] if low is None else ends[0]
    end = np.nextafter(places[-1], np.inf) if below is None else ends[1]
    inside = np.flatnonzero((places >= first) & (places < end))
    if len(inside):
        return inside
    return np.array([np.abs(places - (first + end) / 2).argmin()])


def _numbers(compared: Compared, ends: Sequence[Any]) -> FloatArray:
    values = pa.array([None if end is None else str(end) for end in ends], pa.string())
    read = decimal_numbers(values) if compared.taxonomy.scale.kind == "number" else days(values)
    return np.asarray(read[0], dtype=np.float64)
