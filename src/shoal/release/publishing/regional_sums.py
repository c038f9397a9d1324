"""What one region of a table adds to the whole, and what all of them add up to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from shoal.audit.risk.sizes import class_risks
from shoal.core import kernels
from shoal.core.arrays import BoolArray, IntArray
from shoal.plan.plan import Plan
from shoal.plan.problem import Problem
from shoal.policy.encoding import Tree
from shoal.policy.policy import Policy
from shoal.release.guarantees import Guarantee, achieved
from shoal.release.publishing.levels import LevelTally, plan_levels
from shoal.release.publishing.regional_numbers import LeafRanges, SensitiveFindings
from shoal.release.publishing.shares import ShareTally, class_shares
from shoal.utility.base import Pool


class SizeTally:
    """How many classes there are of each size."""

    def __init__(self) -> None:
        self._classes: Counter[int] = Counter()

    def add(self, sizes: IntArray) -> None:
        """Take some classes."""
        found, times = np.unique(sizes, return_counts=True)
        self._classes.update(dict(zip(found.tolist(), times.tolist(), strict=True)))

    def join(self, other: SizeTally) -> None:
        """Take the classes of another tally."""
        self._classes.update(other._classes)

    def risks(self) -> dict[str, Any]:
        """Return how easily records are found by their class."""
        sizes = np.array(sorted(self._classes), dtype=np.int64)
        return class_risks(sizes, np.array([self._classes[size] for size in sizes.tolist()], dtype=np.int64))


@dataclass(frozen=True, slots=True, eq=False)
class Findings:
    """What the plan of one region adds to the whole; it grows with values and ranges, not with records."""

    n_records: int
    n_withheld: int
    reached: tuple[Guarantee, ...]
    utility: Pool
    sizes: SizeTally
    sizes_before: SizeTally
    warnings: tuple[str, ...]
    generalized: Mapping[str, int]  # records, by sensitive attributes
    published: tuple[IntArray, ...]  # the leaves of each attribute that some published record has
    quasi: tuple[LeafRanges | None, ...]  # what numbers of rows mean; None: they are indices of values
    sensitive: tuple[SensitiveFindings, ...]
    levels: Mapping[str, LevelTally]  # by attributes that have labels
    shares: Mapping[str, ShareTally]  # by sensitive attributes
    labelled: pa.RecordBatch | None  # rows with generalized values, their own values, and how many records these are

    @classmethod
    def of(
        cls,
        policy: Policy,
        problem: Problem,
        plan: Plan,
        sizes_before: IntArray,
        quasi: Sequence[LeafRanges | None],
        sensitive: Sequence[SensitiveFindings],
        labelled: pa.RecordBatch | None = None,
    ) -> Findings:
        """Take all of it from a plan; *sizes_before* are those of the classes by the values as they were."""
        utility, sizes, before = Pool(), SizeTally(), SizeTally()
        utility.add(problem, plan)
        sizes.add(plan.sizes[plan.sizes > 0])
        before.add(sizes_before)
        cell, class_of, _, _ = plan.pieces(problem.cells.counts)
        shown = cell[class_of >= 0]
        return cls(
            n_records=problem.cells.n_records,
            n_withheld=plan.n_withheld,
            reached=achieved(problem, plan, policy),
            utility=utility,
            sizes=sizes,
            sizes_before=before,
            warnings=plan.warnings,
            generalized=plan.generalized_sensitive(problem),
            published=tuple(kernels.occurring(codes[shown]) for codes in problem.cells.codes),
            quasi=tuple(quasi),
            sensitive=tuple(sensitive),
            levels=plan_levels(problem, plan) if policy.method.publishes == "classes" else {},
            shares={one.name: class_shares(problem, plan, place) for place, one in enumerate(problem.sensitive)},
            labelled=labelled,
        )


@dataclass(slots=True, eq=False)
class Pooled:
    """What regions add up to: as if they had been planned at once with these classes."""

    trees: Sequence[Tree]
    n_quasi: int
    n_regions: int = 0
    n_records: int = 0
    n_withheld: int = 0
    reached: tuple[Guarantee, ...] = ()  # the worst of each of the policy's models
    utility: Pool = field(default_factory=Pool)
    sizes: SizeTally = field(default_factory=SizeTally)
    sizes_before: SizeTally = field(default_factory=SizeTally)
    warnings: dict[str, None] = field(default_factory=dict)
    generalized: Counter[str] = field(default_factory=Counter)
    published: list[BoolArray] = field(default_factory=list)  # (n_leaves,) of each attribute, quasi ones first
    levels: dict[str, LevelTally] = field(default_factory=dict)
    shares: dict[str, ShareTally] = field(default_factory=dict)
    labelled: list[pa.RecordBatch] = field(default_factory=list)  # under the numbers of the whole table

    def __post_init__(self) -> None:
        self.published = [np.zeros(tree.attribute.taxonomy.n_leaves, dtype=np.bool_) for tree in self.trees]

    def add(self, found: Findings) -> None:
        """Take one region."""
        self.n_regions += 1
        self.n_records += found.n_records
        self.n_withheld += found.n_withheld
        before = self.reached or found.reached
        self.reached = tuple(_worse(*both) for both in zip(before, found.reached, strict=True))
        self.utility.join(found.utility)
        self.sizes.join(found.sizes)
        self.sizes_before.join(found.sizes_before)
        self.warnings |= dict.fromkeys(found.warnings)
        self.generalized.update(found.generalized)
        for leaves, shown in zip(self.published, found.published, strict=True):
            leaves[shown] = True
        for name, tally in found.levels.items():
            self.levels[name] = self.levels[name] + tally if name in self.levels else tally
        for name, shares in found.shares.items():
            self.shares[name] = self.shares[name] + shares if name in self.shares else shares


def _worse(one: Guarantee, other: Guarantee) -> Guarantee:
    worse = min if one.model.achieved_is == "at least" else max
    return Guarantee(one.model, worse(one.achieved, other.achieved))
