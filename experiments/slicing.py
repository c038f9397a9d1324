"""Figures 3 to 7 of Li, Li, Zhang and Molloy: slicing beside generalization and bucketization, and its fake tuples.

All three cut the table as Mondrian does and ask for distinct l-diversity: Definition 7 of the paper asks for more than
even one single bucket can give with its l and its sensitive column (see ``TableResult.reachable``). Beside them stand
slicing and bucketization of random buckets, local recoding of slicing's own buckets, and trees of several prunings.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from experiments import slicing_learning as learning
from experiments.membership import MatchingBuckets, UncountableError, matching_buckets, membership
from experiments.slicing_learning import Accuracy, Folds, Learned, Setting, Slices, measure_learning, publish
from experiments.slicing_tables import SENSITIVE, Rows, Table, slicing_tables
from experiments.weka import find_weka
from shoal.attacks.membership import BucketContents
from shoal.core.arrays import CodeArray, IntArray
from shoal.core.errors import UnreachableError
from shoal.core.progress import Progress, Silent
from shoal.engines.local import LocalEngine
from shoal.methods.slicing.attributes import partition_attributes
from shoal.policy.encoding import encode
from shoal.policy.policy import Policy
from shoal.sources.opening import open_source

_QUICK_ROWS = 1_500
TWO, FIVE, SIX_QUASI = "c = 2", "c = 5", "c = 2, six QIs"
FRESH, SHUFFLED = "a fresh sample of the records", "every column shuffled"

# Section 6.3 names the five columns, and not the two.
_PAPER = {
    "occ-7": (("age", "marital-status", "sex"), ("workclass",), ("education",), ("race",), ("occupation",)),
    "occ-15": (
        ("age", "workclass", "education", "education-num", "capital-gain", "hours-per-week", "salary-class"),
        ("marital-status", "occupation", "relationship", "sex"),
        ("race", "native-country"),
        ("fnlwgt",),
        ("capital-loss",),
    ),
}
# Found by trying: of the quasi attributes alone, this comes nearest to the numbers of fakes that the paper gives.
_NEAREST = {"occ-7": (("age", "marital-status", "race"), ("workclass", "education", "sex"))}

Parts = Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class Grid:
    """What is asked for."""

    l: tuple[int, ...] = (5, 8, 10)
    c: tuple[int, ...] = (2, 3, 5)  # the first for every l, the others for the first l
    bucket_sizes: tuple[int, ...] = (10, 100, 500, 1000)
    folds: Folds = field(default_factory=Folds)
    prunings: tuple[str, ...] = (
        *learning.UNPRUNED,
        learning.PRUNED,
        learning.J48,
    )  # trees, the last one where Weka is at hand
    pruning_folds: Folds = field(default_factory=lambda: Folds(own=3, unseen=3))

    @property
    def settings(self) -> tuple[Setting, ...]:
        """Every technique with every l, slicing with every c at the first l, and what is made of slicing's buckets."""
        first = self.l[0]
        settings = [Setting(learning.ORIGINAL), *(Setting(learning.GENERALIZATION, l) for l in self.l)]
        for bucketization, slicing in (
            (learning.BUCKETIZATION, learning.SLICING),
            (learning.RANDOM_BUCKETIZATION, learning.RANDOM_SLICING),
        ):
            settings += [Setting(bucketization, l, 2) for l in self.l]
            settings += [Setting(slicing, l, self.c[0]) for l in self.l]
            settings += [Setting(slicing, first, c) for c in self.c[1:]]
        return (
            *settings,
            *(Setting(technique, first, 2) for technique in (learning.LOCAL_RECODING, learning.MULTISETS)),
        )

    @property
    def first_settings(self) -> tuple[Setting, ...]:
        """Every technique once: with the first l and two columns."""
        return tuple(one for one in self.settings if one.l in (None, self.l[0]) and one.c in (None, 2))


