"""Attribute partition: which attributes form a part, by hand, one each, or by correlation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from shoal.core.arrays import AnyIntArray, BoolArray, CodeArray, FloatArray, IntArray
from shoal.core.errors import PolicyError, did_you_mean
from shoal.core.kernels import pam
from shoal.core.wording import count_noun
from shoal.plan.problem import Problem
from shoal.plan.slices import Part, link_parts
from shoal.taxonomies.tree import Taxonomy

if TYPE_CHECKING:
    from shoal.methods.slicing import Slicing

Places = tuple[tuple[int, ...], ...]
_DENSE_PAIRS = 1 << 20  # largest contingency table that is counted in full
_DIGITS = 12  # of correlations; rounding must not decide between equally correlated attributes
_WHERE = "method.slicing.parts"
_COLUMNS = 2
INTERVALS = 10  # of numbers, to measure correlations only


@dataclass(frozen=True, slots=True, eq=False)
class Partition:
    """The attributes of each part: quasi-identifiers and sensitive ones by position, insensitive ones by name."""

    places: Places
    carried: tuple[tuple[str, ...], ...]  # (n_parts,)
    search: Mapping[str, Any]  # figures of the search
    found: FloatArray | None = None  # correlations of all attributes, or None if not measured

    @classmethod
    def of(cls, method: Slicing, problem: Problem) -> Partition:
        """Divide the attributes by the method's parameters; insensitive ones go to the first part."""
        if method.parts is not None:
            places, carried = places_by_hand(problem, method.parts, method.overlapping)
            search = {"overlapping": _measure_gain(problem, places)} if method.overlapping else {}
            return cls(places, carried, search)
        if method.columns == "each":
            places = one_each(problem)
            return cls(places, (problem.carried, *((),) * (len(places) - 1)), {})
        n_columns = _COLUMNS if method.columns is None else method.columns
        return partition_attributes(problem, n_columns, method.alpha)

    @classmethod
    def of_places(cls, problem: Problem, places: Places, found: FloatArray) -> Partition:
        names = _names(problem)
        pairs = {f"{names[i]}, {names[j]}": round(float(found[i, j]), 6) for i in range(len(names)) for j in range(i)}
        return cls(places, (problem.carried, *((),) * (len(places) - 1)), {"correlations": pairs}, found)

    def list_names(self, problem: Problem) -> list[list[str]]:
        names = _names(problem)
        return [[names[place] for place in group] for group in self.places]


def _names(problem: Problem) -> list[str]:
    return [attribute.name for attribute in (*problem.quasi, *problem.sensitive)]


def _measure_gain(problem: Problem, places: Places) -> dict[str, object]:
    """Return the correlation of attribute pairs within a part, with and without the overlap."""
    found = correlations(problem)
    pairs = {(i, j) for group in places for i in group for j in group if i < j}
    seen: set[int] = set()
    alone = set()
    for group in places:
        first = [place for place in group if place not in seen]
        seen.update(first)
        alone |= {(i, j) for i in first for j in first if i < j}
    names = _names(problem)
    return {
        "pairs_gained": [f"{names[i]}, {names[j]}" for i, j in sorted(pairs - alone)],
        "phi2_within_parts": round(float(sum(found[i, j] for i, j in pairs)), 6),
        "phi2_without_overlap": round(float(sum(found[i, j] for i, j in alone)), 6),
    }


