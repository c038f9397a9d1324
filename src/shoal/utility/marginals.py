"""How near the shares of values, pairs and triples of values in a release are to those of its source."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import reduce
from itertools import combinations
from typing import Any

import numpy as np

from shoal.core.arrays import AnyIntArray, FloatArray, IntArray
from shoal.core.errors import InputError
from shoal.plan.counted import CountedCells, LocatedBatch
from shoal.plan.problem import Attribute, Problem
from shoal.taxonomies.parse import decimal_numbers
from shoal.taxonomies.tree import Taxonomy
from shoal.utility.rows import Rows, Tables, sum_weights

MOST_BINS = 20  # of an attribute
MOST_SETS = 800  # of attributes, of each size
FEWEST_SETS = 20
_MOST_WORK = 1 << 25  # cells times sets, of each size
LARGEST = 3  # attributes in a set
BELOW = (
    "That is below the shuffled columns: relations between columns are further from the truth than if there were none."
)
UNWEIGHTED = "Tables are compared by records, not by survey weights: these do not stay with their records in this run."
_MOST_GROUPS = 8 * MOST_BINS  # of a taxonomy, that bins are made of


@dataclass(frozen=True, slots=True)
class Marginals:
    """Scores of sets of so many attributes: 1000 (1 - mean total variation distance from the source)."""

    size: int
    n_sets: int  # that were looked at
    n_all: int  # that there are
    weighted: bool  # whether records count by their survey weights
    release: float
    shuffled: float  # of the source with every column shuffled independently
    fresh: float  # of another sample, as large as the source, of the same population

    @property
    def below_shuffled(self) -> bool:
        """Whether columns that have nothing to do with each other would be nearer; single columns never would."""
        return self.size > 1 and self.release < self.shuffled

    def as_dict(self) -> dict[str, Any]:
        """Return all of it for JSON."""
        return asdict(self) | {"below_shuffled": self.below_shuffled}


def describe_marginals(found: Sequence[Mapping[str, Any]]) -> list[str]:
    """Say what the scores of the largest sets are, given those of all sizes as JSON has them.

    >>> describe_marginals([Marginals(3, 10, 84, False, 729.4, 786.0, 958.6).as_dict()])[0]
    'Tables of 3 columns score 729 of 1,000 against the source; columns shuffled independently would score 786,
    a fresh sample 959 (10 of 84 tables compared).'
    """
    if not found:
        return ["Its tables were not compared with those of the source: only sums are left of a table so large."]
    last = found[-1]
    drawn = f" ({last['n_sets']:,} of {last['n_all']:,} tables compared)" if last["n_sets"] < last["n_all"] else ""
    columns = ("columns" if last["size"] > 1 else "column") + (", by survey weights," if last["weighted"] else "")
    said = (
        f"Tables of {last['size']} {columns} score {last['release']:.0f} of 1,000 against the source; columns shuffled "
        f"independently would score {last['shuffled']:.0f}, a fresh sample {last['fresh']:.0f}{drawn}."
    )
    return [said, BELOW] if last["below_shuffled"] else [said]


@dataclass(frozen=True, slots=True)
class Bins:
    """The bins of attributes, chosen by the source, and its tables over them."""

    edges: tuple[IntArray, ...]  # n_attributes x (n_bins + 1,)
    bins: tuple[IntArray, ...]  # n_attributes x (n_cells,)
    records: FloatArray  # (n_cells,)

    @property
    def n_attributes(self) -> int:
        """Number of attributes that are compared."""
        return len(self.bins)

    def count(self, places: Sequence[int], records: FloatArray | None = None) -> FloatArray:
        """Return the source's table of these attributes, one axis each, or that of some *records* of each cell."""
        shape = [len(self.edges[place]) - 1 for place in places]
        key = np.ravel_multi_index([self.bins[place] for place in places], shape)
        return sum_weights(key, self.records if records is None else records, math.prod(shape)).reshape(shape)


def choose_bins(attributes: Sequence[Attribute], codes: Sequence[AnyIntArray], records: FloatArray) -> Bins:
    """Choose the bins of attributes whose values *records* of each cell have."""
    edges = tuple(
        find_edges(one.taxonomy, sum_weights(own, records, one.taxonomy.n_leaves))
        for own, one in zip(codes, attributes, strict=True)
    )
    bins = tuple(np.searchsorted(ends, own, side="right") - 1 for ends, own in zip(edges, codes, strict=True))
    return Bins(edges, bins, records)


@dataclass(frozen=True, slots=True)
class Comparison(Bins):
    """The tables of source and release over the same bins of each attribute, labels read as the release suggests."""

    published: Tables

    @classmethod
    def of(cls, problem: Problem, rows: Rows, weights: FloatArray | None = None) -> Comparison:
        """Choose the bins by the source."""
        records = problem.cells.counts.astype(np.float64) if weights is None else problem.cells.counts * weights
        chosen = choose_bins((*problem.quasi, *problem.sensitive), problem.cells.codes, records)
        return cls(chosen.edges, chosen.bins, records, rows.read_labels().tabulate(chosen.edges))


