"""Adult and Nursery as problems, the requirements of increasing strength that methods are given, and who meets them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from shoal.core.arrays import FloatArray
from shoal.core.errors import UsageError
from shoal.core.progress import Silent
from shoal.datasets.uci import adult, adult_policy, data_folder, nursery
from shoal.engines.local import CountedCells, LocalEngine
from shoal.models.tau_l_diversity import TauLDiversity
from shoal.plan.judging import judge_plan
from shoal.plan.plan import KEPT, Plan
from shoal.plan.problem import Problem
from shoal.policy.encoding import encode
from shoal.policy.policy import Policy
from shoal.sources.opening import open_source

# Every taxonomy of Nursery is ours: none was published. Attributes without one are flat.
_NURSERY_GROUPS: dict[str, dict[str, Any]] = {
    "has_nurs": {"adequate": ["proper", "less_proper"], "inadequate": ["improper", "critical", "very_crit"]},
    "form": {"both parents": ["complete", "completed"], "other": ["incomplete", "foster"]},
    "children": {"one or two": ["1", "2"], "three or more": ["3", "more"]},
    "class": {"advised": ["recommend", "very_recom"], "urgent": ["priority", "spec_prior"], "not_recom": {}},
}


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """A counted table; its problem is the same for every requirement, apart from that."""

    name: str
    title: str
    choices: str  # what the paper leaves open, and what was taken
    attributes: Mapping[str, Any]  # as in a policy
    counted: CountedCells

    @property
    def n_records(self) -> int:
        """Number of records."""
        return int(self.counted.run.counts.sum())

    def names(self, role: str) -> list[str]:
        """Return the attributes of one role, in the order of importance."""
        return [name for name, options in self.attributes.items() if options["role"] == role]

    def problem(self, model: str, **parameters: float) -> Problem:
        """Return the problem of making this table meet one privacy model; nothing may be withheld."""
        policy = Policy.load({"attributes": self.attributes, "privacy": [{model: parameters}], "max_withheld": 0})
        return encode(self.counted, policy).problem


def adult_table(folder: Path | None, rows: int | None, rng: np.random.Generator) -> Table:
    """Return the 45,222 complete records of Adult, or *rows* of them drawn at random."""
    attributes = adult_policy(folder=_folder(folder))["attributes"]
    return Table(
        name="adult",
        title="Adult",
        choices="The sensitive attribute is occupation (14 values). The quasi attributes are, by importance, age, "
        "workclass, education, marital-status, race and sex, with the taxonomies of the ARX project, except for age: "
        "the labels of its file do not fit what they cover (15-19 stands for 16 to 20), so ages are cut in 5, 10 and "
        "20 years. That makes 720 combinations of levels.",
        attributes=attributes,
        counted=_count(adult(_folder(folder), columns=list(attributes)), attributes, rows, rng),
    )


def nursery_table(folder: Path | None, rows: int | None, rng: np.random.Generator) -> Table:
    """Return the 12,960 records of Nursery, or *rows* of them drawn at random."""
    table = nursery(_folder(folder))
    attributes: dict[str, Any] = {}
    for name in table.column_names:
        groups = _NURSERY_GROUPS.get(name)
        attributes[name] = {
            "role": "sensitive" if name == "class" else "quasi",
            "taxonomy": {"flat": {}} if groups is None else {"groups": groups},
        }
    return Table(
        name="nursery",
        title="Nursery",
        choices="The sensitive attribute is class (5 values, one of them on 2 records only): the skewed one. All other "
        "eight are quasi attributes, in the order of the file; has_nurs, form and children have one level of groups, "
        "the others are flat. That makes 864 combinations of levels. The classes have the groups advised (recommend, "
        "very_recom) and urgent (priority, spec_prior), and not_recom by itself.",
        attributes=attributes,
        counted=_count(table, attributes, rows, rng),
    )


def _folder(given: Path | None) -> Path:
    """Return the folder with the tables; none of it is downloaded, for the taxonomies cannot be."""
    folder = given or data_folder()
    if folder is None:
        raise UsageError(
            "Adult and Nursery are not at hand: name the folder that holds adult.csv.gz, nursery.csv and "
            "hierarchies/adult with --data, or in SHOAL_DATA"
        )
    if not folder.is_dir():
        raise UsageError(f"{folder} is no folder: --data names the one with adult.csv.gz and nursery.csv")
    return folder


def _count(table: pa.Table, attributes: Mapping[str, Any], rows: int | None, rng: np.random.Generator) -> CountedCells:
    if rows is not None and rows < len(table):
        table = table.take(pa.array(np.sort(rng.choice(len(table), rows, replace=False))))
    return LocalEngine().count(open_source(table), tuple(attributes), Silent())


@dataclass(frozen=True, slots=True)
class Grid:
    """What one table is asked for, and the parameters that CLD and 1DLD search for it."""

    requirements: tuple[TauLDiversity, ...]  # each at least as strong as the one before
    cld_c: tuple[float, ...]
    cld_l: tuple[int, ...]
    one_d_l: tuple[int, ...]

    @classmethod
    def of(cls, pairs: tuple[tuple[float, int], ...], c: tuple[float, ...], largest_l: int) -> Grid:
        """Build from (tau, l) pairs; both searches take every l from 2 to *largest_l*."""
        every = tuple(range(2, largest_l + 1))
        return cls(tuple(TauLDiversity(tau=tau, l=l) for tau, l in pairs), c, every, every)


def label(requirement: TauLDiversity) -> str:
    """Write a requirement as the axes do.

    >>> label(TauLDiversity(tau=0.25, l=6))
    '(0.25, 6)'
    """
    return f"({requirement.tau:g}, {requirement.l})"


_C = (1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0, 10.0)

# Without generalized occupations nothing beyond (0.17, 8) can be reached: two of the 14 have 27% of the records.
ADULT = Grid.of(
    (
        (0.5, 3),
        (0.45, 3),
        (0.4, 4),
        (0.35, 4),
        (0.3, 5),
        (0.25, 6),
        (0.2, 7),
        (0.17, 8),
        (0.15, 9),
        (0.14, 10),
        (0.12, 12),
        (0.1, 13),
    ),
    _C,
    14,
)
# Three classes have 97% of the records, so without generalized classes nothing beyond l = 3 can be reached.
NURSERY = Grid.of(
    (
        (0.8, 2),
        (0.7, 2),
        (0.6, 3),
        (0.5, 3),
        (0.45, 3),
        (0.4, 3),
        (0.36, 3),
        (0.36, 4),
        (0.33, 4),
        (0.3, 5),
        (0.27, 5),
        (0.25, 5),
    ),
    _C,
    5,
)
QUICK_ADULT = Grid.of(((0.5, 3), (0.14, 10)), (3.0,), 5)
# A sample may lack the class of 2 records, so l = 4 is the most that can be asked for.
QUICK_NURSERY = Grid.of(((0.7, 2), (0.3, 4)), (3.0,), 3)


def sensitive_weights(problem: Problem, plan: Plan) -> FloatArray:
    """Return (n_classes, n_values) records of each value of the first sensitive attribute, as a reader sees them.

    A record whose value is generalized counts in equal parts for the values below that occur in the table (Tian
    and Zhang, Definition 2, with the default weights).
    """
    cell, owner, records, target = plan.pieces(problem.cells.counts)
    values = np.asarray(problem.cells.codes[len(problem.quasi)], dtype=np.int64)
    n_values = problem.sensitive[0].taxonomy.n_leaves
    published = owner >= 0
    general = np.zeros(len(cell), dtype=np.bool_)
    if plan.targets is not None:
        general[published] = plan.targets.lo[target[published], 0] != KEPT
    exact = published & ~general
    place = owner[exact] * np.int64(n_values) + values[cell[exact]]
    flat = np.bincount(place, records[exact], minlength=plan.n_classes * n_values)
    weights = flat.reshape(plan.n_classes, n_values).astype(np.float64)
    if plan.targets is None or not general.any():
        return weights
    occurs = np.bincount(values, problem.cells.counts, minlength=n_values) > 0
    bounds = np.stack([plan.targets.lo[:, 0], plan.targets.hi[:, 0]], axis=1)[target[general]]
    for lo, hi in np.unique(bounds, axis=0).tolist():
        these = np.flatnonzero(general)[(bounds == (lo, hi)).all(axis=1)]
        spread = occurs & (np.arange(n_values) >= lo) & (np.arange(n_values) < hi)
        in_class = np.bincount(owner[these], records[these], minlength=plan.n_classes)
        weights += np.outer(in_class, spread / spread.sum())
    return weights


def meets(problem: Problem, plan: Plan) -> bool:
    """Whether every class of the plan, as it would be published, keeps every requirement of the problem; exact."""
    return all(bool(asked.model.holds(classes, whole).all()) for asked, classes, whole in judge_plan(problem, plan))