def places_by_hand(
    problem: Problem, given: Sequence[Sequence[str]], overlapping: bool
) -> tuple[Places, tuple[tuple[str, ...], ...]]:
    """Return the positions of the quasi-identifiers and sensitive attributes of each part, and its insensitive names.

    Insensitive attributes that the policy does not place go to the first part without a sensitive one.
    """
    names = _names(problem)
    known = [*names, *problem.carried]
    for part in given:
        for name in part:
            if name not in known:
                hint = did_you_mean(name, known) or f"; these are {', '.join(known)}"
                raise PolicyError(f"{_WHERE}: {name!r} is not a published attribute{hint}")
        if len(set(part)) < len(part):
            raise PolicyError(f"{_WHERE}: a part has the same attribute twice")
        if not part:
            raise PolicyError(f"{_WHERE}: a part has no attributes")
    if len(given) < 2:
        raise PolicyError(f"{_WHERE}: one part hides nothing; give at least two")
    times = Counter(name for part in given for name in part)
    absent = [name for name in names if not times[name]]
    if absent:
        raise PolicyError(
            f"{_WHERE}: {', '.join(absent)} in no part; every quasi and sensitive attribute must be in one"
        )
    repeated = [name for name in known if times[name] > 1]
    if repeated and not overlapping:
        raise PolicyError(
            f"{_WHERE}: {', '.join(repeated)} in several parts; set overlapping: true if this is intended, and the "
            "check assumes an adversary who joins the parts by it"
        )
    _check_shared(problem, repeated)
    left = tuple(name for name in problem.carried if not times[name])
    sensitive = {attribute.name for attribute in problem.sensitive}
    carried = [tuple(name for name in part if name in problem.carried) for part in given]
    home = next((i for i, part in enumerate(given) if not set(part) & sensitive), 0)
    carried[home] = (*carried[home], *left)
    places = tuple(tuple(sorted(names.index(name) for name in part if name in names)) for part in given)
    if sum(map(bool, places)) < 2:
        raise PolicyError(
            f"{_WHERE}: one part has all quasi and sensitive attributes, which hides nothing; divide them too"
        )
    return places, tuple(carried)


def _check_shared(problem: Problem, repeated: Sequence[str]) -> None:
    """Raise if the beliefs of an adversary who joins parts by these attributes cannot be computed."""
    carried = [name for name in repeated if name in problem.carried]
    if carried:
        raise PolicyError(
            f"{_WHERE}: {', '.join(carried)} is insensitive and may link parts row by row; put it into one part only"
        )
    sensitive = [attribute.name for attribute in problem.sensitive]
    if any(name in sensitive for name in repeated) and len(sensitive) > 1:
        raise PolicyError(
            f"{_WHERE}: with several sensitive attributes, none of them can be in several parts, because the check "
            "cannot compute what joining by it reveals about the others"
        )


def check_parts(method: Slicing, problem: Problem, parts: Sequence[Part]) -> None:
    """Raise unless the beliefs of an adversary can be computed for these parts."""
    if method.overlapping and any(part.lo is not None for part in parts):
        raise PolicyError(
            "method.slicing: parts that overlap cannot be generalized too; leave out the model column-frequency"
        )
    for requirement in problem.requirements:
        wanted = problem.sensitive_places(requirement)
        together = not method.overlapping and any(wanted <= set(part.sensitive) for part in parts)
        if len(wanted) > 1 and not together:
            raise PolicyError(
                f"{requirement.model.subject}: its attributes must be in one part, and parts must not overlap; "
                "joint values across parts are not published"
            )
    if link_parts([part.members for part in parts]) is None:
        raise PolicyError(
            f"{_WHERE}: the shared attributes link the parts in a circle, so the check cannot compute what joining "
            "them reveals; let parts that share an attribute be linked by parts that have it too"
        )