FULL = Grid()
QUICK = Grid(
    l=(5, 8),
    c=(2, 3),
    bucket_sizes=(10, 100),
    folds=Folds(own=2, unseen=2),
    prunings=(*learning.UNPRUNED, learning.PRUNED),
    pruning_folds=Folds(own=2, unseen=2),
)
# Tuples are counted by their matching buckets: 1, 2, 3 to 5 and so on. The paper's categories begin at 1, 11 and 21.
LEAST_MATCHING = (1, 2, 3, 6, 11, 21)


@dataclass(frozen=True, slots=True)
class Reachable:
    """The most that one single bucket gives an adversary who knows what stands beside the sensitive value.

    Of l-diversity as Definition 7 has it (``simple``), of the number of values (``distinct``), and of exp(entropy).
    """

    known: list[str]  # the quasi attributes in the sensitive column
    simple: int
    distinct: int
    entropy: float


@dataclass(frozen=True, slots=True)
class Matching:
    """One random grouping into buckets of one size: tuples by their number of matching buckets.

    There is a number for each of ``LEAST_MATCHING``. Records count each by itself; fakes are distinct tuples. None: too
    many to be counted. No tuple can match more than ``most`` buckets: its rarest column value stands in no more.
    """

    columns: str
    parts: list[list[str]]
    size: int
    originals: int  # distinct original tuples
    most: int  # least, over the columns, of the records that share the column's commonest value
    records: list[int]
    fakes: list[int] | None

    @property
    def n_records(self) -> int:
        """Number of original records."""
        return sum(self.records)

    @property
    def n_fakes(self) -> int | None:
        """Number of fake tuples."""
        return None if self.fakes is None else sum(self.fakes)

    @property
    def records_with_many(self) -> int:
        """Original records with more than 20 matching buckets."""
        return self.records[-1]

    @property
    def fakes_with_many(self) -> int | None:
        """Fake tuples with more than 20 matching buckets."""
        return None if self.fakes is None else self.fakes[-1]


@dataclass(frozen=True, slots=True)
class Distance:
    """How far the pairs of attributes in one technique's rows are from the original ones: the extremes of the draws."""

    technique: str
    least: float
    greatest: float


@dataclass(frozen=True, slots=True)
class TableResult:
    """All that was measured on one table."""

    name: str
    title: str
    records: int
    attributes: list[str]
    commonest: dict[str, float]  # of each target: the share that naming its commonest value always is right for
    by_sex: float  # the same for occupation, if the commonest one of each sex is named
    alone: float  # share of the records whose quasi values nobody else has
    reachable: list[Reachable]
    slices: list[Slices]
    accuracies: list[Accuracy]
    prunings: list[Accuracy]  # of trees, learning occupation with the first l
    distances: list[Distance]  # with the first l; at the end those of a fresh sample, and of columns shuffled
    matchings: list[Matching]

    def accuracy(self, technique: str, target: str, classifier: str, l: int, c: int = 2) -> Accuracy:
        """Return one accuracy; the original has neither l nor c, generalization no c, bucketization always two."""
        asked = {
            learning.ORIGINAL: (None, None),
            learning.GENERALIZATION: (l, None),
            learning.BUCKETIZATION: (l, 2),
            learning.RANDOM_BUCKETIZATION: (l, 2),
        }.get(technique, (l, c))
        return next(
            one
            for one in (*self.accuracies, *self.prunings)
            if (one.technique, one.target, one.classifier) == (technique, target, classifier)
            and (one.l, one.c) == asked
        )


@dataclass(frozen=True, slots=True)
class Result:
    """The whole experiment."""

    tables: list[TableResult]
    l: list[int]
    c: list[int]
    bucket_sizes: list[int]
    pruning_folds: int
    quick: bool
    seed: int
    note: str = ""  # on runs that the figures are from, if several


def run_slicing(data: Path | None, *, quick: bool, seed: int, progress: Progress) -> Result:
    """Measure everything on OCC-7 and OCC-15; *quick* takes few settings and a sample of the records."""
    grid = QUICK if quick else FULL
    tables = slicing_tables(data, _QUICK_ROWS if quick else None, np.random.default_rng(seed))
    return Result(
        tables=[_measure(table, grid, seed, progress) for table in tables],
        l=list(grid.l),
        c=list(grid.c),
        bucket_sizes=list(grid.bucket_sizes),
        pruning_folds=grid.pruning_folds.own,
        quick=quick,
        seed=seed,
    )


