"""Published columns: values of cells, labels of classes and regions, and labels of sensitive values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from shoal.core import kernels
from shoal.core.arrays import AnyIntArray, CodeArray, IntArray
from shoal.plan.counted import CountedCells, SeenValues
from shoal.plan.plan import KEPT, Plan
from shoal.plan.problem import Attribute, Problem
from shoal.policy.encoding import Encoding
from shoal.taxonomies.parse import texts
from shoal.taxonomies.scales import tiles_to_name
from shoal.taxonomies.tree import Cover, Taxonomy, free_label
from shoal.utility.information import relative_widths


class ClassColumn(Protocol):
    """One quasi attribute: what each class publishes of it, and how the manifest tells of it."""

    @property
    def attribute(self) -> Attribute:
        """The attribute."""

    def values(self, classes: CodeArray) -> pa.Array:
        """Return the published values of rows, given their classes."""

    def describe(self) -> dict[str, Any]:
        """Return the manifest's entry."""


@dataclass(frozen=True, slots=True, eq=False)
class CellColumn:
    """What each counted cell publishes in one column: one of ``values``, or nothing where ``index`` is -1."""

    index: CodeArray  # (n_counted_cells,)
    values: pa.Array

    @classmethod
    def of(cls, counted: CountedCells, name: str) -> CellColumn:
        """Publish the values of the source as they are."""
        column = counted.columns.index(name)
        return cls(counted.codes(column).astype(np.int32) - 1, counted.dictionaries[column].values)

    def take(self, cells: AnyIntArray) -> pa.Array:
        """Return the values of rows, given their cells."""
        return encode_values(self.index[cells], self.values)


def without_dictionary(column: pa.Array) -> pa.Array:
    """Return the same values, spelled out."""
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def encode_values(index: CodeArray, values: pa.Array) -> pa.Array:
    """Return the value that each index tells, null for -1; texts stay coded.

    >>> encode_values(np.array([1, -1], dtype=np.int32), pa.array([30, 40])).to_pylist()
    [40, None]
    """
    indices = pa.array(index, mask=index < 0)
    if pa.types.is_string(values.type):
        return pa.DictionaryArray.from_arrays(indices, values)
    return values.take(indices)


@dataclass(frozen=True, slots=True, eq=False)
class ValueColumn:
    """One quasi attribute without labels: all records of a class publish the same value."""

    attribute: Attribute
    index: CodeArray  # (n_classes,) place among the entries, -1 for missing
    entries: pa.Array

    @classmethod
    def of(cls, attribute: Attribute, counted: CountedCells, encoding: Encoding, plan: Plan) -> ValueColumn:
        """Publish the values of the source, which all records of a class have in common."""
        values = CellColumn.of(counted, attribute.name)
        cells = np.arange(len(plan.assignment.class_of)) if encoding.kept is None else encoding.kept
        index = np.empty(plan.n_classes, dtype=np.int32)
        index[plan.assignment.class_of] = values.index[cells]  # no record is withheld, so each class has some
        return cls(attribute, index, values.values)

    def values(self, classes: CodeArray) -> pa.Array:
        """Return the published values of rows, given their classes."""
        return encode_values(self.index[classes], self.entries)

    def describe(self) -> dict[str, Any]:
        """Return the manifest's entry: how the values are read."""
        scale = self.attribute.taxonomy.scale
        return {"role": "quasi", "kind": scale.kind, **scale.reading()}


