"""learning: how well a release teaches to predict one attribute from the others."""

from __future__ import annotations

import numpy as np

from shoal.arrays import CodeArray, FloatArray, IntArray
from shoal.comparing.measures.base import Measure, Score, Stage, binned, generator, n_bins
from shoal.learning.id3 import Examples, learn
from shoal.sliced.table import numbered

MOST_BINS = 8
MOST_CLASSES = 64
MOST_RECORDS = 50_000
_LITTLE = 0.005  # a source that teaches no more than that above the commonest value teaches nothing


class Learning(Measure):
    """What is learned beyond the commonest value from the release, relative to what the source teaches.

    A decision tree (ID3) learns to predict the first sensitive attribute, or a named one, from the others in at most 8
    bins each; it is asked about the control group, whom it has not seen. With the accuracies r of the release's tree, s
    of the source's and m of always saying the commonest value of the source, the share is (r - m) / (s - m).
    """

    name = "learning"
    title = "accuracy of predictions learned from the release, beyond the commonest value, relative to the source's"
    place = 3

    def __init__(self, stage: Stage) -> None:
        self._predicted = stage.ground.predicted
        if self._predicted is None:
            return
        self._bins = [compared.bins(MOST_BINS) for compared in stage.ground.attributes]
        self._bins[self._predicted] = stage.ground.attributes[self._predicted].bins(MOST_CLASSES)
        self._rng = generator(stage, self.name)
        self._asked, self._answers = self._parted(stage.asked)
        taught = np.bincount(self._parted(stage.source)[1], minlength=n_bins(self._bins[self._predicted]))
        self._commonest = float((self._answers == taught.argmax()).mean())
        self._source = self._accuracy(stage.source)

    def score(self, rows: CodeArray) -> Score:
        """Learn from the release, and predict."""
        if self._predicted is None:
            return Score(None, reason="no attribute is sensitive; name one to predict")
        figures = {"accuracy": self._accuracy(rows), "source": self._source, "commonest": self._commonest}
        most = self._source - self._commonest
        if most < _LITTLE:
            return Score(None, figures, "the source itself teaches no more than the commonest value")
        return Score(max(0.0, (figures["accuracy"] - self._commonest) / most), figures)

    def _accuracy(self, rows: CodeArray) -> float:
        if rows.shape[1] > MOST_RECORDS:
            rows = rows[:, self._rng.choice(rows.shape[1], MOST_RECORDS, replace=False)]
        known, answers = self._parted(rows)
        place, first = numbered(list(known.T), len(known))
        weights: FloatArray = np.zeros((len(first), n_bins(self._bins[self._predicted or 0])))
        np.add.at(weights, (place, answers), 1.0)
        lengths = tuple(n_bins(own) for a, own in enumerate(self._bins) if a != self._predicted)
        tree = learn(Examples.of_base_values(known[first], weights, lengths))
        return float((tree.predict(self._asked) == self._answers).mean())

    def _parted(self, rows: CodeArray) -> tuple[CodeArray, IntArray]:
        """Return (n_rows, n_attributes - 1) bins to predict from, and (n_rows,) those to predict."""
        columns = binned(rows, self._bins)
        answers = columns.pop(self._predicted or 0).astype(np.int64)
        return np.ascontiguousarray(np.stack(columns, axis=1)), answers
