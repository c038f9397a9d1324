"""The distance between a release and its source in the shares of values, pairs and triples of values."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import reduce
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa

from shoal.core.arrays import AnyIntArray, FloatArray, IntArray
from shoal.core.errors import InputError
from shoal.core.kernels import pack
from shoal.core.wording import count_noun, write_kept
from shoal.plan.counted import CountedCells, LocatedBatch
from shoal.plan.problem import Attribute, Problem
from shoal.sources.base import Source
from shoal.taxonomies.parse import decimal_numbers
from shoal.taxonomies.tree import Taxonomy
from shoal.utility.rows import Rows, Tables, sum_weights

MOST_BINS = 20  # of an attribute
MOST_SETS = 800  # of attributes, of each size
FEWEST_SETS = 20
_MOST_WORK = 1 << 25  # cells times sets, of each size
LARGEST = 3  # attributes in a set
BELOW = (
    "The records with values score below the shuffled columns: relations between columns are further from the truth "
    "than if the columns were independent."
)
UNWEIGHTED = "The release has no survey weights: its tables count every record once, the source's tables by weight."
_MOST_GROUPS = 8 * MOST_BINS  # of a taxonomy, that bins are made of


@dataclass(frozen=True, slots=True)
class Marginals:
    """Scores of sets of this many attributes: 1000 times the mean of ``Tables.measure_kept``."""

    size: int
    n_sets: int  # that were compared
    n_all: int  # that exist
    n_rows: int  # of the source that were compared, and at most as many of the release
    n_all_rows: int  # of the source
    weighted: bool  # whether records count by their survey weights
    release: float
    known: float  # among the records that have values; labels are spread over the values that they cover
    shuffled: float  # of the source with every column shuffled independently
    fresh: float  # of another sample, as large as the source, of the same population

    @property
    def below_shuffled(self) -> bool:
        """Whether independently shuffled columns would be closer to the source; never for single columns.

        The comparison uses records that have values, because it is about relations and not about suppression.
        """
        return self.size > 1 and self.known < self.shuffled

    @classmethod
    def of(cls, entry: Mapping[str, Any]) -> Marginals:
        return cls(**{field.name: entry[field.name] for field in fields(cls)})

    def as_dict(self) -> dict[str, object]:
        return asdict(self) | {"below_shuffled": self.below_shuffled}


def describe_marginals(found: Sequence[Mapping[str, Any]]) -> list[str]:
    """Describe the scores of the largest sets, given the scores of all sizes as JSON.

    >>> describe_marginals([Marginals(3, 10, 84, 9000, 9000, False, 729.4, 812.0, 786.0, 958.6).as_dict()])[0]
    'Kept of tables of 3 columns: 72.9% (81.2% among records with values); columns shuffled independently would keep
    78.6%, a fresh sample 95.9% (10 of 84 tables compared).'
    """
    if not found:
        return ["The release was not compared with the source: no column can be compared."]
    last = found[-1]
    parts = (("n_sets", "n_all", "tables compared"), ("n_rows", "n_all_rows", "records, drawn at random"))
    said = [f"{last[part]:,} of {last[whole]:,} {what}" for part, whole, what in parts if last[part] < last[whole]]
    drawn = f" ({'; '.join(said)})" if said else ""
    columns = ("columns" if last["size"] > 1 else "column") + (", by survey weights" if last["weighted"] else "")
    kept, known = write_kept(last["release"]), write_kept(last.get("known", last["release"]))
    among = f" ({known} among records with values)" if known != kept else ""
    headline = (
        f"Kept of tables of {last['size']} {columns}: {kept}{among}; columns shuffled independently "
        f"would keep {write_kept(last['shuffled'])}, a fresh sample {write_kept(last['fresh'])}{drawn}."
    )
    return [headline, BELOW] if last["below_shuffled"] else [headline]


@dataclass(frozen=True, slots=True)
class Bins:
    """The bins of attributes, chosen by the source, and its tables over them."""

    edges: tuple[IntArray, ...]  # n_attributes x (n_bins + 1,)
    bins: tuple[AnyIntArray, ...]  # n_attributes x (n_cells,)
    records: FloatArray  # (n_cells,)

    @property
    def n_attributes(self) -> int:
        return len(self.bins)

    def count(self, places: Sequence[int], records: FloatArray | None = None) -> FloatArray:
        """Return the source's table of these attributes, one axis each; *records* replaces the records of each cell."""
        shape = [len(self.edges[place]) - 1 for place in places]
        key = pack([self.bins[place] for place in places], shape)
        return sum_weights(key, self.records if records is None else records, math.prod(shape)).reshape(shape)


def choose_bins(attributes: Sequence[Attribute], codes: Sequence[AnyIntArray], records: FloatArray) -> Bins:
    """Choose the bins of attributes from the cells' codes and their numbers of *records*."""
    edges = tuple(
        find_edges(one.taxonomy, sum_weights(own, records, one.taxonomy.n_leaves))
        for own, one in zip(codes, attributes, strict=True)
    )
    bins = tuple(np.searchsorted(ends, own, side="right") - 1 for ends, own in zip(edges, codes, strict=True))
    return Bins(edges, bins, records)


@dataclass(frozen=True, slots=True)
class Comparison(Bins):
    """The tables of source and release over the same bins of each attribute."""

    published: Tables

    @classmethod
    def of(cls, problem: Problem, rows: Rows, weights: FloatArray | None = None) -> Comparison:
        records = problem.cells.counts.astype(np.float64) if weights is None else problem.cells.counts * weights
        chosen = choose_bins((*problem.quasi, *problem.sensitive), problem.cells.codes, records)
        return cls(chosen.edges, chosen.bins, records, rows.read_labels().tabulate(chosen.edges))


