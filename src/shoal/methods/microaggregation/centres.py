"""What groups of a table's records publish of a quasi attribute: rounded averages, days, most frequent values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from shoal.core.arrays import AnyIntArray, BoolArray, CodeArray, IntArray
from shoal.core.errors import InputError
from shoal.methods.microaggregation.shared import Grouping, group_means, group_medians, group_modes
from shoal.plan.problem import Problem

_FARTHEST = 2.0**52  # steps from 0, beyond which floats skip some


@dataclass(frozen=True, slots=True)
class Averages:
    """How numbers are averaged and written down."""

    numbers: Literal["mean", "median"]
    decimals: int

    @property
    def step(self) -> float:
        """The difference between two neighbouring numbers that can be published."""
        return float(10.0**-self.decimals)


@dataclass(frozen=True, slots=True, eq=False)
class Centres:
    """What each group publishes of one attribute, in whole numbers: equal ones are published as equal values."""

    steps: IntArray  # (n_groups,) multiples of 10**-decimals, days since 1970, or leaves
    missing: BoolArray  # (n_groups,) whether the group publishes that the value is missing

    def codes(self) -> CodeArray:
        """Return (n_groups,) codes from 0 on that differ wherever what is published differs."""
        known = np.where(self.missing, 0, self.steps - self.steps.min() + 1)
        return np.unique(known, return_inverse=True)[1].reshape(-1).astype(np.int32)


def centres(problem: Problem, place: int, cells: AnyIntArray, grouping: Grouping, averages: Averages) -> Centres:
    """Return the centre of each group of records, given their *cells*, for the quasi attribute at *place*.

    What a group publishes depends on nothing but which records are in it and, where several values of a category are
    equally frequent, on how frequent these are among all records given. A number that is missing must be missing in
    all records of a group or in none.
    """
    attribute, column = problem.quasi[place], problem.numbers[place]
    if column is None:
        leaves = group_modes(problem.quasi_codes[place][cells].astype(np.int32), grouping)
        missing = np.zeros(grouping.n_groups, dtype=np.bool_)
        if attribute.taxonomy.missing is not None:
            missing = leaves == attribute.taxonomy.missing
        return Centres(leaves.astype(np.int64), missing)
    average = group_means if averages.numbers == "mean" else group_medians
    found = average(column[cells], grouping)
    missing = np.isnan(found)
    decimals = averages.decimals if attribute.taxonomy.scale.kind == "number" else 0
    steps = np.rint(np.where(missing, 0.0, found) * 10.0**decimals)
    if (np.abs(steps) > _FARTHEST).any():
        raise InputError(f"column {attribute.name!r} has numbers too large for {decimals} decimals; ask for fewer")
    return Centres(steps.astype(np.int64), missing)
