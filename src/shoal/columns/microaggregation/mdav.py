"""MDAV: groups of near records, and what they publish: a mean, a median or the most frequent value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from shoal.columns.microaggregation.tree import (
    Points,
    Tree,
    find_farthest,
    find_nearest,
    grow_tree,
    make_search,
    record_distance,
    start_search,
    take_record,
)
from shoal.core.arrays import BoolArray, CodeArray, FloatArray, IntArray
from shoal.core.errors import InputError, PolicyError, UnreachableError
from shoal.core.kernels import count_pairs, inline_kernel, kernel, places_ascending
from shoal.core.progress import Step

RANK_AGAIN = 4  # times as many points as there were have been looked at: a new ranking is cheaper
_SLACK = 1e-7  # of distances, far above what rounding makes of them


class Rest(NamedTuple):
    """Sums over the records that are left. All are whole numbers, and exact."""

    sums: FloatArray  # (n_numbers,)
    counts: IntArray  # (n_values of all categories,)
    squares: FloatArray  # (n_categories,) sums of the squared counts
    ranked_counts: IntArray  # (n_values of all categories,) when points were ranked
    products: FloatArray  # (n_categories,) sums of the products of counts then and now


class Ranks(NamedTuple):
    """Points by their distances from the centre that the records left had at some time, the farthest first."""

    point: IntArray  # (n_points,) with records left then
    away: FloatArray  # (n_points,) distance, not squared
    head: IntArray  # (1,) the first that may have records left
    centre: FloatArray  # (n_numbers,)
    squares: FloatArray  # (n_categories,) sums of the squared shares
    n_records: int


@kernel
def count_rest(tree: Tree) -> Rest:
    """Sum over all records."""
    points = tree.points
    sums, counts = np.zeros(points.numbers.shape[1]), np.zeros(points.first_value[-1], dtype=np.int64)
    squares = np.zeros(points.categories.shape[1])
    for point in range(len(tree.left)):
        for j in range(points.numbers.shape[1]):
            sums[j] += tree.left[point] * points.numbers[point, j]
        for j in range(points.categories.shape[1]):
            counts[points.first_value[j] + points.categories[point, j]] += tree.left[point]
    for j in range(len(squares)):
        for value in range(points.first_value[j], points.first_value[j + 1]):
            squares[j] += float(counts[value] * counts[value])
    return Rest(sums, counts, squares, counts.copy(), squares.copy())


@kernel
def leave_out(tree: Tree, rest: Rest, point: int) -> None:
    """Take one record of a point away."""
    points = tree.points
    for j in range(points.numbers.shape[1]):
        rest.sums[j] -= points.numbers[point, j]
    for j in range(points.categories.shape[1]):
        value = points.first_value[j] + points.categories[point, j]
        rest.squares[j] -= 2.0 * rest.counts[value] - 1.0
        rest.products[j] -= rest.ranked_counts[value]
        rest.counts[value] -= 1
    take_record(tree, point)


@inline_kernel
def _from_centre(tree: Tree, rest: Rest, centre: FloatArray, n_left: int, point: int) -> float:
    """Return the squared distance of a point from the centre of what is left.

    The centre has the mean of each number, and of each categorical attribute the shares of its values: half the
    squared distance between them and a value's indicator stands for the distance from a category.
    """
    points = tree.points
    total = 0.0
    for j in range(points.numbers.shape[1]):
        difference = points.numbers[point, j] - centre[j]
        total += difference * difference
    for j in range(points.categories.shape[1]):
        share = rest.counts[points.first_value[j] + points.categories[point, j]] / n_left
        total += points.unequal[j] * (1.0 - 2.0 * share + rest.squares[j] / (float(n_left) * n_left)) / 2.0
    return total


@kernel
def rank_points(tree: Tree, rest: Rest, n_left: int) -> Ranks:
    """Rank the points that have records left by their distances from the centre of these."""
    centre = rest.sums / n_left
    points = np.flatnonzero(tree.left)
    away = np.empty(len(points))
    for place in range(len(points)):
        away[place] = -np.sqrt(_from_centre(tree, rest, centre, n_left, points[place]))
    order = places_ascending(away)
    rest.ranked_counts[:] = rest.counts
    rest.products[:] = rest.squares
    squares = rest.squares / (float(n_left) * n_left)
    return Ranks(points[order], -away[order], np.zeros(1, dtype=np.int64), centre, squares, n_left)


@kernel
def find_farthest_from_centre(tree: Tree, rest: Rest, ranks: Ranks, n_left: int) -> tuple[int, int]:
    """Return the point farthest from the centre, of several the one of the least number, and how many were looked at.

    No point has come nearer to or farther from the centre than the centre has moved since points were ranked
    (triangle inequality), so that only the first ones need to be looked at.
    """
    centre = rest.sums / n_left
    moved, scale = 0.0, 0.0
    for j in range(len(centre)):
        moved += (centre[j] - ranks.centre[j]) ** 2
        scale += abs(centre[j])
    for j in range(len(rest.squares)):
        now, both = rest.squares[j] / (float(n_left) * n_left), rest.products[j] / (float(n_left) * ranks.n_records)
        moved += tree.points.unequal[j] * max(now - 2.0 * both + ranks.squares[j], 0.0) / 2.0
        scale += np.sqrt(tree.points.unequal[j])
    reach = np.sqrt(moved) + _SLACK * (scale + ranks.away[0])
    while tree.left[ranks.point[ranks.head[0]]] == 0:
        ranks.head[0] += 1
    best, most, place = -1, -1.0, ranks.head[0]
    while place < len(ranks.point) and (ranks.away[place] + reach) ** 2 >= most:
        point = ranks.point[place]
        if tree.left[point] > 0:
            total = _from_centre(tree, rest, centre, n_left, point)
            if total > most or (total == most and tree.number[point] < tree.number[best]):
                best, most = point, total
        place += 1
    return best, place - ranks.head[0]


UNITS = 2.0**20  # of one standard deviation; coordinates are whole numbers of them, so that sums are exact
BLOCK_RECORDS = 125_000
MOST_NEIGHBOURS = 20_000  # groups that are looked at for each
GROWTH = 128  # each round adds at least a share 1/GROWTH to the records of a failing group


def group_means(column: FloatArray, grouping: Grouping) -> FloatArray:
    """Return (n_groups,) the mean of each group, to the last digit the same for every order of the rows."""
    in_order = np.asarray(column, dtype=np.float64)[np.lexsort((column, grouping.group))]
    sizes = grouping.sizes
    return np.asarray(np.add.reduceat(in_order, np.cumsum(sizes) - sizes) / sizes)


def group_medians(column: FloatArray, grouping: Grouping) -> FloatArray:
    """Return (n_groups,) a number of each group that half of it does not exceed: the lower middle one."""
    order = np.lexsort((column, grouping.group))
    sizes = grouping.sizes
    middle = np.cumsum(sizes) - sizes + (sizes - 1) // 2
    return np.asarray(column[order[middle]], dtype=np.float64)


def group_modes(codes: CodeArray, grouping: Grouping) -> CodeArray:
    """Return (n_groups,) the most frequent code of each group; of several the one that the table has most of.

    >>> grouping = Grouping(np.array([0, 0, 0, 1, 1], dtype=np.int32), 2)
    >>> group_modes(np.array([2, 1, 2, 0, 2], dtype=np.int32), grouping).tolist()
    [2, 2]
    """
    n_codes = int(codes.max()) + 1
    code = np.lexsort([-np.arange(n_codes), np.bincount(codes)])  # the last one wins
    rank = np.argsort(code)
    pairs = count_pairs(grouping.group, grouping.n_groups, codes, n_codes, np.ones(len(codes), dtype=np.int64))
    best = np.maximum.reduceat(pairs.records * n_codes + rank[pairs.second], pairs.start[:-1])
    return np.asarray(code[best % n_codes], dtype=np.int32)


def sum_squares(space: Space, grouping: Grouping) -> tuple[float, float]:
    """Return the squared distances of the records from their groups' centres, and from that of the table.

    Their ratio is the share of the variation that microaggregation takes away (SSE / SST). Units are those of
    :class:`Space`: standard deviations for numbers, and half the squared distance of indicators for categories.
    """
    group = grouping.group[space.order]
    return _around(space, group, grouping.n_groups), _around(space, np.zeros_like(group), 1)


def _around(space: Space, group: CodeArray, n_groups: int) -> float:
    sizes = np.bincount(group, minlength=n_groups)
    total = 0.0
    for column in space.numbers.T:
        scaled = column / UNITS
        centre = np.bincount(group, scaled, n_groups) / sizes
        total += float(np.sum((scaled - centre[group]) ** 2))
    for codes, n_values, unequal in zip(space.categories.T, space.n_values, space.unequal, strict=True):
        pairs, counts = np.unique(group.astype(np.int64) * int(n_values) + codes, return_counts=True)
        squares = np.bincount(pairs // int(n_values), counts.astype(np.float64) ** 2, n_groups)
        total += float(unequal) / UNITS**2 * float(np.sum(sizes - squares / sizes)) / 2.0
    return total


def join_groups(space: Space, grouping: Grouping, failing: BoolArray, *, most: int = MOST_NEIGHBOURS) -> Grouping:
    """Return fewer groups: each *failing* one of (n_groups,) is joined with the group whose centre is nearest.

    Only groups that are still alone are joined, one after the other, usually two: both together may suffice, and no
    group swallows its whole neighbourhood. A large group takes several small ones, because single ones would change
    its values too little. At least two groups are joined unless there is only one. Among more than *most* groups only
    those with similar numbers are candidates: number groups by nearness.
    """
    group = grouping.group[space.order]
    sizes = grouping.sizes
    numbers = np.zeros((grouping.n_groups, space.numbers.shape[1]))
    for j, column in enumerate(space.numbers.T):
        numbers[:, j] = np.bincount(group, column, grouping.n_groups) / sizes
    categories = np.zeros((grouping.n_groups, space.categories.shape[1]), dtype=np.int32)
    within = Grouping(group, grouping.n_groups)
    for j, codes in enumerate(space.categories.T):
        categories[:, j] = group_modes(codes, within)
    centres = Points(numbers, categories, space.first_value, space.unequal)
    first, number = np.unique(_join(centres, sizes, failing, most), return_inverse=True)
    return Grouping(number.reshape(-1)[grouping.group].astype(np.int32), len(first))


@kernel
def _join(centres: Points, sizes: IntArray, failing: BoolArray, most: int) -> IntArray:
    """Return (n_groups,) the group that each one goes together with, or itself."""
    n_groups = len(failing)
    joined = np.full(n_groups, -1, dtype=np.int64)
    for group in range(n_groups):
        begin = max(min(group - most // 2, n_groups - most), 0)
        gained, best = 0, group
        while failing[group] and GROWTH * gained < sizes[group] and best >= 0 and (gained > 0 or joined[group] < 0):
            best, least = -1, np.inf
            for other in range(begin, min(begin + most, n_groups)):
                if other != group and joined[other] < 0:
                    distance = record_distance(centres, group, other)
                    if distance < least:
                        best, least = other, distance
            if best >= 0:
                joined[group] = joined[best] = group
                gained += sizes[best]
    return np.where(joined < 0, np.arange(n_groups), joined)


@dataclass(frozen=True, slots=True, eq=False)
class Grouping:
    """Which group each row belongs to; no group is empty."""

    group: CodeArray  # (n_rows,)
    n_groups: int

    @property
    def sizes(self) -> IntArray:
        """(n_groups,) rows of each."""
        return np.bincount(self.group, minlength=self.n_groups)


def microaggregate(space: Space, k: int, *, block_records: int = BLOCK_RECORDS, step: Step | None = None) -> Grouping:
    """Return groups of k to 2k - 1 records that lie near each other, the same for every order of the rows.

    One number alone is grouped in the best of all ways, and everything else by MDAV.

    A table of more than *block_records* is first cut in halves at medians, each time along the attribute that varies
    most there, until no part has more, for the work grows faster than the records; groups then never reach over a cut,
    which costs a little nearness and nothing else.
    """
    if k < 1:
        raise UnreachableError(f"microaggregation: k must be at least 1; received {k}")
    if space.n_records < k:
        raise UnreachableError(f"microaggregation: k = {k} but the table has only {space.n_records} records")
    by_record = np.empty(space.n_records, dtype=np.int32)
    n_groups, alone = 0, space.numbers.shape[1] == 1 and space.categories.shape[1] == 0
    for members in _blocks(space, space.n_records if alone else max(block_records, 2 * k)):
        group, found = group_line(space.numbers[:, 0], k) if alone else mdav(space.points(members), k)
        by_record[members] = group + n_groups
        n_groups += found
        if step is not None:
            step.advance(len(members))
    of_row = np.empty(space.n_records, dtype=np.int32)
    of_row[space.order] = by_record
    return Grouping(of_row, n_groups)


def _blocks(space: Space, most: int) -> list[IntArray]:
    """Cut the records into parts of at most *most* and, if there are several, more than half of it."""
    waiting = [np.arange(space.n_records)]
    done = []
    while waiting:
        members = waiting.pop()
        if len(members) <= most:
            done.append(members)
            continue
        column = _widest(space, members)
        in_order = members[np.argsort(column, kind="stable")]
        half = len(members) // 2
        waiting += [np.sort(in_order[half:]), np.sort(in_order[:half])]
    return done


def _widest(space: Space, members: IntArray) -> np.ndarray:
    """Return the values, at these records, of the attribute with the largest mean squared distance between them."""
    numbers, categories = space.numbers[members], space.categories[members]
    spread = [2.0 * float(np.var(column)) for column in numbers.T]
    for column, unequal in zip(categories.T, space.unequal, strict=True):
        shares = np.bincount(column) / len(column)
        spread.append(float(unequal) * (1.0 - float(np.sum(shares * shares))))
    widest = int(np.argmax(spread))
    return numbers[:, widest] if widest < numbers.shape[1] else categories[:, widest - numbers.shape[1]]


@dataclass(frozen=True, slots=True, eq=False)
class Space:
    """Records in the order of their values, not of their rows: what is done with them depends on no row order.

    The squared distance of two records is the sum over the attributes of weight * (a - b)**2 / variance for numbers
    and of weight * 2 [a != b] / (1 - sum of squared shares) for categories: between two random records each attribute
    counts 2 on average, times its weight. Sums of coordinates stay below 2**53 and are thereby exact up to 2**32 rows.
    """

    order: IntArray  # (n_records,) the row of each record
    numbers: FloatArray  # (n_records, n_numbers) whole numbers of units
    categories: CodeArray  # (n_records, n_categories)
    n_values: IntArray  # (n_categories,) codes of each categorical attribute
    unequal: FloatArray  # (n_categories,) squared distance of two different values, in squared units

    @classmethod
    def of(
        cls, numbers: Sequence[FloatArray], categories: Sequence[CodeArray], weights: Sequence[float] | None = None
    ) -> Space:
        """Build from columns of finite numbers and of codes from 0 on; *weights* are of numbers first."""
        n_columns = len(numbers) + len(categories)
        if n_columns == 0:
            raise PolicyError("microaggregation needs at least one attribute to group records by")
        given = np.ones(n_columns) if weights is None else np.asarray(weights, dtype=np.float64)
        if len(given) != n_columns or not (np.isfinite(given) & (given > 0)).all():
            raise PolicyError("microaggregation needs one weight above 0 for each attribute")
        scaled = [
            _scale(np.asarray(column, dtype=np.float64), weight)
            for column, weight in zip(numbers, given[: len(numbers)], strict=True)
        ]
        codes = [np.asarray(column, dtype=np.int32) for column in categories]
        n_values = np.array([int(column.max()) + 1 for column in codes], dtype=np.int64)
        unequal = np.array(
            [_unequal(column, weight) for column, weight in zip(codes, given[len(numbers) :], strict=True)],
            dtype=np.float64,
        )
        keys: list[Any] = [*codes[::-1], *scaled[::-1]]  # the last one decides first
        order = np.lexsort(keys)
        n_records = len(order)
        return cls(
            order=order,
            numbers=np.stack(scaled, axis=1)[order] if scaled else np.zeros((n_records, 0)),
            categories=np.stack(codes, axis=1)[order] if codes else np.zeros((n_records, 0), dtype=np.int32),
            n_values=n_values,
            unequal=unequal,
        )

    @property
    def n_records(self) -> int:
        return len(self.order)

    @property
    def first_value(self) -> IntArray:
        """(n_categories + 1,) where the values of each categorical attribute begin among all of them."""
        return np.append(0, np.cumsum(self.n_values)).astype(np.int64)

    def points(self, members: IntArray) -> Points:
        return Points(self.numbers[members], self.categories[members], self.first_value, self.unequal)


def _scale(column: FloatArray, weight: float) -> FloatArray:
    if not np.isfinite(column).all():
        missing = int((~np.isfinite(column)).sum())
        raise InputError(f"microaggregation needs numbers in every record; {missing} are missing or not finite")
    largest = float(np.abs(column).max()) or 1.0
    column = column / largest  # squares of very large numbers would not be finite
    in_order = np.sort(column)  # sums of floats depend on the order, and rows may come in any
    mean = float(in_order.mean())
    deviation = float(np.sqrt(np.mean((in_order - mean) ** 2)))
    if deviation == 0.0:
        return np.zeros(len(column))
    return np.asarray(np.rint((column - mean) / deviation * (UNITS * np.sqrt(weight))) + 0.0)


def _unequal(column: CodeArray, weight: float) -> float:
    shares = np.bincount(column) / len(column)
    differing = 1.0 - float(np.sum(shares * shares))
    return float(np.rint(2.0 * UNITS * UNITS * weight / differing)) if differing > 0 else 0.0


@kernel
def mdav(points: Points, k: int) -> tuple[CodeArray, int]:
    """Return (n_records,) groups of k to 2k - 1 of at least k records in ascending order, and the number of groups.

    Domingo-Ferrer and Torra, "Ordinal, continuous and heterogeneous k-anonymity through microaggregation", DMKD 11(2),
    2005: around the record farthest from the centre of what is left, and around the one farthest from that. Records
    with the same values are one point of a tree, and are taken in their order.
    """
    n_left, n_groups, work = len(points.numbers), 0, 0
    first = _find_distinct(points)
    distinct = Points(points.numbers[first], points.categories[first], points.first_value, points.unequal)
    counts = np.diff(np.append(first, n_left))
    tree = grow_tree(distinct, counts)
    end = (first + counts)[tree.number]  # (n_points,) of each point's records
    rest, search, nearest = count_rest(tree), make_search(tree), np.empty(k + 1, dtype=np.int64)
    ranks = rank_points(tree, rest, n_left)
    group = np.full(n_left, -1, dtype=np.int32)
    while n_left >= 2 * k:
        n_turns = 2 if n_left >= 3 * k else 1
        if work > RANK_AGAIN * len(ranks.point):
            ranks, work = rank_points(tree, rest, n_left), 0
        point, looked_at = find_farthest_from_centre(tree, rest, ranks, n_left)
        work += looked_at
        for turn in range(n_turns):
            if turn:  # of those that are left: all the same records may have been equally far
                point = find_farthest(tree, search)
            start_search(tree, search, point)
            group[end[point] - tree.left[point]] = n_groups
            leave_out(tree, rest, point)
            wanted = k - 1
            for place in range(find_nearest(tree, search, wanted, nearest)):
                for _ in range(min(tree.left[nearest[place]], wanted)):
                    group[end[nearest[place]] - tree.left[nearest[place]]] = n_groups
                    leave_out(tree, rest, nearest[place])
                    wanted -= 1
            n_groups += 1
            n_left -= k
    for record in range(len(group)):
        if group[record] < 0:
            group[record] = n_groups
    return group, n_groups + 1


@kernel
def group_line(numbers: FloatArray, k: int) -> tuple[CodeArray, int]:
    """Return (n,) the groups of at least k that have the least sum of squares of ascending numbers, and how many.

    Hansen and Mukherjee, "A polynomial algorithm for optimal univariate microaggregation" (TKDE 15(4), 2003): the best
    groups are runs of k to 2k - 1 neighbours, and the best ones of the first i numbers end with one that follows the
    best ones of fewer. Of equally good last groups the smallest is taken.
    """
    n = len(numbers)
    least = np.full(n + 1, np.inf)
    least[0] = 0.0
    size = np.zeros(n + 1, dtype=np.int64)  # of the last group of the first i numbers
    for end in range(k, n + 1):
        total = squares = 0.0
        for length in range(1, min(2 * k - 1, end) + 1):
            apart = numbers[end - 1] - numbers[end - length]  # from the last number, so that sums stay small
            total += apart
            squares += apart * apart
            if length >= k and least[end - length] < np.inf:
                error = least[end - length] + max(squares - total * total / length, 0.0)
                if error < least[end]:
                    least[end], size[end] = error, length
    group, n_groups, end = np.empty(n, dtype=np.int32), 0, n
    while end > 0:
        group[end - size[end] : end] = n_groups
        end -= size[end]
        n_groups += 1
    return (n_groups - 1 - group).astype(np.int32), n_groups


@kernel
def _find_distinct(points: Points) -> IntArray:
    """Return the first of each run of records with the same values."""
    starts, n_starts = np.empty(len(points.numbers), dtype=np.int64), 0
    for record in range(len(points.numbers)):
        same = record > 0
        for j in range(points.numbers.shape[1]):
            same = same and points.numbers[record, j] == points.numbers[record - 1, j]
        for j in range(points.categories.shape[1]):
            same = same and points.categories[record, j] == points.categories[record - 1, j]
        if not same:
            starts[n_starts] = record
            n_starts += 1
    return starts[:n_starts].copy()
