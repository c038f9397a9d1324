"""Published columns: the values or labels of cells, classes and ranges, and their entries in the manifest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.core.arrays import AnyIntArray, CodeArray, IntArray
from shoal.plan.counted import CountedCells, SeenValues
from shoal.plan.problem import Attribute
from shoal.taxonomies.parse import texts
from shoal.taxonomies.tree import Cover, Taxonomy, free_label


@dataclass(frozen=True, slots=True, eq=False)
class PublishedColumn:
    """A column of published values: each number represents one of ``values``, or null if ``index`` is -1.

    A number is a place in ``index`` (of a cell, a class, or a value of the source) or, with ``keys``, one of the keys.
    """

    index: CodeArray  # (n_numbers,)
    values: pa.Array
    entry: Mapping[str, Any] | None = None  # of the manifest; None if values are published unchanged
    keys: AnyIntArray | None = None  # (n_numbers,) distinct

    @classmethod
    def of_cells(cls, counted: CountedCells, name: str) -> PublishedColumn:
        return cls(value_indices(counted, name), source_values(counted, name))

    @classmethod
    def of_values(cls, values: pa.Array) -> PublishedColumn:
        """Publish values unchanged; numbers are their indices, and -1 for a missing value."""
        return cls(np.append(np.arange(len(values), dtype=np.int32), np.int32(-1)), values)

    @classmethod
    def of_ranges(cls, attribute: Attribute, lo: CodeArray, hi: CodeArray, level: int | None = None) -> PublishedColumn:
        """Label each range of a quasi attribute, from leaf *lo* to below *hi*; numbers are the places of the ranges.

        If one *level* was chosen for all values, the label belongs to that level, even if its group has a single value.
        A cover lists every value that the policy declares under a group: listing only the values that occur would show
        who is in the table.
        """
        taxonomy = attribute.taxonomy
        distinct, which = np.unique(key_ranges(taxonomy, lo, hi), return_inverse=True)
        ranges = list_ranges(taxonomy, distinct)
        labels = [taxonomy.label(low, high, level) for low, high in ranges]
        order = sorted(range(len(labels)), key=labels.__getitem__)
        rank = np.empty(len(order), dtype=np.int32)
        rank[order] = np.arange(len(order), dtype=np.int32)
        entry = {
            **describe_values(attribute, "quasi"),
            "labels": {labels[i]: taxonomy.cover(*ranges[i], level) for i in order},
        }
        return cls(rank[which.reshape(-1)], pa.array([labels[i] for i in order], pa.string()), entry)

    @classmethod
    def of_sensitive(
        cls, attribute: Attribute, seen: SeenValues, occurring: IntArray, kept: IntArray, ranges: IntArray
    ) -> PublishedColumn:
        """Publish source values, and labels for the *ranges* (distinct keys) that replace some of them.

        A label covers only the values below it that published records have (the leaves *occurring*): an adversary has
        to choose among these, and the verifier spreads the record over them. *kept* are the leaves that some record
        publishes. Numbers are indices of values, the keys of ranges beyond these, and -1 for missing values.
        """
        values, taxonomy = source_values(seen, attribute.name), attribute.taxonomy
        if not len(ranges):
            return cls.of_values(values)
        text_of = spell_leaves(attribute, seen)
        leaves = {text_of[leaf]: (leaf, leaf + 1) for leaf in kept.tolist() if leaf in text_of}
        covers: dict[str, Cover] = {text: {"values": [text]} for text in leaves}
        taken, labels = set(text_of.values()), []
        for low, high in list_ranges(taxonomy, ranges):
            label = free_label(taxonomy.label(low, high), taken)
            taken.add(label)
            labels.append(label)
            leaves[label] = low, high
            below = occurring[(occurring >= low) & (occurring < high)].tolist()
            covers[label] = {"values": [text_of[leaf] for leaf in below if leaf in text_of]}
            if taxonomy.missing in below:
                covers[label]["missing"] = True
        ordered = sorted(covers)
        rank = {label: number for number, label in enumerate(ordered)}
        index = [-1, *(rank.get(text, -1) for text in texts(values).to_pylist()), *(rank[label] for label in labels)]
        entry = {
            "role": "sensitive",
            "kind": "category",
            "labels": {label: covers[label] for label in ordered},
        }
        keys = np.concatenate([np.arange(-1, len(values)), len(values) + ranges])
        return cls(np.array(index, dtype=np.int32), pa.array(ordered, pa.string()), entry, keys)

    def take(self, numbers: AnyIntArray) -> pa.Array:
        """Return the published values of rows, given their numbers."""
        if self.keys is not None:
            keys = pa.array(self.keys.astype(numbers.dtype))
            numbers = pc.index_in(pa.array(numbers), value_set=keys).to_numpy()
        return encode_values(self.index[numbers], self.values)


def encode_values(index: CodeArray, values: pa.Array) -> pa.Array:
    """Return the value at each index, null for -1; texts stay dictionary-encoded.

    >>> encode_values(np.array([1, -1], dtype=np.int32), pa.array([30, 40])).to_pylist()
    [40, None]
    """
    missing = index < 0
    indices = pa.array(index, mask=missing) if missing.any() else pa.array(index)
    if pa.types.is_string(values.type):
        return pa.DictionaryArray.from_arrays(indices, values)
    return values.take(indices)


def without_dictionary(column: pa.Array) -> pa.Array:
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def source_values(seen: SeenValues, name: str) -> pa.Array:
    """Return the values of a source column in the order of their codes."""
    return seen.dictionaries[seen.columns.index(name)].values


def value_indices(counted: CountedCells, name: str) -> CodeArray:
    """Return (n_counted_cells,) the place of each cell's value among the source's values, -1 if it is missing."""
    return counted.codes(counted.columns.index(name)).astype(np.int32) - np.int32(1)


def key_ranges(taxonomy: Taxonomy, lo: AnyIntArray, hi: AnyIntArray, first: int = 0) -> AnyIntArray:
    """Return (n,) a key, from *first* on, for each range of leaves; within a taxonomy, equal ranges have equal keys.

    >>> from shoal.taxonomies.files import from_nested
    >>> tree = from_nested({"any": ["hepatitis", "anemia"]})
    >>> key_ranges(tree, np.array([0, 1]), np.array([2, 2])).tolist()
    [2, 5]
    """
    keys = first + lo.astype(np.int64) * (taxonomy.n_leaves + 1) + hi
    return keys.astype(key_type(taxonomy, first))


def key_type(taxonomy: Taxonomy, first: int) -> type[np.signedinteger[Any]]:
    """Return the integer type that holds keys of ranges from *first* on and the indices of values below *first*."""
    return np.int32 if first + (taxonomy.n_leaves + 1) ** 2 < 1 << 31 else np.int64


def read_ranges(taxonomy: Taxonomy, keys: AnyIntArray) -> tuple[CodeArray, CodeArray]:
    """Return (n,) the first leaf of the range with each key, and the leaf after its last."""
    lo, hi = np.divmod(keys, taxonomy.n_leaves + 1)
    return lo.astype(np.int32), hi.astype(np.int32)


def list_ranges(taxonomy: Taxonomy, keys: AnyIntArray) -> list[tuple[int, int]]:
    lo, hi = read_ranges(taxonomy, keys)
    return list(zip(lo.tolist(), hi.tolist(), strict=True))


def describe_values(attribute: Attribute, role: str) -> dict[str, object]:
    """Return the manifest's entry for an attribute: role, kind and how values are read."""
    scale = attribute.taxonomy.scale
    return {"role": role, "kind": scale.kind, **scale.reading()}


def spell_leaves(attribute: Attribute, seen: SeenValues) -> dict[int, str]:
    """Return the values of a column as spelled in the source, by their leaves; the leaves' labels may differ."""
    values, _ = seen.in_use(seen.columns.index(attribute.name))
    return dict(zip(attribute.taxonomy.encode(values).tolist(), texts(values).to_pylist(), strict=True))
