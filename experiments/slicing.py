"""Figures 3 to 7 of Li, Li, Zhang and Molloy: slicing beside generalization and bucketization, and its fake tuples.

All three cut the table as Mondrian does and ask for distinct l-diversity: Definition 7 of the paper asks for more than
even one single bucket can give with its l and its sensitive column (see ``TableResult.reachable``).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from experiments.slicing_learning import (
    BUCKETIZATION,
    GENERALIZATION,
    ORIGINAL,
    SLICING,
    TARGETS,
    Accuracy,
    Folds,
    Setting,
    Slices,
    learned,
)
from experiments.slicing_membership import Matching, matchings
from experiments.slicing_tables import SENSITIVE, Rows, Table, slicing_tables
from shoal.core.arrays import IntArray
from shoal.core.progress import Progress

_QUICK_ROWS = 1_500


@dataclass(frozen=True, slots=True)
class Grid:
    """What is asked for."""

    l: tuple[int, ...] = (5, 8, 10)
    c: tuple[int, ...] = (2, 3, 5)  # the first for every l, the others for the first l
    bucket_sizes: tuple[int, ...] = (10, 100, 500, 1000)
    folds: Folds = field(default_factory=Folds)

    @property
    def settings(self) -> tuple[Setting, ...]:
        """Every technique with every l, and slicing with every c at the first l."""
        least = self.c[0]
        return (
            Setting(ORIGINAL),
            *(Setting(GENERALIZATION, l) for l in self.l),
            *(Setting(BUCKETIZATION, l, 2) for l in self.l),
            *(Setting(SLICING, l, least) for l in self.l),
            *(Setting(SLICING, self.l[0], c) for c in self.c[1:]),
        )


FULL = Grid()
QUICK = Grid(l=(5, 8), c=(2, 3), bucket_sizes=(10, 100), folds=Folds(own=2, unseen=2))


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
class TableResult:
    """All that was measured on one table."""

    name: str
    title: str
    records: int
    attributes: list[str]
    commonest: dict[str, float]  # of each target: the share that naming its commonest value always is right for
    alone: float  # share of the records whose quasi values nobody else has
    reachable: list[Reachable]
    slices: list[Slices]
    accuracies: list[Accuracy]
    matchings: list[Matching]

    def accuracy(self, technique: str, target: str, classifier: str, l: int, c: int = 2) -> Accuracy:
        """Return one accuracy; the original has neither l nor c, generalization no c, bucketization always two."""
        asked = {
            ORIGINAL: (None, None),
            GENERALIZATION: (l, None),
            BUCKETIZATION: (l, 2),
        }.get(technique, (l, c))
        return next(
            one
            for one in self.accuracies
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
    quick: bool
    seed: int

    def as_dict(self) -> dict[str, Any]:
        """Return everything for ``slicing.json`` and ``--json``."""
        return {"paper": "slicing", **asdict(self)}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Result:
        """Read what ``as_dict`` gave, so that a page can be written again without another run."""
        kinds: dict[str, Any] = {
            "reachable": Reachable,
            "slices": Slices,
            "accuracies": Accuracy,
            "matchings": Matching,
        }
        tables = [
            TableResult(**{**table, **{name: [kind(**one) for one in table[name]] for name, kind in kinds.items()}})
            for table in stored["tables"]
        ]
        rest = {name: stored[name] for name in ("l", "c", "bucket_sizes", "quick", "seed")}
        return cls(tables, **rest)


def run_slicing(data: Path | None, *, quick: bool, seed: int, progress: Progress) -> Result:
    """Measure everything on OCC-7 and OCC-15; *quick* takes few settings and a sample of the records."""
    grid = QUICK if quick else FULL
    tables = slicing_tables(data, _QUICK_ROWS if quick else None, np.random.default_rng(seed))
    return Result(
        tables=[_measured(table, grid, seed, progress) for table in tables],
        l=list(grid.l),
        c=list(grid.c),
        bucket_sizes=list(grid.bucket_sizes),
        quick=quick,
        seed=seed,
    )


def _measured(table: Table, grid: Grid, seed: int, progress: Progress) -> TableResult:
    rows = Rows.of_values(table, table.rows)
    settings = grid.settings
    # Trees grow, and kernels run, outside the interpreter's lock.
    with (
        ThreadPoolExecutor(min(len(settings), os.cpu_count() or 1)) as pool,
        progress.step(f"{table.title}: learning", len(settings), "settings") as step,
    ):
        waiting = [pool.submit(learned, table, setting, grid.folds, seed) for setting in settings]
        found = []
        for one in waiting:
            found.append(one.result())
            step.advance(1)
    slices = [one.slices for one in found if one.slices is not None]
    beside = {tuple(name for name in one.parts[-1] if name != SENSITIVE) for one in slices}
    return TableResult(
        name=table.name,
        title=table.title,
        records=rows.n_rows,
        attributes=[column.name for column in table.columns],
        commonest={target: _commonest(rows, target) for target in TARGETS},
        alone=_alone(rows),
        reachable=[reachable(rows, known) for known in sorted(beside)],
        slices=slices,
        accuracies=[accuracy for one in found for accuracy in one.accuracies],
        matchings=matchings(table, grid.bucket_sizes, seed, progress),
    )


def reachable(rows: Rows, known: Sequence[str]) -> Reachable:
    """Look at the whole table as one bucket: the records that share the known values tell a distribution."""
    values = rows.least[:, rows.table.place(SENSITIVE)].astype(np.int64)
    group = _numbered(rows, known)
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
    return float(np.sum(np.bincount(_numbered(rows, quasi)) == 1) / rows.n_rows)


def _commonest(rows: Rows, target: str) -> float:
    return float(np.bincount(rows.least[:, rows.table.place(target)]).max() / rows.n_rows)


def _numbered(rows: Rows, names: Sequence[str]) -> IntArray:
    """Return (n_rows,) the number of each row's combination of values."""
    codes = rows.least[:, [rows.table.place(name) for name in names]]
    return np.unique(codes, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)