def _measure(table: Table, grid: Grid, seed: int, progress: Progress) -> TableResult:
    rows = Rows.of_values(table, table.rows)
    found = learn_all(table, grid.settings, lambda one: measure_learning(table, one, grid.folds, seed), progress)
    slices = [one.slices for one in found if one.slices is not None]
    beside = {tuple(name for name in one.parts[-1] if name != SENSITIVE) for one in slices}
    return TableResult(
        name=table.name,
        title=table.title,
        records=rows.n_rows,
        attributes=[column.name for column in table.columns],
        commonest={target: _commonest(rows, target) for target in learning.TARGETS},
        by_sex=commonest_by_sex(rows),
        alone=_alone(rows),
        reachable=[find_reachable(rows, known) for known in sorted(beside)],
        slices=slices,
        accuracies=[accuracy for one in found for accuracy in one.accuracies],
        prunings=measure_prunings(table, grid, seed, progress),
        distances=measure_distances(table, grid.first_settings, seed),
        matchings=count_matchings(table, grid.bucket_sizes, seed, progress),
    )


def learn_all(
    table: Table, settings: Sequence[Setting], learn: Callable[[Setting], Learned], progress: Progress
) -> list[Learned]:
    """Learn from every setting, several at once: trees grow, and kernels run, outside the interpreter's lock."""
    with (
        ThreadPoolExecutor(min(len(settings), os.cpu_count() or 1)) as pool,
        progress.step(f"{table.title}: learning", len(settings), "settings") as step,
    ):
        found = []
        for one in [pool.submit(learn, setting) for setting in settings]:
            found.append(one.result())
            step.advance(1)
    return found


def measure_prunings(table: Table, grid: Grid, seed: int, progress: Progress) -> list[Accuracy]:
    """Let trees that are pruned in different ways learn the sensitive attribute from every technique."""
    trees = [tree for tree in grid.prunings if tree != learning.J48 or find_weka() is not None]
    questions = [(SENSITIVE, tree) for tree in trees]
    found = learn_all(
        table,
        grid.first_settings,
        lambda one: measure_learning(table, one, grid.pruning_folds, seed, questions),
        progress,
    )
    return [accuracy for one in found for accuracy in one.accuracies]


def measure_distances(table: Table, settings: Sequence[Setting], seed: int) -> list[Distance]:
    """Measure what every technique within reach leaves of the pairs of attributes, and two that hide nothing or all."""
    rows = Rows.of_values(table, table.rows)
    together = np.zeros(rows.n_rows, dtype=np.int64)
    draws: dict[str, Callable[[np.random.Generator], Rows]] = {}
    for setting in settings:
        with contextlib.suppress(UnreachableError):
            draws[setting.technique] = publish(table, table.rows, setting, seed).draw
    draws.pop(learning.ORIGINAL)
    draws[FRESH] = lambda rng: Rows(table, rows.least[rng.integers(0, rows.n_rows, rows.n_rows)])
    draws[SHUFFLED] = lambda rng: learning.link_at_random(rows, together, rng)
    found = []
    for technique, draw in draws.items():
        rng = np.random.default_rng(seed)
        distances = [learning.distance_of_pairs(draw(rng), rows, rng) for _ in range(learning.DRAWS)]
        found.append(Distance(technique, min(distances), max(distances)))
    return found


