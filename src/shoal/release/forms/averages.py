"""Quasi columns that publish an average, a day or a most frequent value for all records of a class."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from shoal.core.arrays import IntArray
from shoal.methods.base import Method
from shoal.methods.microaggregation import Microaggregation
from shoal.methods.microaggregation.mdav import Grouping
from shoal.methods.microaggregation.planning import Averages, centres
from shoal.plan.plan import Plan
from shoal.plan.problem import Attribute
from shoal.policy.encoding import Encoding
from shoal.release.columns import ValueColumn
from shoal.taxonomies.scales import iso_day
from shoal.taxonomies.tree import Taxonomy


def centre_column(place: int, encoding: Encoding, plan: Plan, method: Method) -> ValueColumn:
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
    return ValueColumn(attribute, index, _entries(attribute, steps, averages))


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
