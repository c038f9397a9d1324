"""The figures of what is left of the table: recomputed from how many leaves of its taxonomy each label stands for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.core.arrays import FloatArray, IntArray
from shoal.manifest import Attribute
from shoal.verify.manifest import Manifest
from shoal.verify.reading import PublishedRows, encode
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


def check_figures(manifest: Manifest, rows: PublishedRows, *, here: bool) -> list[Check]:
    """Compare every figure with the rows; not done where labels are of values that the policy did not list.

    Rows that are not *here*, but on Spark, are not fetched for it.
    """
    figures = manifest.written.utility
    if figures is None:
        return []
    attributes = [attribute for attribute in manifest.attributes if attribute.role != "insensitive"]
    unlisted = [attribute.name for attribute in attributes if attribute.boxed and attribute.domain is None]
    if not here:
        return [Check("utility", True, "not recomputed: the rows are on Spark", done=False)]
    if unlisted or manifest.written.items:
        why = f"no declared taxonomy tells how much labels of {', '.join(unlisted) or 'items'} leave open"
        return [Check("utility", True, f"not recomputed: {why}", done=False)]
    columns = _columns(rows, attributes)
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
        return [Check("utility", False, f"the rows have other figures than the manifest tells: {', '.join(wrong)}")]
    return [Check("utility", True, "the figures are those of the rows")]


def _same(stated: float, found: float) -> bool:
    return math.isclose(stated, found, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE)


def _columns(rows: PublishedRows, attributes: Sequence[Attribute]) -> dict[str, _Column]:
    """Count the rows under each label, in one pass over the columns that have labels."""
    domains = {attribute.name: attribute.domain for attribute in attributes if attribute.domain is not None}
    labels = {name: pa.array(list(domain.labels), pa.string()) for name, domain in domains.items()}
    records = {name: np.zeros(len(domain.labels) + 1, dtype=np.int64) for name, domain in domains.items()}
    n_rows = 0
    for batch in rows.batches(list(domains) or list(rows.columns[:1])):
        n_rows += batch.num_rows
        for name, listed in labels.items():
            values, places = encode(batch.column(name))
            # The last number is that of sensitive values that are missing and have no label.
            numbers = pc.index_in(values.cast(pa.string()), value_set=listed).fill_null(len(listed))
            numbers = np.append(np.asarray(numbers), len(listed))
            records[name] += np.bincount(numbers[places], minlength=len(listed) + 1)
    one = (np.array([n_rows]), np.ones(1), np.zeros(1), None)
    found = {attribute.name: _Column(*one) for attribute in attributes}
    for name, domain in domains.items():
        leaves, widths = np.array([*domain.labels.values(), (1, 0.0)], dtype=np.float64).T
        found[name] = _Column(records[name], leaves, widths, domain.leaves)
    return found
