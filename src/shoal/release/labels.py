"""What classes and regions publish: the text of every leaf range, and what it covers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from shoal.core.arrays import CodeArray, IntArray
from shoal.plan.problem import Attribute
from shoal.taxonomies.scales import named_tiles
from shoal.taxonomies.tree import Cover, Taxonomy
from shoal.utility.ncp import relative_widths


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
    named = {tile for tile in named_tiles(taxonomy, lo, hi) if taxonomy.is_leaf(tile)}
    listed = named.union(shown[np.searchsorted(shown, lo) : np.searchsorted(shown, hi)].tolist())
    values = [value for leaf, value in enumerate(cover["values"], lo) if leaf in listed]
    return cover | {"values": values} if values else cover
