"""What a release keeps: shares, 1 if it does as well as the source and 0 if nothing is kept, one class each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, product
from typing import ClassVar

import numpy as np

from shoal.compare.ground import Ground
from shoal.core.arrays import CodeArray, FloatArray, IntArray
from shoal.utility.association_kept import cramers_v

N_SETS = 50  # of counting questions, each about the same attributes
N_IN_SET = 20
MOST_OTHERS = 2
SANITY = 0.001  # share of the people to which errors of smaller counts are relative
MOST_COUNTED_BINS = 64
MOST_BINS = 16
MOST_CLASSES = 64
_NO_DEPENDENCE = 1e-9
_AT_ONCE = 1 << 16  # people
_LITTLE = 0.005  # a source that teaches no more than that above the commonest value teaches nothing


@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    """What all releases are measured against."""

    ground: Ground
    source: CodeArray  # (n_attributes, n_rows) leaves of those whom releases are about
    asked: CodeArray  # (n_attributes, n_asked) leaves of people to be predicted: the control group, if there is one
    seed: int  # of questions: the same for every release


@dataclass(frozen=True, slots=True)
class Score:
    """How much is kept, and the figures that the share comes from; or why nothing was measured."""

    kept: float | None
    figures: Mapping[str, float] = field(default_factory=dict)
    reason: str | None = None

    def as_dict(self) -> dict[str, object]:
        """Return all of it for JSON."""
        entry: dict[str, object] = {"kept": self.kept, **self.figures}
        return entry if self.reason is None else entry | {"reason": self.reason}


class Measure(ABC):
    """One way to ask what can still be done with a release."""

    name: ClassVar[str]
    title: ClassVar[str]  # a plain sentence for people

    @abstractmethod
    def __init__(self, stage: Stage) -> None:
        """Prepare the questions, and their answers from the source."""

    @abstractmethod
    def score(self, rows: CodeArray) -> Score:
        """Ask a release, given as (n_attributes, n_rows) leaves of a table that somebody would make of it."""


def to_bins(rows: CodeArray, bins: list[CodeArray]) -> list[CodeArray]:
    """Return each attribute's rows as bins."""
    return [own[column] for own, column in zip(bins, rows, strict=True)]


def n_bins(bins: CodeArray) -> int:
    """Return how many bins an attribute has, that of unknown values included."""
    return int(bins.max()) + 1


def generator(stage: Stage, name: str) -> np.random.Generator:
    """Return the generator of a measure's questions."""
    return np.random.default_rng([stage.seed, *name.encode()])


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

    def __init__(self, stage: Stage) -> None:
        self._bins = [compared.bins(MOST_COUNTED_BINS) for compared in stage.ground.attributes]
        self._always = [] if stage.ground.predicted is None else [stage.ground.predicted]
        rng = generator(stage, self.name)
        self._questions = [self._draw(rng) for _ in range(N_SETS)]
        source = to_bins(stage.source, self._bins)
        self._true = np.concatenate([each.answers(source) for each in self._questions])

    def score(self, rows: CodeArray) -> Score:
        """Ask all questions."""
        columns = to_bins(rows, self._bins)
        answers = np.concatenate([each.answers(columns) for each in self._questions])
        errors = np.abs(answers - self._true) / np.maximum(self._true, SANITY)
        mean = float(np.minimum(errors, 1.0).mean())
        return Score(1 - mean, {"mean_error": mean, "median_error": float(np.median(errors))})

    def _draw(self, rng: np.random.Generator) -> _Questions:
        others = [place for place in range(len(self._bins)) if place not in self._always]
        n_others = int(rng.integers(1, min(len(others), MOST_OTHERS) + 1)) if others else 0
        places = (*rng.choice(others, n_others, replace=False).tolist(), *self._always)
        lengths = tuple(n_bins(self._bins[place]) for place in places)
        known = np.array(lengths)[:, np.newaxis] - 1  # nobody asks for what is unknown
        one = rng.integers(0, known + 1, size=(len(places), N_IN_SET))
        other = rng.integers(0, known, size=(len(places), N_IN_SET))
        other += other >= one  # a second edge, different from the first
        return _Questions(places, lengths, np.minimum(one, other), np.maximum(one, other))