def score_marginals(
    problem: Problem, rows: Rows, weights: FloatArray | None = None, *, most_sets: int | None = None, seed: int = 0
) -> tuple[Marginals, ...]:
    """Return the scores of sets of one, two and three attributes; the last entry is for the largest sets.

    ``view_plan`` returns the *rows*. *weights* are the mean survey weights of the records of each cell, if there are
    any; ``view_plan`` needs them too. Quasi and sensitive attributes are compared, each in at most 20 bins.
    """
    compared = Comparison.of(problem, rows, weights)
    reference = Reference(compared, problem.cells.counts, weighted=weights is not None, most_sets=most_sets, seed=seed)
    return reference.score(compared.published)


class Reference:
    """The tables of a source over its bins, and how far shuffled columns and a fresh sample are from them.

    All sets of a size are compared or, if there are more than *most_sets*, that many random ones: 800, or fewer for
    tables of more than 40,000 cells. *counts* are the numbers of records in each cell, regardless of weights.

    Two random halves of the source are at a distance d from each other; samples as large as the source have half the
    variance, so they are at about d / sqrt(2).
    """

    def __init__(
        self,
        source: Bins,
        counts: IntArray,
        *,
        n_all_rows: int | None = None,
        weighted: bool = False,
        most_sets: int | None = None,
        seed: int = 0,
    ) -> None:
        rng, n = np.random.default_rng(seed), source.n_attributes
        if most_sets is None:
            most_sets = min(max(_MOST_WORK // max(len(counts), 1), FEWEST_SETS), MOST_SETS)
        self._source, self._weighted, self._n_rows = source, weighted, int(counts.sum())
        self._n_all_rows = self._n_rows if n_all_rows is None else n_all_rows
        half = source.records * (rng.binomial(counts, 0.5) / np.maximum(counts, 1))
        alone = [source.count((place,)) for place in range(n)]

        def compare(places: tuple[int, ...]) -> tuple[float, float]:
            true, part = source.count(places), source.count(places, half)
            return (
                measure_distance(reduce(np.multiply.outer, [alone[place] for place in places]), true),
                measure_distance(part, true - part) / math.sqrt(2),
            )

        self._sets = [list(choose_sets(n, size, most_sets, rng)) for size in range(1, min(LARGEST, n) + 1)]
        distances = [np.mean([compare(places) for places in sets], axis=0) for sets in self._sets]
        self._baselines = [(1000 * (1 - mean)).tolist() for mean in distances]

    def score(self, published: Tables) -> tuple[Marginals, ...]:
        found = []
        for sets, (shuffled, fresh) in zip(self._sets, self._baselines, strict=True):
            kept = [published.measure_kept(places, self._source.count(places)) for places in sets]
            release, known = (1000 * float(mean) for mean in np.mean(kept, axis=0))
            size = len(sets[0])
            n_all, rows = math.comb(self._source.n_attributes, size), (self._n_rows, self._n_all_rows)
            found.append(Marginals(size, len(sets), n_all, *rows, self._weighted, release, known, shuffled, fresh))
        return tuple(found)


def average_weights(batches: Iterable[LocatedBatch], counted: CountedCells, name: str) -> FloatArray:
    """Return (n_cells,) the mean survey weight in column *name* of the records of each counted cell."""
    sums = np.zeros(len(counted.run.counts))
    for located in batches:
        sums += sum_weights(located.cells, read_weights(located.batch[name], name), len(sums))
    return np.asarray(sums / counted.run.counts)


def read_weights(column: pa.Array | pa.ChunkedArray, name: str) -> FloatArray:
    """Return (n_rows,) the survey weights of records; values that are not numbers of at least 0 are an error.

    >>> read_weights(pa.array(["12.5", "3"]), "weight")
    array([12.5,  3. ])
    """
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    weights, numeric = decimal_numbers(whole)
    wrong = int((~(numeric & (weights >= 0) & (weights < math.inf))).sum())
    if wrong:
        raise InputError(
            f"column {name!r} has the role weight, but {wrong:,} of the {count_noun(len(weights), 'value')} read are "
            "missing, negative or not numbers; correct them, or give the column another role"
        )
    return weights


def check_weights(source: Source, weight: str) -> None:
    """Raise unless all weights are at least 0 and one is positive."""
    if not sum(read_weights(batch.column(0), weight).sum() for batch in source.batches([weight])):
        raise InputError(f"all survey weights, in column {weight!r}, are 0; correct them, or give it another role")


def choose_sets(n_attributes: int, size: int, most: int, rng: np.random.Generator) -> Iterator[tuple[int, ...]]:
    """Yield all sets of this size, or *most* different random ones if there are more."""
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
    """Return the total variation distance of two tables: 0 if their shares are equal, 1 if no cell is in both.

    >>> measure_distance(np.array([3.0, 1.0]), np.array([1.0, 1.0])), measure_distance(np.zeros(2), np.ones(2))
    (0.25, 1.0)
    """
    if not one.sum() > 0 or not other.sum() > 0:
        return 1.0
    return float(np.abs(one / one.sum() - other / other.sum()).sum() / 2)


def find_edges(taxonomy: Taxonomy, records: FloatArray) -> IntArray:
    """Return the edges of the bins of an attribute's leaves.

    If there are few leaves, each is a bin. Otherwise bins end at values or, if there are very many, at groups of the
    taxonomy (round numbers, months, prefixes), and have about the same number of records each. Missing values have
    their own bin.

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
