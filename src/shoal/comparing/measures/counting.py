"""counts: how right the numbers are that somebody counts in a release."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from shoal.arrays import CodeArray, FloatArray, IntArray
from shoal.comparing.measures.base import Measure, Score, Stage, binned, generator, n_bins
from shoal.utility.query_error import SANITY

N_SETS = 50
N_IN_SET = 20
MOST_ATTRIBUTES = 3
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
    """One less the median relative error of random questions "what share of the people is ... and ...?".

    A question names one to three attributes and a range of each one's values in the order of its tree, at most 64 bins
    of them. The error is relative to the true share or, if that is smaller, to 0.1 %. Shares, not counts, so that a
    sample is as good as its people are typical.
    """

    name = "counts"
    title = "1 less the median relative error of random counting questions"
    place = 1

    def __init__(self, stage: Stage) -> None:
        self._bins = [compared.bins(MOST_BINS) for compared in stage.ground.attributes]
        rng = generator(stage, self.name)
        self._questions = [self._drawn(rng) for _ in range(N_SETS)]
        source = binned(stage.source, self._bins)
        self._true = np.concatenate([each.answers(source) for each in self._questions])

    def score(self, rows: CodeArray) -> Score:
        """Ask all questions."""
        columns = binned(rows, self._bins)
        told = np.concatenate([each.answers(columns) for each in self._questions])
        error = float(np.median(np.abs(told - self._true) / np.maximum(self._true, SANITY)))
        return Score(max(0.0, 1 - error), {"median_error": error})

    def _drawn(self, rng: np.random.Generator) -> _Questions:
        n_attributes = len(self._bins)
        n_asked = int(rng.integers(1, min(n_attributes, MOST_ATTRIBUTES) + 1))
        places = tuple(rng.choice(n_attributes, n_asked, replace=False).tolist())
        lengths = tuple(n_bins(self._bins[place]) for place in places)
        known = np.array(lengths)[:, np.newaxis] - 1  # nobody asks for what is unknown
        one = rng.integers(0, known + 1, size=(n_asked, N_IN_SET))
        other = rng.integers(0, known, size=(n_asked, N_IN_SET))
        other += other >= one  # a second edge, different from the first
        return _Questions(places, lengths, np.minimum(one, other), np.maximum(one, other))
