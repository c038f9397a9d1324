"""query-error: how wrong counts are that somebody takes from the release."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from shoal.core.arrays import FloatArray, IntArray
from shoal.plan.plan import Plan
from shoal.plan.problem import Problem
from shoal.utility.base import ExpensiveMeasure
from shoal.utility.rows import Rows, answers, original_rows, rows_published

N_SETS = 50
N_IN_SET = 200
MOST_QUASI = 3
SANITY = 0.001


@dataclass(frozen=True, slots=True, eq=False)
class Queries:
    """COUNT queries over one set of attributes: records that lie in the leaf ranges ``starts:stops`` of all."""

    places: IntArray  # (n_attributes,)
    starts: IntArray  # (n_attributes, n_queries)
    stops: IntArray  # (n_attributes, n_queries)

    @classmethod
    def draw(cls, problem: Problem, n_queries: int, rng: np.random.Generator) -> Queries:
        """Draw one to three quasi attributes and, if there is one, a sensitive attribute; then ranges of leaves.

        Attributes and their number are equally likely, and so are all ranges of an attribute's leaves.
        """
        n_quasi, n_sensitive = len(problem.quasi), len(problem.sensitive)
        n_asked = int(rng.integers(1, min(n_quasi, MOST_QUASI) + 1))
        places = rng.choice(n_quasi, n_asked, replace=False)
        if n_sensitive:
            places = np.append(places, rng.integers(n_quasi, n_quasi + n_sensitive))
        attributes = (*problem.quasi, *problem.sensitive)
        leaves = np.array([attributes[place].taxonomy.n_leaves for place in places])[:, np.newaxis]
        one = rng.integers(0, leaves + 1, size=(len(places), n_queries))
        other = rng.integers(0, leaves, size=(len(places), n_queries))
        other += other >= one  # a second edge, different from the first
        return cls(places, np.minimum(one, other), np.maximum(one, other))

    def answer(self, rows: Rows) -> FloatArray:
        """Return (n_queries,) the count that the rows lead one to expect."""
        few = rows.project(self.places.tolist())
        longest = max(len(column.lo) for column in few.columns)
        shares = np.zeros((len(self.places), self.starts.shape[1], longest))
        for j, column in enumerate(few.columns):
            shares[j, :, : len(column.lo)] = column.within(self.starts[j], self.stops[j])
        return answers(np.stack([column.item for column in few.columns]), shares, few.records)


class QueryError(ExpensiveMeasure):
    """The median relative error of random COUNT queries that are answered from the release.

    10,000 queries over one to three quasi attributes and a sensitive one, each attribute in a random range of leaves:
    200 for each of 50 random sets of attributes.
    The answer spreads records evenly over the leaves of their published ranges. The error is relative to the true
    count or, if that is smaller, to 0.1 % of the records, the sanity bound of Garofalakis and Gibbons (2002).
    """

    name = "query-error"
    title = "median relative error of 10,000 random COUNT queries"
    better = "lower"
    figure_titles = {"query-error-95": "relative error that 95 % of 10,000 random COUNT queries stay under"}  # noqa: RUF012

    def of(self, problem: Problem, plan: Plan) -> float:
        """Return the median over a fixed draw of queries."""
        return self.figures(problem, plan, np.random.default_rng(0))[self.name]

    def figures(self, problem: Problem, plan: Plan, rng: np.random.Generator) -> dict[str, float]:
        """Return the median and the 95th percentile."""
        after = rows_published(problem, plan)
        return query_errors(problem, lambda queries: queries.answer(after), rng)


def query_errors(
    problem: Problem, answered: Callable[[Queries], FloatArray], rng: np.random.Generator
) -> dict[str, float]:
    """Return the median and the 95th percentile of the errors of a release that *answered* asks."""
    before = original_rows(problem)
    errors = []
    for _ in range(N_SETS):
        queries = Queries.draw(problem, N_IN_SET, rng)
        true = queries.answer(before)
        errors.append(np.abs(answered(queries) - true) / np.maximum(true, SANITY * problem.cells.n_records))
    median, high = np.quantile(np.concatenate(errors), [0.5, 0.95]).tolist()
    return {QueryError.name: median, "query-error-95": high}
