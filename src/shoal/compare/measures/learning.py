"""learning: how well a release teaches to predict one attribute from the others."""

from __future__ import annotations

import numpy as np

from shoal.compare.measures.base import Measure, Score, Stage, binned, n_bins
from shoal.core.arrays import CodeArray, IntArray

MOST_BINS = 16
MOST_CLASSES = 64
_AT_ONCE = 1 << 16  # people
_LITTLE = 0.005  # a source that teaches no more than that above the commonest value teaches nothing


class Learning(Measure):
    """What is learned beyond the commonest value from the release, relative to what the source teaches.

    Naive Bayes with Laplace's correction learns to predict the first sensitive attribute, or a named one, from the
    others in at most 16 bins each; it is asked about the control group, whom it has not seen. With the accuracies r of
    what the release teaches, s of what the source does and m of always saying the source's commonest value, the share
    is (r - m) / (s - m). A tree that grows until nothing is left to ask (ID3) learns single records by heart, so that
    averages of them would teach it better than the source.
    """

    name = "learning"
    title = "accuracy of predictions learned from the release, beyond the commonest value, relative to the source's"
    place = 3

    def __init__(self, stage: Stage) -> None:
        self._predicted = stage.ground.predicted if len(stage.ground.attributes) > 1 else None
        if self._predicted is None:
            return
        self._bins = [compared.bins(MOST_BINS) for compared in stage.ground.attributes]
        self._bins[self._predicted] = stage.ground.attributes[self._predicted].bins(MOST_CLASSES)
        self._classes = n_bins(self._bins[self._predicted])
        self._asked, self._answers = self._parted(stage.asked, self._predicted)
        taught = np.bincount(self._parted(stage.source, self._predicted)[1], minlength=self._classes)
        self._commonest = float((self._answers == taught.argmax()).mean())
        self._source = self._accuracy(stage.source, self._predicted)

    def score(self, rows: CodeArray) -> Score:
        """Learn from the release, and predict."""
        if self._predicted is None:
            return Score(None, reason="no attribute is sensitive in all policies, or there is no other to learn from")
        accuracy = self._accuracy(rows, self._predicted)
        figures = {"accuracy": accuracy, "source": self._source, "commonest": self._commonest}
        most = self._source - self._commonest
        if most < _LITTLE:
            return Score(None, figures, "the source itself teaches no more than the commonest value")
        return Score(max(0.0, (accuracy - self._commonest) / most), figures)

    def _accuracy(self, rows: CodeArray, predicted: int) -> float:
        """Return how often the likeliest value is right for the people who are asked about."""
        known, answers = self._parted(rows, predicted)
        prior = np.bincount(answers, minlength=self._classes) + 1.0
        chances = []
        for column, own in zip(known, self._known_bins(predicted), strict=True):
            code = column.astype(np.int64) * self._classes + answers
            counts = np.bincount(code, minlength=n_bins(own) * self._classes).reshape(-1, self._classes) + 1.0
            chances.append(np.log(counts / counts.sum(axis=0)))
        right = 0
        for start in range(0, len(self._answers), _AT_ONCE):
            block = slice(start, start + _AT_ONCE)
            score = np.log(prior / prior.sum()) + sum(
                table[column[block]] for table, column in zip(chances, self._asked, strict=True)
            )
            right += int((score.argmax(axis=1) == self._answers[block]).sum())
        return right / len(self._answers)

    def _parted(self, rows: CodeArray, predicted: int) -> tuple[list[CodeArray], IntArray]:
        """Return the bins to predict from, attribute by attribute, and (n_rows,) those to predict."""
        columns = binned(rows, self._bins)
        answers = columns.pop(predicted).astype(np.int64)
        return columns, answers

    def _known_bins(self, predicted: int) -> list[CodeArray]:
        return [own for place, own in enumerate(self._bins) if place != predicted]