def partition_attributes(problem: Problem, n_columns: int, alpha: int | None) -> Partition:
    """Return *n_columns* columns of attributes, such that correlations are higher within columns than between them.

    Columns are sorted by their most important quasi-identifier; the column with the sensitive attributes is last.

    Li, Li, Zhang and Molloy, "Slicing" (TKDE 2012), sections 4.1.2 and 4.1.3: PAM clusters the attributes with the
    distance 1 - correlation. With *alpha*, the sensitive column has that many attributes: the sensitive ones and the
    quasi-identifiers that correlate most with any of them, ties broken by importance; PAM clusters the others. Without
    it, the sensitive attributes are one point of the clustering, whose correlation with a quasi-identifier is the
    maximum of theirs.
    """
    n_quasi, n_sensitive = len(problem.quasi), len(problem.sensitive)
    check_columns(n_quasi, n_sensitive, n_columns, alpha)
    found = correlations(problem)
    points = found[: n_quasi + 1, : n_quasi + 1].copy()  # the last point is all sensitive attributes, if there are any
    if n_sensitive:
        points[n_quasi, :n_quasi] = points[:n_quasi, n_quasi] = found[n_quasi:, :n_quasi].max(axis=0)
    if alpha is None:
        groups = _cluster(points, list(range(len(points))), n_columns)
    else:
        ranked = np.argsort(-points[n_quasi, :n_quasi], kind="stable").tolist()
        groups = _cluster(points, sorted(ranked[alpha - n_sensitive :]), n_columns - 1)
        groups.append((*sorted(ranked[: alpha - n_sensitive]), n_quasi))
    groups.sort(key=lambda group: (n_quasi in group, group))
    if n_sensitive:
        groups[-1] = (*groups[-1], *range(n_quasi + 1, n_quasi + n_sensitive))
    return Partition.of_places(problem, tuple(groups), found)


def _cluster(points: FloatArray, some: list[int], k: int) -> list[tuple[int, ...]]:
    """Return k groups of some points, each ascending, by PAM."""
    labels = pam(1.0 - points[np.ix_(some, some)], k).labels
    groups: list[list[int]] = [[] for _ in range(k)]
    for point, label in zip(some, labels.tolist(), strict=True):
        groups[label].append(point)
    return [tuple(group) for group in groups]


def cluster_quasi(found: FloatArray, n_quasi: int, n_groups: int) -> list[tuple[int, ...]]:
    """Return *n_groups* groups of correlated quasi-identifiers, or one for each if there are fewer."""
    return sorted(_cluster(found[:n_quasi, :n_quasi], list(range(n_quasi)), min(n_groups, n_quasi)))


def one_each(problem: Problem) -> Places:
    """Return the attribute partition of multiset generalization: every attribute is its own column."""
    if len(problem.quasi) + len(problem.sensitive) < 2:
        raise PolicyError("slicing: a table with one quasi attribute and no sensitive one cannot be sliced")
    return tuple((place,) for place in range(len(problem.quasi) + len(problem.sensitive)))


def check_columns(n_quasi: int, n_sensitive: int, n_columns: int, alpha: int | None) -> None:
    """Raise if no partition has these numbers of columns and of attributes in the sensitive column."""
    if n_columns < 2:
        raise PolicyError(f"slicing: columns is {n_columns}, but slicing separates attributes; give at least 2")
    if alpha is None:
        most = n_quasi + min(n_sensitive, 1)
        if n_columns > most:
            shared = ", because sensitive attributes share one" if n_sensitive > 1 else ""
            raise PolicyError(
                f"slicing: columns is {n_columns}, but {count_noun(n_quasi, 'quasi attribute')} and "
                f"{count_noun(n_sensitive, 'sensitive attribute')} make at most {count_noun(most, 'column')}{shared}"
            )
        return
    if not n_sensitive:
        raise PolicyError(f"slicing: alpha is {alpha}, but the policy has no sensitive attribute; leave alpha out")
    if alpha < n_sensitive:
        raise PolicyError(
            f"slicing: alpha is {alpha}, but the sensitive column always has "
            f"{count_noun(n_sensitive, 'sensitive attribute')}; give at least {n_sensitive}"
        )
    left = n_quasi + n_sensitive - alpha
    if left < n_columns - 1:
        raise PolicyError(
            f"slicing: alpha is {alpha}, which leaves {max(left, 0)} of {n_quasi + n_sensitive} attributes for the "
            f"{count_noun(n_columns - 1, 'other column')}; lower alpha or columns"
        )