class Association(Measure):
    """One less the difference between the dependence of pairs in the release and in the source, relative to the latter.

    Dependence is Cramer's V, corrected for what chance makes of few records (Bergsma, "A bias-correction for Cramer's V
    and Tschuprow's T", JKSS 42, 2013), over at most 16 bins an attribute. Differences are summed over all pairs: strong
    dependence counts most, and dependence that was made up counts against the release.
    """

    name = "association"
    title = "1 less the change of Cramer's V over all pairs of attributes, relative to that of the source"

    def __init__(self, stage: Stage) -> None:
        self._bins = [compared.bins(MOST_BINS) for compared in stage.ground.attributes]
        self._true = self._dependence(stage.source)

    def score(self, rows: CodeArray) -> Score:
        """Compare pair by pair."""
        total = float(self._true.sum())
        if total < _NO_DEPENDENCE:
            return Score(None, reason="no two attributes of the source depend on each other")
        changed = float(np.abs(self._dependence(rows) - self._true).sum())
        return Score(max(0.0, 1 - changed / total), {"mean_change": changed / len(self._true)})

    def _dependence(self, rows: CodeArray) -> FloatArray:
        """Return (n_pairs,) Cramer's V of each pair."""
        columns = to_bins(rows, self._bins)
        found = []
        for first, second in combinations(range(len(columns)), 2):
            shape = n_bins(self._bins[first]), n_bins(self._bins[second])
            code = columns[first].astype(np.int64) * shape[1] + columns[second]
            found.append(cramers_v(np.bincount(code, minlength=shape[0] * shape[1]).reshape(shape).astype(np.float64)))
        return np.array(found, dtype=np.float64)


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

    def __init__(self, stage: Stage) -> None:
        attributes, predicted = stage.ground.attributes, stage.ground.predicted
        self._predicted = -1 if predicted is None or len(attributes) < 2 else predicted
        if self._predicted < 0:
            return
        self._bins = [compared.bins(MOST_BINS) for compared in attributes]
        self._bins[self._predicted] = attributes[self._predicted].bins(MOST_CLASSES)
        self._classes = n_bins(self._bins[self._predicted])
        self._asked, self._answers = self._split(stage.asked)
        taught = np.bincount(self._split(stage.source)[1], minlength=self._classes)
        self._commonest = float((self._answers == taught.argmax()).mean())
        self._source = self._accuracy(stage.source)

    def score(self, rows: CodeArray) -> Score:
        """Learn from the release, and predict."""
        if self._predicted < 0:
            return Score(None, reason="no attribute is sensitive in all policies, or there is no other to learn from")
        accuracy = self._accuracy(rows)
        figures = {"accuracy": accuracy, "source": self._source, "commonest": self._commonest}
        most = self._source - self._commonest
        if most < _LITTLE:
            return Score(None, figures, "the source itself teaches no more than the commonest value")
        return Score(max(0.0, (accuracy - self._commonest) / most), figures)

    def _accuracy(self, rows: CodeArray) -> float:
        """Return how often the likeliest value is right for the people who are asked about."""
        known, answers = self._split(rows)
        prior = np.bincount(answers, minlength=self._classes) + 1.0
        chances = []
        others = [own for place, own in enumerate(self._bins) if place != self._predicted]
        for column, own in zip(known, others, strict=True):
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

    def _split(self, rows: CodeArray) -> tuple[list[CodeArray], IntArray]:
        """Return the bins to predict from, attribute by attribute, and (n_rows,) those to predict."""
        columns = to_bins(rows, self._bins)
        answers = columns.pop(self._predicted).astype(np.int64)
        return columns, answers


KINDS: tuple[type[Measure], ...] = (Counting, Association, Learning)  # in the order of the table
