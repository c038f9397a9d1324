"""Quasi columns that publish the averages of groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from shoal.arrays import CodeArray, IntArray
from shoal.encoding import Encoding
from shoal.methods.base import Method
from shoal.methods.microaggregation import Microaggregation
from shoal.microaggregation import Averages, Grouping, centres
from shoal.plan import Plan
from shoal.problem import Attribute
from shoal.publishing.columns import coded
from shoal.taxonomies.scales import iso_day
from shoal.taxonomies.tree import Taxonomy


@dataclass(frozen=True, slots=True, eq=False)
class CentreColumn:
    """One quasi attribute: all records of a class publish the same average, day or most frequent value."""

    attribute: Attribute
    index: CodeArray  # (n_classes,) place among the entries, -1 for missing
    entries: pa.Array  # numbers, or texts of days and categories

    @classmethod
    def of(cls, place: int, encoding: Encoding, plan: Plan, method: Method) -> CentreColumn:
        """Average the source's values of the quasi attribute at *place*, class by class."""
        if not isinstance(method, Microaggregation):
            raise TypeError(f"method {method.name} does not say how numbers are averaged")
        averages = Averages(method.numbers, method.decimals)
        problem = encoding.problem
        cell, class_of, records, _ = plan.pieces(problem.cells.counts)
        shown = class_of >= 0
        cells = np.repeat(cell[shown], records[shown])
        grouping = Grouping(np.repeat(class_of[shown], records[shown]), plan.n_classes)
        found = centres(problem, place, cells, grouping, averages)
        steps = np.unique(found.steps[~found.missing])
        index = np.where(found.missing, -1, np.searchsorted(steps, found.steps)).astype(np.int32)
        attribute = problem.quasi[place]
        return cls(attribute, index, _entries(attribute, steps, averages))

    def values(self, classes: CodeArray) -> pa.Array:
        """Return the published values of rows, given their classes."""
        return coded(self.index[classes], self.entries)

    def describe(self) -> dict[str, Any]:
        """Return the manifest's entry: how the source's values were read."""
        scale = self.attribute.taxonomy.scale
        return {"role": "quasi", "kind": scale.kind, **scale.reading()}


def _entries(attribute: Attribute, steps: IntArray, averages: Averages) -> pa.Array:
    """Return what is published for each of these centres; equal ones, and no others, are equal."""
    taxonomy = attribute.taxonomy
    if taxonomy.scale.kind == "number":
        return pa.array(steps / 10.0**averages.decimals if averages.decimals else steps)
    if taxonomy.scale.kind == "date":
        return pa.array([iso_day(day) for day in steps.tolist()], pa.string())
    return pa.array([_text(taxonomy, leaf) for leaf in steps.tolist()], pa.string())


def _text(taxonomy: Taxonomy, leaf: int) -> str:
    """Return the source's value of a leaf as text."""
    cover = taxonomy.cover(leaf, leaf + 1)
    (text,) = cover["values"] if "values" in cover else cover["prefixes"]
    return str(text)