def find_reachable(rows: Rows, known: Sequence[str]) -> Reachable:
    """Look at the whole table as one bucket: the records that share the known values tell a distribution."""
    values = rows.least[:, rows.table.place(SENSITIVE)].astype(np.int64)
    group = _number_rows(rows, known)
    n_values = int(values.max()) + 1
    counts = np.bincount(group * n_values + values, minlength=(int(group.max()) + 1) * n_values).reshape(-1, n_values)
    size = counts.sum(axis=1, keepdims=True)
    share = counts / size
    entropy = -np.sum(share * np.log(np.where(counts > 0, share, 1.0)), axis=1)
    return Reachable(
        known=list(known),
        simple=int((size[:, 0] // counts.max(axis=1)).min()),
        distinct=int((counts > 0).sum(axis=1).min()),
        entropy=float(np.exp(entropy.min())),
    )


def _alone(rows: Rows) -> float:
    quasi = [column.name for column in rows.table.columns if column.name != SENSITIVE]
    return float(np.sum(np.bincount(_number_rows(rows, quasi)) == 1) / rows.n_rows)


def _commonest(rows: Rows, target: str) -> float:
    return float(np.bincount(rows.least[:, rows.table.place(target)]).max() / rows.n_rows)


def commonest_by_sex(rows: Rows) -> float:
    """Return the share of the records whose occupation is the commonest one of their sex."""
    pairs = np.bincount(_number_rows(rows, ["sex"]) * 100 + rows.least[:, rows.table.place(SENSITIVE)], minlength=200)
    return float(pairs.reshape(2, 100).max(axis=1).sum() / rows.n_rows)


def _number_rows(rows: Rows, names: Sequence[str]) -> IntArray:
    """Return (n_rows,) the number of each row's combination of values."""
    codes = rows.least[:, [rows.table.place(name) for name in names]]
    return np.unique(codes, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)


def count_matchings(table: Table, sizes: Sequence[int], seed: int, progress: Progress) -> list[Matching]:
    """Group records at random into buckets of each size and count, for each attribute partition."""
    rows = Rows.of_values(table, table.rows)
    partitions = {TWO: cluster_attributes(table, 2), FIVE: _PAPER[table.name]}
    if table.name in _NEAREST:
        partitions[SIX_QUASI] = _NEAREST[table.name]
    found = []
    with progress.step(f"{table.title}: membership", len(partitions) * len(sizes), "groupings") as step:
        for name, parts in partitions.items():
            for size in sizes:
                found.append(_count_matching(rows, name, parts, size, np.random.default_rng([seed, size])))
                step.advance(1)
    return found


def cluster_attributes(table: Table, n_columns: int) -> Parts:
    """Return the columns that attribute clustering finds, all attributes alike (section 4.1.2)."""
    names = table.rows.column_names
    counted = LocalEngine().count(open_source(table.rows), tuple(names), Silent())
    problem = encode(counted, Policy.load(table.policy(1, {"mondrian": {}}))).problem
    of_place = [attribute.name for attribute in (*problem.quasi, *problem.sensitive)]
    columns = partition_attributes(problem, n_columns, None)
    return [[of_place[place] for place in column] for column in columns.places]


def _count_matching(rows: Rows, name: str, parts: Parts, size: int, rng: np.random.Generator) -> Matching:
    bucket = np.empty(rows.n_rows, dtype=np.int32)
    bucket[rng.permutation(rows.n_rows)] = np.arange(rows.n_rows) // size
    values = [_codes(rows, part) for part in parts]
    tuples = np.stack(values)
    matching = matching_buckets(BucketContents.of(bucket, values), tuples)  # (n_rows,)
    try:
        fakes = _tally(membership(bucket, values).fakes)
    except UncountableError:
        fakes = None
    return Matching(
        columns=name,
        parts=[list(part) for part in parts],
        size=size,
        originals=len(np.unique(tuples, axis=1).T),
        most=min(int(np.bincount(one).max()) for one in values),
        records=_tally(MatchingBuckets.of(matching)),
        fakes=fakes,
    )


def _tally(matching: MatchingBuckets) -> list[int]:
    """Return how many tuples have a number of matching buckets from each of ``LEAST_MATCHING`` to the next."""
    at_least = [matching.at_least(m) for m in LEAST_MATCHING]
    return [more - fewer for more, fewer in itertools.zip_longest(at_least, at_least[1:], fillvalue=0)]


def _codes(rows: Rows, names: Sequence[str]) -> CodeArray:
    codes = rows.least[:, [rows.table.place(name) for name in names]]
    return np.unique(codes, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int32)
