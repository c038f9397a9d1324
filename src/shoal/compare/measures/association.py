"""association: how far the dependence between attributes is that of the source."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from shoal.compare.measures.base import Measure, Score, Stage, binned, n_bins
from shoal.core.arrays import CodeArray, FloatArray
from shoal.utility.association_kept import contingency

MOST_BINS = 16
_NONE = 1e-9


class Association(Measure):
    """One less the difference between the dependence of pairs in the release and in the source, relative to the latter.

    Dependence is Cramer's V, corrected for what chance makes of few records (Bergsma, "A bias-correction for Cramer's V
    and Tschuprow's T", JKSS 42, 2013), over at most 16 bins an attribute. Differences are summed over all pairs: strong
    dependence counts most, and dependence that was made up counts against the release.
    """

    name = "association"
    title = "1 less the change of Cramer's V over all pairs of attributes, relative to that of the source"
    place = 2

    def __init__(self, stage: Stage) -> None:
        self._bins = [compared.bins(MOST_BINS) for compared in stage.ground.attributes]
        self._true = self._dependence(stage.source)

    def score(self, rows: CodeArray) -> Score:
        """Compare pair by pair."""
        total = float(self._true.sum())
        if total < _NONE:
            return Score(None, reason="no two attributes of the source depend on each other")
        changed = float(np.abs(self._dependence(rows) - self._true).sum())
        return Score(max(0.0, 1 - changed / total), {"mean_change": changed / len(self._true)})

    def _dependence(self, rows: CodeArray) -> FloatArray:
        """Return (n_pairs,) Cramer's V of each pair."""
        columns = binned(rows, self._bins)
        found = []
        for first, second in combinations(range(len(columns)), 2):
            shape = n_bins(self._bins[first]), n_bins(self._bins[second])
            code = columns[first].astype(np.int64) * shape[1] + columns[second]
            found.append(cramers_v(np.bincount(code, minlength=shape[0] * shape[1]).reshape(shape)))
        return np.array(found, dtype=np.float64)


def cramers_v(counts: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> float:
    """Return the corrected V of a table of counts, 0 for independence and 1 where one value tells the other.

    >>> round(cramers_v(np.array([[500, 0], [0, 500]])), 3), cramers_v(np.array([[9, 11], [11, 9]]))
    (1.0, 0.0)
    """
    table = counts[counts.any(axis=1)][:, counts.any(axis=0)].astype(np.float64)
    n, rows, columns = float(table.sum()), table.shape[0], table.shape[1]
    if n < 2 or min(rows, columns) < 2:
        return 0.0
    square = max(0.0, contingency(table) - (rows - 1) * (columns - 1) / (n - 1))
    corrected = min(rows - (rows - 1) ** 2 / (n - 1), columns - (columns - 1) ** 2 / (n - 1))
    return float(np.sqrt(square / (corrected - 1))) if corrected > 1 else 0.0
