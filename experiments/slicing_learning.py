"""Figures 3 to 5 of the slicing paper: what classifiers learn from originals, and from releases of them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np
import pyarrow as pa

from experiments.classifiers import NaiveBayes, PrunedTree
from experiments.slicing_tables import Rows, Table
from shoal.anonymize import anonymize
from shoal.core.arrays import BoolArray, IntArray
from shoal.core.errors import UnreachableError

ORIGINAL = "original"
GENERALIZATION = "generalization"
BUCKETIZATION = "bucketization"
SLICING = "slicing"
TECHNIQUES = (ORIGINAL, GENERALIZATION, BUCKETIZATION, SLICING)
TREE = "decision tree"
BAYES = "naive Bayes"
CLASSIFIERS = (TREE, BAYES)
TARGETS = ("occupation", "education")
DRAWS = 5
ALPHA = 2


@dataclass(frozen=True, slots=True)
class Setting:
    """One technique with its parameters; the original has none."""

    technique: str
    l: int | None = None
    c: int | None = None

    @property
    def method(self) -> dict[str, Any]:
        """The method of a policy: all three cut as Mondrian does, and bucketization is slicing with QI | S."""
        if self.technique == GENERALIZATION:
            return {"mondrian": {}}
        alpha = 1 if self.technique == BUCKETIZATION else ALPHA
        return {"slicing": {"columns": self.c, "alpha": alpha, "cut_by": "all"}}


@dataclass(frozen=True, slots=True)
class Folds:
    """How many folds each way of testing deals."""

    own: int = 10
    unseen: int = 3


@dataclass(frozen=True, slots=True)
class Accuracy:
    """How often a classifier that learned from one technique's rows is right; None: no table meets the requirement.

    ``own`` is the paper's: folds of the published rows themselves. ``unseen`` asks about original records that the
    published rows do not hold: the other folds were anonymized by themselves.
    """

    technique: str
    l: int | None
    c: int | None
    target: str
    classifier: str
    own: float | None
    unseen: float | None


@dataclass(frozen=True, slots=True)
class Slices:
    """The columns and buckets of one sliced release."""

    technique: str
    l: int | None
    c: int | None
    parts: list[list[str]]
    buckets: int
    mixed: float  # share of the records whose bucket holds both sexes


@dataclass(frozen=True, slots=True)
class Learned:
    """What came of one setting."""

    accuracies: list[Accuracy]
    slices: Slices | None  # of the release of the whole table, if it is sliced


@dataclass(frozen=True, slots=True, eq=False)
class Publication:
    """The rows that one technique publishes of a table, as an analyst makes them usable: sliced ones re-linked."""

    draw: Callable[[np.random.Generator], Rows]
    slices: Slices | None = None


def published(table: Table, source: pa.Table, setting: Setting, seed: int) -> Publication:
    """Publish some rows of the table; raises if the requirement cannot be met."""
    if setting.l is None:
        rows = Rows.of_values(table, source)
        return Publication(lambda _: rows)
    release = anonymize(source, table.policy(setting.l, setting.method), seed=seed)
    if setting.technique == GENERALIZATION:
        labels = Rows.of_labels(table, release.data, release.manifest)
        return Publication(lambda _: labels)
    parts, n_buckets = list(release.manifest["parts"]), int(release.manifest["buckets"])
    return Publication(
        lambda rng: Rows.of_values(table, release.sample_table(rng)),
        Slices(setting.technique, setting.l, setting.c, parts, n_buckets, mixed(release.data)),
    )


def learned(table: Table, setting: Setting, folds: Folds, seed: int) -> Learned:
    """Publish by one technique and measure what can be learned, in both ways."""
    rng = np.random.default_rng([seed, TECHNIQUES.index(setting.technique), setting.l or 0, setting.c or 0])
    chosen = (setting.technique, setting.l, setting.c)
    try:
        publication = published(table, table.rows, setting, seed)
    except UnreachableError:
        return Learned([Accuracy(*chosen, *question, None, None) for question in _questions()], None)
    draws = [publication.draw(rng) for _ in range(min(DRAWS, folds.own))]
    fold_of = rng.permutation(draws[0].n_rows) % folds.own
    unseen = list(_unseen(table, setting, folds.unseen, seed, rng))
    accuracies = []
    for question in _questions():
        own = [
            accuracy(rows, rows, fold_of == fold, *question, rng)
            for fold, rows in zip(range(folds.own), itertools.cycle(draws), strict=False)
        ]
        other = [accuracy(rows, asked, None, *question, rng) for rows, asked in unseen]
        accuracies.append(Accuracy(*chosen, *question, fmean(own), fmean(other) if other else None))
    return Learned(accuracies, publication.slices)


def accuracy(
    rows: Rows, asked: Rows, held: BoolArray | None, target: str, classifier: str, rng: np.random.Generator
) -> float:
    """Return the share of the *asked* rows whose target is told by a classifier that learned from *rows*.

    *held* are rows that both have: they are asked about, and not learned from.
    """
    doubled = rows.generalized
    everything = slice(None)
    learn_from = everything if held is None else ~held
    ask = everything if held is None else held
    classes = rows.drawn(target, rng)
    truth: IntArray = classes if asked is rows else asked.drawn(target, rng)
    if classifier == TREE:
        tree = PrunedTree.learn(
            rows.positions(target, doubled=doubled)[learn_from], classes[learn_from], int(rng.integers(2**31))
        )
        told = tree.predict(asked.positions(target, doubled=doubled)[ask])
    else:
        bayes = NaiveBayes.learn(
            rows.bins(target, doubled=doubled)[learn_from], classes[learn_from], rows.n_bins(target, doubled=doubled)
        )
        told = bayes.predict(asked.bins(target, doubled=doubled)[ask])
    return float(np.mean(told == truth[ask]))


def mixed(rows: pa.Table) -> float:
    """Return the share of the records of a sliced table whose bucket holds both sexes.

    Only there does it matter that slicing keeps sex beside occupation: elsewhere the bucket itself tells the sex.
    """
    bucket = np.asarray(rows.column("bucket"), dtype=np.int64)
    sex = np.asarray(rows.column("sex").combine_chunks().dictionary_encode().indices)
    size = np.bincount(bucket)
    of_first = np.bincount(bucket, sex == 0, minlength=len(size))
    return float(size[(of_first > 0) & (of_first < size)].sum() / len(bucket))


def _questions() -> Iterator[tuple[str, str]]:
    return ((target, classifier) for target in TARGETS for classifier in CLASSIFIERS)


def _unseen(
    table: Table, setting: Setting, n_folds: int, seed: int, rng: np.random.Generator
) -> Iterator[tuple[Rows, Rows]]:
    """Yield what all folds but one publish, and the original records of that fold; the same folds for all settings.

    A fold whose others alone cannot meet the requirement is left out.
    """
    fold = np.random.default_rng(seed).permutation(len(table.rows)) % n_folds
    for number in range(n_folds):
        others = table.rows.filter(pa.array(fold != number))
        try:
            rows = published(table, others, setting, seed).draw(rng)
        except UnreachableError:
            continue
        yield rows, Rows.of_values(table, table.rows.filter(pa.array(fold == number)))
