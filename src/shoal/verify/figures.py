"""The figures of what is left of the table: recomputed from how many leaves of its taxonomy each label stands for."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from shoal.core.arrays import FloatArray, IntArray
from shoal.manifest import Attribute
from shoal.verify.form import LabelCounts
from shoal.verify.manifest import Manifest
from shoal.verify.result import Check

_TOLERANCE = 1e-9  # for sums in another order


@dataclass(frozen=True, slots=True)
class _Column:
    """What the rows publish of one attribute, label by label."""

    records: IntArray
    leaves: FloatArray
    widths: FloatArray
    total: int | None  # leaves of the taxonomy; None: each value is published as it is, however many there are

    def loss(self, withheld: int, stated: float | None) -> float:
        """Return the loss of ARX: 0 if all values are as they were, 1 if none is more than the root.

        Withheld records lose nothing of an attribute that has one value only, which the rows cannot tell.
        """
        n = float(self.records.sum()) + withheld
        if self.total is None:
            return withheld / n if stated else 0.0
        most = n * (self.total - 1)
        return (float(self.records @ self.leaves) + withheld * self.total - n) / most if most else 0.0


def check_figures(manifest: Manifest, labels: LabelCounts) -> list[Check]:
    """Compare every figure with the rows; skipped where a label covers values that the policy did not list."""
    figures = manifest.written.utility
    if figures is None:
        return []
    attributes = [attribute for attribute in manifest.attributes if attribute.role != "insensitive"]
    unlisted = [attribute.name for attribute in attributes if attribute.boxed and attribute.domain is None]
    if unlisted or manifest.written.items:
        why = f"no declared taxonomy shows what labels of {', '.join(unlisted) or 'items'} cover"
        return [Check("utility", True, f"not recomputed: {why}", done=False)]
    columns = {one.name: _read_column(one, labels, manifest.rows) for one in attributes}
    quasi = [columns[attribute.name] for attribute in attributes if attribute.role == "quasi"]
    n = manifest.rows + manifest.withheld
    stated = figures.losses
    losses = {name: column.loss(manifest.withheld, stated.get(name)) for name, column in columns.items()}
    spanned = sum(float(column.records @ column.widths) for column in quasi) / len(quasi)
    mean = sum(math.log1p(losses[attribute.name]) for attribute in attributes if attribute.role == "quasi") / len(quasi)
    found = {
        "um": sum(float(column.records @ (1 / column.leaves)) for column in columns.values()) / (n * len(columns)),
        "ncp": (spanned + manifest.withheld) / n,
        "loss": math.expm1(mean),
    }
    wrong = [name for name, figure in figures.of_table.items() if not _same(figure, found[name])]
    if stated and (set(stated) != set(losses) or not all(_same(stated[name], losses[name]) for name in stated)):
        wrong.append("attribute-loss")
    if wrong:
        return [Check("utility", False, f"the figures of the rows differ from the manifest's: {', '.join(wrong)}")]
    return [Check("utility", True, "the figures are those of the rows")]


def _same(stated: float, found: float) -> bool:
    return math.isclose(stated, found, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE)


def _read_column(attribute: Attribute, labels: LabelCounts, n_rows: int) -> _Column:
    """Return how many rows are under each label of an attribute; without labels all are as they were."""
    domain = attribute.domain
    if domain is None:
        return _Column(np.array([n_rows]), np.ones(1), np.zeros(1), None)
    reach = [*(domain.labels[label] for label in attribute.labels or {}), (1, 0.0)]  # missing values have no label
    leaves, widths = np.array(reach, dtype=np.float64).T
    return _Column(labels[attribute.name][: len(reach)], leaves, widths, domain.leaves)