@dataclass(frozen=True, slots=True, eq=False)
class PublishedColumn:
    """The labels of one quasi attribute, and which of them each class (or region) bears."""

    attribute: Attribute
    labels: pa.Array  # (n_labels,) distinct, sorted
    covers: tuple[Cover, ...]  # (n_labels,)
    label_of_class: CodeArray  # (n_classes,)
    domain: dict[str, Any]  # the manifest's entry on how much of the taxonomy labels cover, if it is declared

    @classmethod
    def of(cls, attribute: Attribute, lo: CodeArray, hi: CodeArray, shown: IntArray) -> PublishedColumn:
        """Write down each distinct range once, given that of every class: the leaves from *lo* on, below *hi*.

        *shown*, ascending, are the leaves that published records have: no others are listed under the name of a group.
        """
        width = attribute.taxonomy.n_leaves + 1
        distinct, which = np.unique(lo.astype(np.int64) * width + hi, return_inverse=True)
        ranges = list(zip((distinct // width).tolist(), (distinct % width).tolist(), strict=True))
        texts = [attribute.taxonomy.label(low, high) for low, high in ranges]
        order = sorted(range(len(texts)), key=texts.__getitem__)
        rank = np.empty(len(order), dtype=np.int32)
        rank[order] = np.arange(len(order), dtype=np.int32)
        return cls(
            attribute=attribute,
            labels=pa.array([texts[i] for i in order], pa.string()),
            covers=tuple(_cover(attribute.taxonomy, *ranges[i], shown) for i in order),
            label_of_class=rank[which.reshape(-1)],
            domain=domain_entry(attribute.taxonomy, {texts[i]: ranges[i] for i in order}),
        )

    def values(self, classes: CodeArray) -> pa.DictionaryArray:
        """Return the published values of rows, given their classes."""
        return pa.DictionaryArray.from_arrays(pa.array(self.label_of_class[classes]), self.labels)

    def describe(self) -> dict[str, Any]:
        """Return the manifest's entry: every label that occurs with the source values it stands for."""
        return {
            "role": "quasi",
            "kind": self.attribute.taxonomy.scale.kind,
            **self.attribute.taxonomy.scale.reading(),
            "labels": dict(zip(self.labels.to_pylist(), self.covers, strict=True)),
            **self.domain,
        }


def domain_entry(taxonomy: Taxonomy, ranges: Mapping[str, tuple[int, int]]) -> dict[str, Any]:
    """Return the manifest's entry on how many leaves lie under each label, and how far they reach.

    By it everybody can compute the figures of utility. Of a taxonomy that was made of the data nothing is told.
    """
    if not taxonomy.declared or not ranges:
        return {}
    lo, hi = np.array(list(ranges.values()), dtype=np.int32).T
    widths = relative_widths(taxonomy, lo, hi).tolist()
    of_labels = zip(ranges, (hi - lo).tolist(), widths, strict=True)
    labels = {label: [leaves, width] for label, leaves, width in of_labels}
    return {"domain": {"leaves": taxonomy.n_leaves, "labels": labels}}


def _cover(taxonomy: Taxonomy, lo: int, hi: int, shown: IntArray) -> Cover:
    """Return what a leaf range covers; of listed values those that its label names and those that are published."""
    cover = taxonomy.cover(lo, hi)
    if len(cover.get("values", ())) < 2:
        return cover
    named = {tile for tile in tiles_to_name(taxonomy, lo, hi) if taxonomy.is_leaf(tile)}
    listed = named.union(shown[np.searchsorted(shown, lo) : np.searchsorted(shown, hi)].tolist())
    values = [value for leaf, value in enumerate(cover["values"], lo) if leaf in listed]
    return cover | {"values": values} if values else cover


@dataclass(frozen=True, slots=True, eq=False)
class SensitiveColumn:
    """The texts of one sensitive attribute of which some records publish a taxonomy node.

    A label covers just the values below it that published records have: these are what an adversary has to choose
    from, and what the verifier spreads the record over.
    """

    name: str
    labels: pa.Array  # (n_labels,) distinct, sorted
    covers: tuple[Cover, ...]  # (n_labels,)
    label_of_value: CodeArray  # (n_dictionary_values,) -1: no record publishes this value
    label_of_target: CodeArray  # (n_targets,) or KEPT
    domain: dict[str, Any]  # the manifest's entry on how much of the taxonomy labels cover, if it is declared

    @classmethod
    def of(cls, place: int, counted: CountedCells, encoding: Encoding, plan: Plan) -> SensitiveColumn | None:
        """Write down all texts of one attribute; None if every record keeps its own value."""
        targets, problem = plan.targets, encoding.problem
        if targets is None or (targets.lo[:, place] == KEPT).all():
            return None
        cell, class_of, _, _ = plan.pieces(problem.cells.counts)
        occurring = kernels.occurring(problem.cells.codes[len(problem.quasi) + place][cell[class_of >= 0]]).tolist()
        kept = find_kept_leaves(plan, place, problem)
        return cls.of_ranges(
            problem.sensitive[place], counted, occurring, kept, targets.lo[:, place], targets.hi[:, place]
        )

    @classmethod
    def of_ranges(
        cls,
        attribute: Attribute,
        seen: SeenValues,
        occurring: Sequence[int],
        kept: Sequence[int],
        lo: CodeArray,
        hi: CodeArray,
    ) -> SensitiveColumn:
        """Write down all texts, given the leaves that occur, those that some record keeps, and the range of targets."""
        text_of = spell_leaves(attribute, seen)
        covers: dict[str, Cover] = {text_of[leaf]: {"values": [text_of[leaf]]} for leaf in kept if leaf in text_of}
        taken = set(text_of.values())
        label_of_range: dict[tuple[int, int], str] = {}
        leaves = {text_of[leaf]: (leaf, leaf + 1) for leaf in kept if leaf in text_of}
        for low, high in sorted(set(zip(lo.tolist(), hi.tolist(), strict=True))):
            if low == KEPT:
                continue
            label = free_label(attribute.taxonomy.label(low, high), taken)
            taken.add(label)
            label_of_range[low, high] = label
            leaves[label] = low, high
            below = [leaf for leaf in occurring if low <= leaf < high]
            covers[label] = {"values": [text_of[leaf] for leaf in below if leaf in text_of]}
            if attribute.taxonomy.missing in below:
                covers[label]["missing"] = True
        ordered = sorted(covers)
        rank = {label: number for number, label in enumerate(ordered)}
        values = seen.dictionaries[seen.columns.index(attribute.name)].values
        return cls(
            name=attribute.name,
            labels=pa.array(ordered, pa.string()),
            covers=tuple(covers[label] for label in ordered),
            label_of_value=np.array([rank.get(text, -1) for text in texts(values).to_pylist()], dtype=np.int32),
            label_of_target=np.array(
                [KEPT if low == KEPT else rank[label_of_range[low, high]] for low, high in zip(lo, hi, strict=True)],
                dtype=np.int32,
            ),
            domain=domain_entry(attribute.taxonomy, {label: leaves[label] for label in ordered}),
        )

    def values(self, targets: CodeArray, indices: CodeArray) -> pa.DictionaryArray:
        """Return what rows publish, given their targets and the dictionary indices of their values, -1 if missing."""
        own = np.append(self.label_of_value, np.int32(-1))[indices]
        label = np.where(self.label_of_target[targets] == KEPT, own, self.label_of_target[targets])
        return pa.DictionaryArray.from_arrays(pa.array(label, mask=label < 0), self.labels)

    def describe(self) -> dict[str, Any]:
        """Return the manifest's entry: every text that occurs with the source values it stands for."""
        labels = dict(zip(self.labels.to_pylist(), self.covers, strict=True))
        return {"role": "sensitive", "kind": "category", "labels": labels, **self.domain}


def pair_labels(published: pa.RecordBatch, values: Mapping[str, pa.Array], records: IntArray) -> pa.Table:
    """Return so many records of each published row beside the values that they have, as texts."""
    arrays = [column.cast(pa.string()) for column in (*published.columns, *values.values())]
    names = [*published.schema.names, *(f"value of {name}" for name in values), "records"]
    return pa.table([*arrays, pa.array(records)], names=names)


def spell_leaves(attribute: Attribute, seen: SeenValues) -> dict[int, str]:
    """Return the values of a column as files spell them, by their leaves; a leaf's label may differ."""
    values, _ = seen.in_use(seen.columns.index(attribute.name))
    return dict(zip(attribute.taxonomy.encode(values).tolist(), texts(values).to_pylist(), strict=True))


def find_kept_leaves(plan: Plan, place: int, problem: Problem) -> list[int]:
    """Return the leaves of a sensitive attribute that some published record keeps."""
    leaves = problem.cells.codes[len(problem.quasi) + place]
    cell, class_of, records, target = plan.pieces(problem.cells.counts)
    own = (class_of >= 0) & (records > 0)
    if plan.targets is not None:
        own &= np.append(plan.targets.lo[:, place], 0)[target] == KEPT
    found: list[int] = kernels.occurring(leaves[cell[own]]).tolist()
    return found
