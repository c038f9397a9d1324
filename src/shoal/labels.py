"""What classes and regions publish: the text of every leaf range, and what it covers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from shoal.arrays import CodeArray
from shoal.problem import Attribute
from shoal.taxonomies.tree import Cover


@dataclass(frozen=True, slots=True, eq=False)
class PublishedColumn:
    """The labels of one quasi attribute, and which of them each class (or region) bears."""

    attribute: Attribute
    labels: pa.Array  # (n_labels,) distinct, sorted
    covers: tuple[Cover, ...]  # (n_labels,)
    label_of_class: CodeArray  # (n_classes,)

    @classmethod
    def of(cls, attribute: Attribute, lo: CodeArray, hi: CodeArray) -> PublishedColumn:
        """Write down each distinct range once, given that of every class: the leaves from *lo* on, below *hi*."""
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
            covers=tuple(attribute.taxonomy.cover(*ranges[i]) for i in order),
            label_of_class=rank[which.reshape(-1)],
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
        }
