"""What a generalized sensitive column publishes: values as they were, and labels that stand for several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from shoal.core import kernels
from shoal.core.arrays import CodeArray, IntArray
from shoal.plan.counted import CountedCells, SeenValues
from shoal.plan.plan import KEPT, Plan
from shoal.plan.problem import Attribute, Problem
from shoal.policy.encoding import Encoding
from shoal.release.labels import domain_entry
from shoal.taxonomies.parse import texts
from shoal.taxonomies.tree import Cover, free_label


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
        kept = kept_leaves(plan, place, problem)
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
        text_of = spelled(attribute, seen)
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


def labelled_table(published: pa.RecordBatch, values: Mapping[str, pa.Array], records: IntArray) -> pa.Table:
    """Return so many records of each published row beside the values that they have, as texts."""
    arrays = [column.cast(pa.string()) for column in (*published.columns, *values.values())]
    names = [*published.schema.names, *(f"value of {name}" for name in values), "records"]
    return pa.table([*arrays, pa.array(records)], names=names)


def spelled(attribute: Attribute, seen: SeenValues) -> dict[int, str]:
    """Return the values of a column as files spell them, by their leaves; a leaf's label may differ."""
    values, _ = seen.in_use(seen.columns.index(attribute.name))
    return dict(zip(attribute.taxonomy.encode(values).tolist(), texts(values).to_pylist(), strict=True))


def kept_leaves(plan: Plan, place: int, problem: Problem) -> list[int]:
    """Return the leaves of a sensitive attribute that some published record keeps."""
    leaves = problem.cells.codes[len(problem.quasi) + place]
    cell, class_of, records, target = plan.pieces(problem.cells.counts)
    own = (class_of >= 0) & (records > 0)
    if plan.targets is not None:
        own &= np.append(plan.targets.lo[:, place], 0)[target] == KEPT
    found: list[int] = kernels.occurring(leaves[cell[own]]).tolist()
    return found
