"""Anatomy: unchanged quasi values, separated from the sensitive values by buckets of different ones."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from pydantic import Field

from shoal.core import kernels
from shoal.core.arrays import IntArray
from shoal.core.errors import UnreachableError
from shoal.core.kernels import same_rows
from shoal.core.progress import Progress
from shoal.methods.base import SHOWS_VALUES, Method
from shoal.models.base import ClassHistograms, ValueModel
from shoal.plan.problem import Problem
from shoal.plan.slices import Part, Pieces, SlicedPlan

_QUASI_ARE_EXACT = (
    "quasi values are published unchanged: an adversary who has them finds out who is in the table, and guarantees are "
    "about the sensitive value only"
)
_NOTHING_IS_HIDDEN = (
    "the models allow buckets with a single sensitive value, so a bucket may be a single record and hide nothing"
)
_MOST_OF_A_VALUE = 40  # in one bucket; larger buckets are not much more even


class Anatomy(Method):
    """No bucket has a sensitive value more often than the models allow, and only once if that is possible.

    Xiao and Tao, "Anatomy: simple and effective privacy preservation", VLDB 2006. Records are sorted by sensitive
    value, in random order within a value, and go to n / l buckets in turn. A value with at most as many records as
    there are buckets is in no bucket twice. If a value is more frequent, larger buckets may still hold it more than
    once: at most r times in a bucket of m records.
    """

    name = "anatomy"
    title = "publish quasi values unchanged, separately from the sensitive values of small buckets"
    form = "slices"
    makes_parts = True

    two_tables: bool = Field(
        default=False,
        description="also publish the quasi table and the table of sensitive values as separate files",
    )

    @property
    def as_two_tables(self) -> bool:
        return self.two_tables

    def refuses(self, problem: Problem) -> str | None:
        """Refuse anything but one sensitive attribute and models that require evenly distributed values."""
        if len(problem.sensitive) != 1:
            return f"it takes one sensitive attribute, the policy has {len(problem.sensitive)}; slicing takes several"
        for requirement in problem.requirements:
            model = requirement.model
            if model.name == "k-anonymity" or model.of_parts:
                return (
                    f"it publishes quasi values unchanged, so {model.name} cannot hold; slicing with "
                    "column-frequency generalizes parts"
                )
            judges = isinstance(model, ValueModel) and model.judges_beliefs
            if not judges or model.relative_to_whole or model.knows_values:
                return f"buckets of different values cannot serve {model.name}; use slicing with alpha: 1, or mondrian"
        return super().refuses(problem)

    def plan(self, problem: Problem, rng: np.random.Generator, progress: Progress) -> SlicedPlan:
        """Return the buckets as a plan of two parts."""
        with progress.step("dealing", problem.cells.n_records, unit="records") as step:
            counts, (leaves,) = problem.cells.counts, problem.cells.codes[len(problem.quasi) :]
            by_value = kernels.sum_groups(leaves.astype(np.int32), counts, problem.sensitive[0].taxonomy.n_leaves)
            size, n_buckets = _choose_deal(problem, by_value)
            cell = np.repeat(np.arange(problem.cells.n_cells), counts)[rng.permutation(int(counts.sum()))]
            order = rng.permutation(len(by_value)).astype(np.int32)
            _, ordered = kernels.group_items(order[leaves[cell]], len(by_value))
            bucket = (np.arange(len(ordered)) % n_buckets).astype(np.int32)
            step.advance(problem.cells.n_records)
        pieces = Pieces(cell[ordered], bucket, np.ones(len(ordered), dtype=np.int64))
        plan = SlicedPlan.of_pieces(_parts(problem), counts, pieces, n_buckets)
        return replace(plan, warnings=(_QUASI_ARE_EXACT,) if size > 1 else (_QUASI_ARE_EXACT, _NOTHING_IS_HIDDEN))


def _parts(problem: Problem) -> tuple[Part, Part]:
    first, values = same_rows(problem.value_codes[: len(problem.quasi)])
    quasi = Part(tuple(range(len(problem.quasi))), (), problem.carried, values, len(first))
    return quasi, Part((), (0,), (), np.zeros(problem.cells.n_cells, dtype=np.int32), 1)


def _choose_deal(problem: Problem, by_value: IntArray) -> tuple[int, int]:
    """Return the size and number of the smallest buckets that hold all records, or raise.

    Records are never withheld instead, because all of them would have the most frequent value.
    """
    asked = [(requirement.model, requirement.whole(problem.cells.counts)) for requirement in problem.requirements]

    def hold(bucket: IntArray) -> bool:
        return all(bool(model.holds(ClassHistograms.of([bucket]), whole)[0]) for model, whole in asked)

    present, name = (by_value > 0).astype(np.int64), problem.sensitive[0].name
    if not hold(present):
        models = ", ".join(model.subject for model, _ in asked)
        raise UnreachableError(f"{models}: even a bucket with all {present.sum()} values of {name!r} does not reach it")
    for most in range(1, min(int(by_value.max()), _MOST_OF_A_VALUE) + 1):
        size, n_buckets = _deal(by_value, most, hold)
        if by_value.max() <= most * n_buckets:
            return size, n_buckets
    if hold(by_value):
        return int(by_value.sum()), 1
    l, n_records, most = _deal(by_value, 1, hold)[0], int(by_value.sum()), int(by_value.max())
    raise UnreachableError(
        f"anatomy: a bucket needs {l} different values of {name!r}, but the most frequent one has {most:,} of "
        f"{n_records:,} records, more than 1/{l}; buckets of {n_records // most} are reachable"
        + (f"; {SHOWS_VALUES}" if problem.max_withheld else "")
    )


def _deal(by_value: IntArray, most: int, hold: Callable[[IntArray], bool]) -> tuple[int, int]:
    """Return the size and number of buckets that hold for any composition with at most *most* records per value."""
    n_present = int((by_value > 0).sum())

    def hold_always(size: int) -> bool:
        # the worst bucket of a size has the smallest number of values, because the models require even values; larger
        # buckets are more even, so if one size holds, so do all larger ones
        return hold(np.clip(size - most * np.arange(len(by_value)), 0, most))

    size = bisect_left(range(1, most * n_present), True, key=hold_always) + 1
    return size, _number_of_buckets(by_value, size, most)


def _number_of_buckets(by_value: IntArray, size: int, most: int = 1) -> int:
    """Return the maximum number of buckets with *size* records each, at most *most* of them with the same value.

    >>> _number_of_buckets(np.array([4, 3, 2]), 2), _number_of_buckets(np.array([9, 2, 1]), 2)
    (4, 3)
    >>> _number_of_buckets(np.array([4, 3, 3]), 5, 2)
    2
    """
    # sum(min(count, most n)) - n size is concave in n and 0 at 0, so all feasible n precede the infeasible ones
    numbers = range(1, int(by_value.sum()) // size + 1)
    return bisect_left(numbers, True, key=lambda n: int(np.minimum(by_value, most * n).sum()) < n * size)
