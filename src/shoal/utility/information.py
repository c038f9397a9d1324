"""Measures of the information in published values, and of the sizes of classes.

um, loss, attribute-loss, ncp, non-uniform-entropy; class-size, discernibility; excessive-protection.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from shoal.core.arrays import AnyIntArray, BoolArray, CodeArray, FloatArray, IntArray
from shoal.core.kernels import sum_groups
from shoal.models.tau_l_diversity import TauLDiversity
from shoal.plan.judging import judge_plan
from shoal.plan.plan import KEPT, Plan, Targets
from shoal.plan.problem import Attribute, Problem
from shoal.taxonomies.scales import Numbers
from shoal.taxonomies.tree import Taxonomy
from shoal.utility.base import ExpensiveMeasure, Measure, PooledMeasure, Total


class Um(PooledMeasure):
    """The mean over records and attributes of 1 / (leaves that the published value covers).

    Tian and Zhang, Definition 5. Quasi-identifiers and sensitive attributes count alike. A withheld record
    counts as 0.
    """

    name = "um"
    title = "mean of 1 / (values that a published value covers); 1 is everything"
    better = "higher"

    def sums(self, problem: Problem, plan: Plan) -> FloatArray:
        kept = plan.sizes
        quasi = (1.0 / (plan.hi - plan.lo)).sum(axis=1)  # (n_classes,)
        information = float(np.dot(kept, quasi))
        if plan.targets is None:
            information += float(kept.sum()) * len(problem.sensitive)
        else:
            information += float(np.dot(plan.targets.records, 1.0 / sensitive_widths(plan.targets)).sum())
        return np.array([information])

    def of_sums(self, total: Total, sums: FloatArray) -> float:
        return float(sums[0]) / (total.n_records * (len(total.quasi) + len(total.sensitive)))


def sensitive_widths(targets: Targets) -> FloatArray:
    """Return (n_targets, n_sensitive) the number of leaves under each published sensitive value."""
    return np.where(targets.lo == KEPT, 1, targets.hi - targets.lo).astype(np.float64)


class AttributeLoss(PooledMeasure):
    """The loss of the attribute that loses most; in detail, of every quasi and sensitive attribute.

    ``loss`` is the geometric mean of these losses. An attribute's loss is 0 if all values are published unchanged and 1
    if all are the root. Sensitive values lose information if they are generalized or withheld.
    """

    name = "attribute-loss"
    title = "share of the domain that published values of an attribute span; 0 is unchanged, 1 is all lost"
    better = "lower"

    def sums(self, problem: Problem, plan: Plan) -> FloatArray:
        """Return (n_attributes,) the sum of the leaves under published values, quasi attributes first."""
        if plan.targets is None:
            widths = np.full(len(problem.sensitive), float(problem.cells.n_records - plan.n_withheld))
        else:
            widths = np.dot(plan.targets.records.astype(np.float64), sensitive_widths(plan.targets))
        return np.concatenate([quasi_widths(plan), widths])

    def of_sums(self, total: Total, sums: FloatArray) -> float:
        return max(self.detail_of_sums(total, sums).values())

    def detail_of_sums(self, total: Total, sums: FloatArray) -> dict[str, float]:
        attributes = (*total.quasi, *total.sensitive)
        leaves = np.array([attribute.taxonomy.n_leaves for attribute in attributes], dtype=np.float64)
        losses = share_lost(sums, leaves, total.n_records, total.n_withheld).tolist()
        return {attribute.name: loss for attribute, loss in zip(attributes, losses, strict=True)}


class GeneralizedLoss(PooledMeasure):
    """The geometric mean over quasi attributes of the share of the domain that a published value spans.

    Iyengar (KDD 2002) in the form of ARX: an attribute of d leaves loses v = (sum of its leaf shares - n/d) / (n -
    n/d), and the measure is prod(1 + v)^(1/attributes) - 1. A withheld record spans the whole domain.
    """

    name = "loss"
    title = "generalized loss: mean share of the domain that published values span; 0 is unchanged, 1 is all lost"
    better = "lower"

    def sums(self, problem: Problem, plan: Plan) -> FloatArray:  # noqa: ARG002
        return quasi_widths(plan)

    def of_sums(self, total: Total, sums: FloatArray) -> float:
        leaves = np.array([attribute.taxonomy.n_leaves for attribute in total.quasi], dtype=np.float64)
        return float(np.expm1(np.log1p(share_lost(sums, leaves, total.n_records, total.n_withheld)).mean()))


def quasi_widths(plan: Plan) -> FloatArray:
    """Return (n_quasi,) the sum over published records of the number of leaves under their values."""
    return np.asarray(np.dot(plan.sizes.astype(np.float64), plan.hi - plan.lo))


def share_lost(widths: FloatArray, leaves: FloatArray, n_records: int, n_withheld: int) -> FloatArray:
    """Return the loss of attributes, given the sum over published records of the leaves under their values.

    >>> share_lost(np.array([6.0]), np.array([4.0]), n_records=3, n_withheld=1)  # widths 2, 4 and all
    array([0.77777778])
    """
    most = n_records * (leaves - 1)
    lost = widths + n_withheld * leaves - n_records
    return np.divide(lost, most, out=np.zeros(len(leaves)), where=most > 0)


class NormalizedCertaintyPenalty(PooledMeasure):
    """The mean over records and quasi attributes of the published width relative to the domain.

    Xu et al., "Utility-based anonymization using local recoding" (KDD 2006): a number's width is its range relative to
    the domain's range, a category's is (leaves - 1) / (all leaves - 1). A label that includes missing, and every value
    of a withheld record, counts as fully lost.
    """

    name = "ncp"
    title = "normalized certainty penalty: mean width of the published values; 0 is unchanged, 1 is all lost"
    better = "lower"

    def sums(self, problem: Problem, plan: Plan) -> FloatArray:
        kept = plan.sizes.astype(np.float64)
        spanned = sum(
            float(np.dot(relative_widths(attribute.taxonomy, plan.lo[:, j], plan.hi[:, j]), kept))
            for j, attribute in enumerate(problem.quasi)
        )
        return np.array([spanned])

    def of_sums(self, total: Total, sums: FloatArray) -> float:
        n_kept = float(total.n_records - total.n_withheld)
        return (float(sums[0]) / len(total.quasi) + total.n_records - n_kept) / total.n_records


def relative_widths(taxonomy: Taxonomy, lo: CodeArray, hi: CodeArray) -> FloatArray:
    """Return (n_classes,) the width of each leaf range as a share of the domain's.

    A missing value, which is the last leaf, has width 0 by itself; a range that includes it and others has width 1.
    """
    leaves = taxonomy.n_leaves - (taxonomy.missing is not None)
    places = taxonomy.positions
    line = np.arange(leaves, dtype=np.float64) if places is None else np.asarray(places[:leaves], dtype=np.float64)
    length = line[-1] - line[0]
    reach = line[np.minimum(hi, leaves) - 1] - line[np.minimum(lo, leaves - 1)]
    widths = reach / length if length > 0 else np.zeros(len(lo))
    return np.where(lo >= leaves, 0.0, np.where(hi > leaves, 1.0, widths))


def find_nodes(taxonomy: Taxonomy, lo: AnyIntArray, hi: AnyIntArray, level: int | None = None) -> CodeArray:
    """Return (n_ranges,) the node that each leaf range is published as, or -1; *level* is as in ``find_node``."""
    if level is None:
        nodes = taxonomy.lowest_nodes(lo, hi)
        return np.asarray(np.where((taxonomy.lo[nodes] == lo) & (taxonomy.hi[nodes] == hi), nodes, np.int32(-1)))
    ends, which = np.unique(np.stack([lo, hi]), axis=1, return_inverse=True)
    named = [taxonomy.find_node(first, end, level) for first, end in ends.T.tolist()]
    return np.asarray(np.array(named, dtype=np.int32)[which.reshape(-1)])


def find_suppressed(taxonomy: Taxonomy, lo: AnyIntArray, hi: AnyIntArray, nodes: CodeArray) -> BoolArray:
    """Return (n_ranges,) whether the label of each leaf range is the root or covers every value."""
    n_values = taxonomy.n_leaves - (taxonomy.missing is not None)
    return np.asarray((nodes == taxonomy.root) | ((nodes < 0) & (lo == 0) & (hi >= n_values)))


def find_exact_leaves(taxonomy: Taxonomy) -> BoolArray:
    """Return (n_leaves,) whether each leaf is a single value rather than an interval of numbers."""
    exact, scale = np.ones(taxonomy.n_leaves, dtype=np.bool_), taxonomy.scale
    if isinstance(scale, Numbers):
        step = 1 if scale.whole else np.nextafter(scale.starts, np.inf) - scale.starts
        exact[: len(scale.starts)] = scale.stops - scale.starts <= step
        exact[0] &= not scale.open_low
        exact[len(scale.starts) - 1] &= not scale.open_high
    return exact


class NonUniformEntropy(Measure):
    """The sum over records and quasi attributes of -log2(freq(original value) / freq(published value)).

    Gionis and Tassa (TKDE 2009); the plain sum, in bits, as ARX reports it. The frequency of a published value is the
    number of original records that it covers, withheld ones included. A withheld record publishes the root; in a
    full-domain release it publishes, as in ARX, the value of its level, which is then lost among the withheld records.
    """

    name = "non-uniform-entropy"
    title = "non-uniform entropy: bits that the published values leave open, summed over all records"
    better = "lower"
    within = (0.0, math.inf)
    grows_with = 1

    def of(self, problem: Problem, plan: Plan) -> float:
        withheld, bits = None, 0.0
        if plan.n_withheld:
            cell, class_of, records, _ = plan.pieces(problem.cells.counts)
            kept = sum_groups(np.where(class_of >= 0, cell, -1).astype(np.int32), records, problem.cells.n_cells)
            withheld = np.asarray(problem.cells.counts - kept)  # (n_cells,)
        for j, codes in enumerate(problem.quasi_codes):
            original = sum_groups(codes.astype(np.int32), problem.cells.counts, problem.quasi[j].taxonomy.n_leaves)
            before = np.concatenate([[0], np.cumsum(original)])
            occurring = original[original > 0]
            bits += open_bits(plan.lo[:, j], plan.hi[:, j], plan.sizes, before)
            bits -= float(np.dot(occurring, np.log2(occurring)))
            if withheld is not None:
                lost = sum_groups(codes.astype(np.int32), withheld, len(original))
                bits += _bits_lost(problem.quasi[j], lost, before, plan.levels.get(problem.quasi[j].name))
        return max(bits, 0.0)


def open_bits(lo: CodeArray, hi: CodeArray, sizes: IntArray, before: IntArray) -> float:
    """Return the sum over classes of size * log2(records from ``before[lo]`` up to ``before[hi]``)."""
    some = sizes > 0
    return float((sizes[some] * np.log2(before[hi[some]] - before[lo[some]])).sum())


def _bits_lost(attribute: Attribute, lost: IntArray, before: IntArray, level: int | None) -> float:
    """Return the bits that one attribute of withheld records leaves open, given the number *lost* of each leaf."""
    if level is None:
        return float(lost.sum() * np.log2(before[-1]))
    nodes = attribute.taxonomy.node_at(level)
    lo, hi = attribute.taxonomy.lo[nodes], attribute.taxonomy.hi[nodes]
    among = np.bincount(nodes, weights=lost)
    among = among[among > 0]
    return open_bits(lo, hi, lost, before) + float(np.dot(among, np.log2(among.sum() / among)))


class ClassSize(PooledMeasure):
    """The average number of records in a class; the withheld records count as one more class.

    LeFevre, DeWitt and Ramakrishnan (ICDE 2006), not divided by k, as in ARX.
    """

    name = "class-size"
    title = "average number of records in a class"
    better = "lower"
    within = (1.0, math.inf)
    grows_with = 1
    counts_withheld = False

    def sums(self, problem: Problem, plan: Plan) -> FloatArray:  # noqa: ARG002
        return np.array([np.count_nonzero(plan.sizes)], dtype=np.float64)

    def of_sums(self, total: Total, sums: FloatArray) -> float:
        classes = int(sums[0]) + (total.n_withheld > 0)
        return total.n_records / max(classes, 1)


class Discernibility(PooledMeasure):
    """The sum over records of the size of their class; for a withheld record, the size of the table.

    Bayardo and Agrawal (ICDE 2005).
    """

    name = "discernibility"
    title = "discernibility: sum over records of the records they cannot be distinguished from"
    better = "lower"
    within = (1.0, math.inf)
    grows_with = 2

    def sums(self, problem: Problem, plan: Plan) -> FloatArray:  # noqa: ARG002
        sizes = plan.sizes.astype(np.float64)
        return np.array([np.dot(sizes, sizes)])

    def of_sums(self, total: Total, sums: FloatArray) -> float:
        return float(sums[0]) + float(total.n_withheld) * total.n_records


class ExcessiveProtection(ExpensiveMeasure):
    """The minimum over classes of the distance between the curve psi and the cumulative frequencies F of a class.

    Tian and Zhang, Definition 8: e = sum over k of |psi(k) - F(k)| on induced frequencies.
    With several (tau,l) requirements it is the minimum over these too.
    """

    name = "excessive-protection"
    title = "distance of the class nearest to the (tau,l) limit from that limit; 0 means no excess"
    better = "lower"

    def applies(self, problem: Problem) -> bool:
        return any(isinstance(r.model, TauLDiversity) and not r.model.harmless for r in problem.requirements)

    def figures(self, problem: Problem, plan: Plan) -> dict[str, float]:
        asked = tuple(r for r in problem.requirements if isinstance(r.model, TauLDiversity) and not r.model.harmless)
        least = math.inf
        for requirement, classes, _ in judge_plan(replace(problem, requirements=asked), plan):
            if isinstance(requirement.model, TauLDiversity) and classes.counts is not None:
                limits = [float(limit) for limit in requirement.model.limits]
                least = min(least, float(excess(classes.counts[classes.sizes > 0], limits).min(initial=math.inf)))
        return {self.name: least if math.isfinite(least) else 0.0}


def excess(counts: IntArray, limits: list[float]) -> FloatArray:
    """Return (n_classes,) the sum over k of |psi(k) - F(k)|; psi is 1 beyond the given limits.

    >>> excess(np.array([[1, 1, 1, 1], [2, 1, 1, 0]]), [0.5, 0.75, 1.0])
    array([0.75, 0.  ])
    """
    reached = np.cumsum(-np.sort(-counts, axis=1), axis=1) / counts.sum(axis=1, keepdims=True)
    width = max(counts.shape[1], len(limits))
    curve = np.array(limits + [1.0] * (width - len(limits)))
    whole = np.pad(reached, ((0, 0), (0, width - counts.shape[1])), constant_values=1.0)
    return np.asarray(np.abs(curve - whole).sum(axis=1))
