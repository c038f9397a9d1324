"""counts: how right the numbers are that somebody counts in a release."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from shoal.compare.measures.base import Measure, Score, Stage, binned, generator, n_bins
from shoal.core.arrays import CodeArray, FloatArray, IntArray
from shoal.utility.query_error import SANITY

N_SETS = 50
N_IN_SET = 20
MOST_OTHERS = 2
MOST_BINS = 64


@dataclass(frozen=True, slots=True, eq=False)
class _Questions:
    """What share of the people lies in ranges of bins of some attributes at once."""

    places: tuple[int, ...]  # attributes
    lengths: tuple[int, ...]  # bins of each
    starts: IntArray  # (n_attributes, n_questions)
    stops: IntArray  # (n_attributes, n_questions)

    def answers(self, columns: Sequence[CodeArray]) -> FloatArray:
        """Return (n_questions,) shares of the rows, by differences of the counts below each corner of a range."""
        code = np.zeros(len(columns[0]), dtype=np.int64)
        for place, length in zip(self.places, self.lengths, strict=True):
            code = code * length + columns[place]
        counts = np.bincount(code, minlength=int(np.prod(self.lengths))).reshape(self.lengths)
        below = np.pad(counts, [(1, 0)] * counts.ndim)
        for axis in range(counts.ndim):
            below = np.cumsum(below, axis=axis)
        found = np.zeros(self.starts.shape[1])
        for corner in product((False, True), repeat=len(self.places)):
            ends = [self.stops[i] if high else self.starts[i] for i, high in enumerate(corner)]
            sign = -1.0 if corner.count(False) % 2 else 1.0
            found += sign * below[tuple(ends)]
        return found / len(columns[0])


class Counting(Measure):
    """One less the mean relative error of random questions "what share of the people is ... and ...?".

    A question names one or two attributes and the one that is predicted, if there is one, and of each a range of its
    values in the order of its tree, at most 64 bins of them. The error is relative to the true share or, if that is
    smaller, to 0.1 %, and counts as 1 at most: an answer so wrong is worth nothing. Shares, not counts, so that a
    sample is as good as its people are typical.
    """

    name = "counts"
    title = "1 less the mean relative error of random counting questions"
    place = 1

    def __init__(self, stage: Stage) -> None:
        self._bins = [compared.bins(MOST_BINS) for compared in stage.ground.attributes]
        self._always = [] if stage.ground.predicted is None else [stage.ground.predicted]
        rng = generator(stage, self.name)
        self._questions = [self._drawn(rng) for _ in range(N_SETS)]
        source = binned(stage.source, self._bins)
        self._true = np.concatenate([each.answers(source) for each in self._questions])

    def score(self, rows: CodeArray) -> Score:
        """Ask all questions."""
        columns = binned(rows, self._bins)
        told = np.concatenate([each.answers(columns) for each in self._questions])
        errors = np.abs(told - self._true) / np.maximum(self._true, SANITY)
        mean = float(np.minimum(errors, 1.0).mean())
        return Score(1 - mean, {"mean_error": mean, "median_error": float(np.median(errors))})

    def _drawn(self, rng: np.random.Generator) -> _Questions:
        others = [place for place in range(len(self._bins)) if place not in self._always]
        n_others = int(rng.integers(1, min(len(others), MOST_OTHERS) + 1)) if others else 0
        places = (*rng.choice(others, n_others, replace=False).tolist(), *self._always)
        lengths = tuple(n_bins(self._bins[place]) for place in places)
        known = np.array(lengths)[:, np.newaxis] - 1  # nobody asks for what is unknown
        one = rng.integers(0, known + 1, size=(len(places), N_IN_SET))
        other = rng.integers(0, known, size=(len(places), N_IN_SET))
        other += other >= one  # a second edge, different from the first
        return _Questions(places, lengths, np.minimum(one, other), np.maximum(one, other))