def score_marginals(
    problem: Problem, rows: Rows, weights: FloatArray | None = None, *, most_sets: int | None = None, seed: int = 0
) -> tuple[Marginals, ...]:
    """Return the scores of sets of one, two and three attributes; the last are those of the largest sets.

    *rows* is what ``view_plan`` says that a plan publishes; *weights* are those that records of each cell have in a
    survey, if there are any: give them to both. Quasi and sensitive attributes are compared, each in at most 20 bins.
    Of each size all sets are looked at or, if they are more than *most_sets*, that many at random: 800, or fewer for
    tables of more than 40,000 cells.

    Two random halves of the source are at a distance d from each other; samples as large as the source, with half the
    variance, are at about d / sqrt(2).
    """
    rng = np.random.default_rng(seed)
    if most_sets is None:
        most_sets = min(max(_MOST_WORK // max(problem.cells.n_cells, 1), FEWEST_SETS), MOST_SETS)
    compared, counts = Comparison.of(problem, rows, weights), problem.cells.counts
    half = compared.records * (rng.binomial(counts, 0.5) / np.maximum(counts, 1))
    alone = [compared.count((place,)) for place in range(compared.n_attributes)]

    def compare(places: tuple[int, ...]) -> tuple[float, float, float]:
        true, part = compared.count(places), compared.count(places, half)
        return (
            measure_distance(compared.published.expect(places), true),
            measure_distance(reduce(np.multiply.outer, [alone[place] for place in places]), true),
            measure_distance(part, true - part) / math.sqrt(2),
        )

    found = []
    for size in range(1, min(LARGEST, compared.n_attributes) + 1):
        sets = list(choose_sets(compared.n_attributes, size, most_sets, rng))
        scores = 1000 * (1 - np.mean([compare(places) for places in sets], axis=0))
        n_all = math.comb(compared.n_attributes, size)
        found.append(Marginals(size, len(sets), n_all, weights is not None, *scores.tolist()))
    return tuple(found)


def average_weights(batches: Iterable[LocatedBatch], counted: CountedCells, name: str) -> FloatArray:
    """Return (n_cells,) the mean survey weight, in a column of this name, of the records of each counted cell."""
    sums = np.zeros(len(counted.run.counts))
    for located in batches:
        weights, numeric = decimal_numbers(located.batch[name])
        sums += sum_weights(located.cells, np.where(numeric & (weights >= 0), weights, np.nan), len(sums))
    if not 0 < sums.sum() < math.inf:
        raise InputError(
            f"survey_weight: {name!r} must be a number of at least 0 in every record, and more than 0 in one; name "
            "another column, or none"
        )
    return np.asarray(sums / counted.run.counts)


def choose_sets(n_attributes: int, size: int, most: int, rng: np.random.Generator) -> Iterator[tuple[int, ...]]:
    """Yield all sets of so many attributes, or different ones at random if there are more than *most*."""
    if math.comb(n_attributes, size) <= most:
        yield from combinations(range(n_attributes), size)
        return
    known: set[tuple[int, ...]] = set()
    while len(known) < most:
        drawn = tuple(sorted(rng.choice(n_attributes, size, replace=False).tolist()))
        if drawn not in known:
            known.add(drawn)
            yield drawn


def measure_distance(one: FloatArray, other: FloatArray) -> float:
    """Return the total variation distance of two tables of counts: 0 if shares are equal, 1 if no cell is common.

    >>> measure_distance(np.array([3.0, 1.0]), np.array([1.0, 1.0])), measure_distance(np.zeros(2), np.ones(2))
    (0.25, 1.0)
    """
    if not one.sum() > 0 or not other.sum() > 0:
        return 1.0
    return float(np.abs(one / one.sum() - other / other.sum()).sum() / 2)


def find_edges(taxonomy: Taxonomy, records: FloatArray) -> IntArray:
    """Return where the bins of an attribute's leaves begin and end.

    Leaves are bins if they are few. Else bins end where values do or, if these are very many, groups of the taxonomy
    (round numbers, months, prefixes), and have about as many records each. Missing values are a bin of their own.

    >>> from shoal.taxonomies.builders.intervals import IntervalsTaxonomy
    >>> find_edges(IntervalsTaxonomy(min=0, max=999, widths=(50, 500)).build(None), np.ones(1000)).tolist()[:5]
    [0, 50, 100, 150, 200]
    """
    n_values = taxonomy.n_leaves - (taxonomy.missing is not None)
    edges = np.arange(1, n_values)
    if n_values > MOST_BINS:
        for height in range(taxonomy.height):
            nodes = taxonomy.node_at(height)[:n_values]
            groups = np.flatnonzero(nodes[1:] != nodes[:-1]) + 1
            if 0 < len(groups) < _MOST_GROUPS:
                edges = groups
                break
        below = np.cumsum(records)[edges - 1]
        wanted = records[:n_values].sum() * np.arange(1, MOST_BINS) / MOST_BINS
        edges = edges[np.unique(np.minimum(np.searchsorted(below, wanted), len(edges) - 1))]
    return np.unique([0, *edges, n_values, taxonomy.n_leaves])
