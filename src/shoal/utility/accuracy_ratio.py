"""accuracy-ratio: how well one predicts after learning from the release, compared with the original."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from shoal.core.arrays import AnyIntArray, FloatArray, IntArray
from shoal.plan.plan import Plan
from shoal.plan.problem import Problem
from shoal.utility.base import ExpensiveMeasure, ratio
from shoal.utility.rows import Rows, bin_edges, original_rows, rows_published

_FOLDS = 3
_BLOCK = 1 << 22


class AccuracyRatio(ExpensiveMeasure):
    """Accuracy of a classifier learned from the release, relative to one learned from the original records.

    Both predict the first sensitive attribute from the quasi attributes by naive Bayes with Laplace's correction;
    published ranges teach as their records spread evenly over the leaves. Two thirds of the records teach, the
    original values of the last third are predicted; a hash of the values decides, so the split is always the
    same. Attributes of more than 64 leaves are cut into 64 bins. Coarser tables may by chance teach better.
    """

    name = "accuracy-ratio"
    title = "accuracy of predicting the sensitive attribute when learned from the release instead of the original"
    better = "higher"

    def applies(self, problem: Problem) -> bool:
        """There must be something sensitive to predict."""
        return len(problem.sensitive) > 0

    def of(self, problem: Problem, plan: Plan) -> float:
        """Learn from what the plan publishes."""
        return accuracy_ratio(problem, lambda taught: rows_published(problem, plan, taught))


def accuracy_ratio(problem: Problem, published: Callable[[FloatArray], Rows]) -> float:
    """Learn twice and predict the same records; *published* tells what a share of each cell's records publishes."""
    counts = problem.cells.counts
    asked = hold_out(problem.cells.codes, counts)
    taught = (counts - asked) / np.maximum(counts, 1)
    if not asked.any() or not taught.any():
        asked, taught = counts, np.ones(len(counts))
    n_quasi = len(problem.quasi)
    from_release = NaiveBayes.learn(published(taught), n_quasi)
    from_original = NaiveBayes.learn(original_rows(problem, taught), n_quasi)
    codes = problem.cells.codes[: n_quasi + 1]
    return ratio(from_release.right(codes, asked), from_original.right(codes, asked))


@dataclass(frozen=True, slots=True, eq=False)
class NaiveBayes:
    """Logarithms of the chances of classes and, class by class, of the values of each attribute."""

    prior: FloatArray  # (n_classes,)
    given: tuple[FloatArray, ...]  # n_quasi x (n_bins, n_classes)
    edges: tuple[IntArray, ...]  # of the bins of each quasi attribute and of the class attribute

    @classmethod
    def learn(cls, rows: Rows, n_quasi: int) -> NaiveBayes:
        """Count, add one everywhere, and divide."""
        tables = [rows.cross(j, n_quasi) + 1.0 for j in range(n_quasi)]
        label = rows.columns[n_quasi]
        prior = np.bincount(label.item, weights=rows.records, minlength=len(label.lo)) @ label.shares() + 1.0
        return cls(
            np.log(prior / prior.sum()),
            tuple(np.log(table / table.sum(axis=0)) for table in tables),
            tuple(bin_edges(column.n_leaves) for column in rows.columns[: n_quasi + 1]),
        )

    def right(self, codes: tuple[AnyIntArray, ...], records: IntArray) -> float:
        """Return the share of the records whose class is the likeliest; *codes* are leaves, the class last."""
        asked = np.flatnonzero(records)
        step = max(_BLOCK // len(self.prior), 1)
        hits = 0
        for start in range(0, len(asked), step):
            block = asked[start : start + step]
            *places, truth = (
                np.searchsorted(edges, column[block], side="right") - 1
                for edges, column in zip(self.edges, codes, strict=True)
            )
            score = np.repeat(self.prior[np.newaxis], len(block), axis=0)
            for table, place in zip(self.given, places, strict=True):
                score += table[place]
            hits += int(records[block][score.argmax(axis=1) == truth].sum())
        return hits / int(records.sum())


def hold_out(codes: tuple[AnyIntArray, ...], counts: IntArray) -> IntArray:
    """Return (n_cells,) how many records of each cell are asked about: every third from a hashed one on."""
    mixed = np.zeros(len(counts), dtype=np.uint64)
    for column in codes:
        mixed = (mixed ^ column.astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
    start = (mixed % np.uint64(_FOLDS)).astype(np.int64)
    return (start + counts - 1) // _FOLDS - (start - 1) // _FOLDS