def correlations(problem: Problem, intervals: int = INTERVALS) -> FloatArray:
    """Return (d, d) correlations in [0, 1] of all quasi-identifiers, then all sensitive attributes; the diagonal is 1.

    Li, Li, Zhang and Molloy, "Slicing" (TKDE 2012), section 4.1.1: phi^2, the mean-square contingency coefficient over
    the values that occur, including missing ones; 0 if either attribute is constant. If more than *intervals* numbers
    or dates occur, they are cut into that many intervals of equal width from the minimum to the maximum. The intervals
    are not published.
    """
    present = np.flatnonzero(problem.cells.counts > 0)  # the other cells belong to a population
    records = problem.cells.counts[present].astype(np.float64)
    attributes = (*problem.quasi, *problem.sensitive)
    values = [
        _values(attribute.taxonomy, codes[present], intervals)
        for attribute, codes in zip(attributes, problem.cells.codes, strict=True)
    ]
    found = np.eye(len(values))
    for i, one in enumerate(values):
        for j in range(i):
            found[i, j] = found[j, i] = round(_phi2(one, values[j], records), _DIGITS)
    return found


def _phi2(one: CodeArray, other: CodeArray, records: FloatArray) -> float:
    """Return phi^2 of two columns of dense codes by cells."""
    first, second = np.bincount(one, records) / records.sum(), np.bincount(other, records) / records.sum()
    smaller = min(len(first), len(second))
    if smaller < 2:
        return 0.0
    # pairs that do not occur add nothing to sum f_ij^2 / (f_i f_j), which is the sum of the definition plus 1
    occurring, total = _sum_pairs(one.astype(np.int64) * len(second) + other, records, len(first) * len(second))
    i, j = np.divmod(occurring, len(second))
    share = total / records.sum()
    excess = float(np.sum(share / first[i] * (share / second[j]))) - 1.0
    return min(max(excess / (smaller - 1), 0.0), 1.0)


def _sum_pairs(pair: IntArray, records: FloatArray, n_pairs: int) -> tuple[IntArray, FloatArray]:
    """Return the pairs that occur, ascending, and their records; memory is bounded by the number of cells."""
    if n_pairs <= _DENSE_PAIRS:
        total = np.asarray(np.bincount(pair, weights=records, minlength=n_pairs), dtype=np.float64)
        occurring: IntArray = np.flatnonzero(total)
        return occurring, total[occurring]
    occurring, place = np.unique(pair, return_inverse=True)
    return occurring, np.asarray(np.bincount(place.reshape(-1), weights=records), dtype=np.float64)


def _values(taxonomy: Taxonomy, codes: AnyIntArray, intervals: int) -> CodeArray:
    """Return (n_cells,) dense codes of the values or, if the leaves are many numbers or dates, of their intervals."""
    occurs = np.bincount(codes, minlength=taxonomy.n_leaves) > 0
    places = _unit_places(taxonomy.positions, occurs)
    value = np.arange(taxonomy.n_leaves)  # (n_leaves,) leaf -> value
    if places is not None and int((occurs & ~np.isnan(places)).sum()) > intervals:
        value = np.where(np.isnan(places), intervals, np.minimum(np.nan_to_num(places) * intervals, intervals - 1))
        value = np.floor(value).astype(np.int64)
    dense = np.zeros(taxonomy.n_leaves, dtype=np.int32)
    dense[occurs] = np.unique(value[occurs], return_inverse=True)[1].reshape(-1)
    return dense[codes]


def _unit_places(positions: FloatArray | None, occurs: BoolArray) -> FloatArray | None:
    """Return (n_leaves,) positions scaled from 0, the minimum that occurs, to 1, the maximum; NaN for missing values.

    Leaves that do not occur are clipped to this range. Halving keeps the range of the largest decimals finite.
    """
    if positions is None:
        return None
    halves = positions / 2.0
    used = halves[occurs & ~np.isnan(halves)]
    if not len(used) or used.min() == used.max():
        return np.where(np.isnan(halves), np.nan, 0.0)
    low, high = used.min(), used.max()
    return np.asarray((np.clip(halves, low, high) - low) / (high - low), dtype=np.float64)
