"""MDAV: groups of near records, and their published centres: means, medians or most frequent values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from shoal.columns.microaggregation.tree import (
    Points,
    Tree,
    find_points,
    grow_tree,
    record_distance,
    remove_record,
)
from shoal.core.arrays import BoolArray, CodeArray, FloatArray, IntArray
from shoal.core.errors import InputError, UnreachableError
from shoal.core.kernels import count_pairs, find_starts, inline_kernel, kernel, places_ascending
from shoal.core.progress import Step

RANK_AGAIN = 4  # examinations per point after which a new ranking is cheaper
_SLACK = 1e-7  # of distances, far above rounding errors
UNITS = 2.0**20  # of one standard deviation; coordinates are whole numbers of them, which makes sums exact
BLOCK_RECORDS = 125_000
MOST_NEIGHBOURS = 20_000  # groups among which the nearest one is searched
GROWTH = 128  # each round adds at least a share 1/GROWTH to the records of a failing group


class Rest(NamedTuple):
    """Sums over the records that are left. All are whole numbers, and exact."""

    sums: FloatArray  # (n_numbers,)
    counts: IntArray  # (n_values of all categories,)
    squares: FloatArray  # (n_categories,) sums of the squared counts


class Ranking(NamedTuple):
    """Points by their distances from the centre that the remaining records had at some time, the farthest first."""

    point: IntArray  # (n_points,) that had records left then
    away: FloatArray  # (n_points,) distance, not squared
    head: IntArray  # (1,) the first that may have records left
    centre: FloatArray  # (n_numbers,)
    shares: FloatArray  # (n_values of all categories,) of the records left then


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
    return Rest(sums, counts, squares)


@kernel
def leave_out(tree: Tree, rest: Rest, point: int) -> None:
    """Remove one record of a point from the tree and from the sums."""
    points = tree.points
    for j in range(points.numbers.shape[1]):
        rest.sums[j] -= points.numbers[point, j]
    for j in range(points.categories.shape[1]):
        value = points.first_value[j] + points.categories[point, j]
        rest.squares[j] -= 2.0 * rest.counts[value] - 1.0
        rest.counts[value] -= 1
    remove_record(tree, point)


@inline_kernel
def _from_centre(tree: Tree, rest: Rest, centre: FloatArray, n_left: int, point: int) -> float:
    """Return the squared distance of a point from the centre of the remaining records.

    The centre has the mean of each number and the shares of each category's values. The distance from a category is
    half the squared distance between these shares and the indicator of the point's value.
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
def rank_points(tree: Tree, rest: Rest, n_left: int) -> Ranking:
    """Rank the points that have records left by their distances from the centre of these."""
    centre = rest.sums / n_left
    points = np.flatnonzero(tree.left)
    away = np.empty(len(points))
    for place in range(len(points)):
        away[place] = -np.sqrt(_from_centre(tree, rest, centre, n_left, points[place]))
    order = places_ascending(away)
    return Ranking(points[order], -away[order], np.zeros(1, dtype=np.int64), centre, rest.counts / n_left)


@kernel
def find_farthest_from_centre(tree: Tree, rest: Rest, ranking: Ranking, n_left: int) -> tuple[int, int]:
    """Return the point farthest from the centre (the smallest number breaks ties) and how many were examined.

    By the triangle inequality, a distance has changed by at most the distance that the centre has moved since the
    points were ranked. Only the first ranks can therefore have the farthest point.
    """
    points, centre = tree.points, rest.sums / n_left
    moved, scale = 0.0, 0.0
    for j in range(len(centre)):
        moved += (centre[j] - ranking.centre[j]) ** 2
        scale += abs(centre[j])
    for j in range(len(rest.squares)):
        for value in range(points.first_value[j], points.first_value[j + 1]):
            moved += points.unequal[j] * (rest.counts[value] / n_left - ranking.shares[value]) ** 2 / 2.0
        scale += np.sqrt(points.unequal[j])
    reach = np.sqrt(moved) + _SLACK * (scale + ranking.away[0])
    while tree.left[ranking.point[ranking.head[0]]] == 0:
        ranking.head[0] += 1
    best, most, place = -1, -1.0, ranking.head[0]
    while place < len(ranking.point) and (ranking.away[place] + reach) ** 2 >= most:
        point = ranking.point[place]
        if tree.left[point] > 0:
            total = _from_centre(tree, rest, centre, n_left, point)
            if total > most or (total == most and tree.number[point] < tree.number[best]):
                best, most = point, total
        place += 1
    return best, place - ranking.head[0]


def group_means(column: FloatArray, grouping: Grouping) -> FloatArray:
    """Return (n_groups,) the mean of each group; the order of the rows does not change even the last digit."""
    in_order = np.asarray(column, dtype=np.float64)[np.lexsort((column, grouping.group))]
    sizes = grouping.sizes
    return np.asarray(np.add.reduceat(in_order, np.cumsum(sizes) - sizes) / sizes)


def group_medians(column: FloatArray, grouping: Grouping) -> FloatArray:
    """Return (n_groups,) the lower median of each group."""
    order = np.lexsort((column, grouping.group))
    sizes = grouping.sizes
    middle = np.cumsum(sizes) - sizes + (sizes - 1) // 2
    return np.asarray(column[order[middle]], dtype=np.float64)


def group_modes(codes: CodeArray, grouping: Grouping) -> CodeArray:
    """Return (n_groups,) the most frequent code of each group; ties go to the code most frequent in the table.

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
    """Return the sums of squared distances of the records from their groups' centres, and from the table's centre.

    Their ratio SSE / SST is the share of the variation that microaggregation removes. Units are as in
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
    """Join each *failing* group of (n_groups,) with the group whose centre is nearest.

    Only groups that are still alone are joined, usually two, because both together may suffice and no group should
    swallow its whole neighbourhood. A large group is joined with several small ones, because a single one would change
    its values too little. At least two groups are joined unless there is only one. Of more than *most* groups only
    those with similar group numbers are candidates, so groups should be numbered by nearness.
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
    """Return (n_groups,) the group that each one is joined with, or itself."""
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
    """The group of each row; no group is empty."""

    group: CodeArray  # (n_rows,)
    n_groups: int

    @property
    def sizes(self) -> IntArray:
        """(n_groups,) rows of each."""
        return np.bincount(self.group, minlength=self.n_groups)


def microaggregate(space: Space, k: int, *, block_records: int = BLOCK_RECORDS, step: Step | None = None) -> Grouping:
    """Return groups of k to 2k - 1 near records, independently of the order of the rows.

    A single number is grouped optimally, everything else by MDAV. Because the work grows faster than the records, a
    table of more than *block_records* is first halved at medians, each time along the attribute that varies most, until
    no part has more. Groups do not cross these cuts, which makes them a little wider.
    """
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
    """Cut the records into parts of at most *most* records; several parts have more than half of that each."""
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
    """Return these records' values of the attribute in which their mean squared distance is largest."""
    numbers, categories = space.numbers[members], space.categories[members]
    spread = [2.0 * float(np.var(column)) for column in numbers.T]
    for column, unequal in zip(categories.T, space.unequal, strict=True):
        shares = np.bincount(column) / len(column)
        spread.append(float(unequal) * (1.0 - float(np.sum(shares * shares))))
    widest = int(np.argmax(spread))
    return numbers[:, widest] if widest < numbers.shape[1] else categories[:, widest - numbers.shape[1]]


@dataclass(frozen=True, slots=True, eq=False)
class Space:
    """Records in the order of their values; results do not depend on the order of the rows.

    The squared distance of two records is the sum over the attributes of weight * (a - b)**2 / variance for numbers
    and of weight * 2 [a != b] / (1 - sum of squared shares) for categories. Each attribute thus contributes twice its
    weight to the mean distance of two random records. Sums of coordinates are exact up to 2**32 rows, because they stay
    below 2**53.
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
        """Build from columns of finite numbers and of codes from 0 on; *weights*, 1 by default, begin with numbers."""
        given = [1.0] * (len(numbers) + len(categories)) if weights is None else weights
        scaled = [_scale(np.asarray(column, dtype=np.float64), w) for column, w in zip(numbers, given, strict=False)]
        codes = [np.asarray(column, dtype=np.int32) for column in categories]
        n_values = np.array([int(column.max()) + 1 for column in codes], dtype=np.int64)
        unequal = [_unequal(column, w) for column, w in zip(codes, given[len(numbers) :], strict=True)]
        keys: list[Any] = [*codes[::-1], *scaled[::-1]]  # the last key is the primary one
        order = np.lexsort(keys)
        in_order = np.stack(scaled, axis=1)[order] if scaled else np.zeros((len(order), 0))
        categories_in_order = np.stack(codes, axis=1)[order] if codes else np.zeros((len(order), 0), dtype=np.int32)
        return cls(order, in_order, categories_in_order, n_values, np.array(unequal, dtype=np.float64))

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
    in_order = np.sort(column)  # sums of floats depend on the order
    mean = float(in_order.mean())
    deviation = float(np.sqrt(np.mean((in_order - mean) ** 2)))
    if deviation == 0.0:
        return np.zeros(len(column))
    return np.asarray(np.rint((column - mean) / deviation * (UNITS * np.sqrt(weight))) + 0.0)


def _unequal(column: CodeArray, weight: float) -> float:
    shares = np.bincount(column) / len(column)
    differing = 1.0 - float(np.sum(shares * shares))
    return float(np.rint(2.0 * UNITS * UNITS * weight / differing)) if differing > 0 else 0.0


def mdav(points: Points, k: int) -> tuple[CodeArray, int]:
    """Return (n_records,) groups of k to 2k - 1 of at least k records in ascending order, and the number of groups.

    Domingo-Ferrer and Torra, "Ordinal, continuous and heterogeneous k-anonymity through microaggregation", DMKD 11(2),
    2005: one group is made around the remaining record farthest from the centre, and one around the record farthest
    from that one. Records with equal values are one point of a tree, and are taken in their order.
    """
    return _mdav(points, find_starts([*points.numbers.T, *points.categories.T]), k)


@kernel
def _mdav(points: Points, first: IntArray, k: int) -> tuple[CodeArray, int]:
    """*first* are the records that differ from their predecessors."""
    n_left, n_groups, work = len(points.numbers), 0, 0
    distinct = Points(points.numbers[first], points.categories[first], points.first_value, points.unequal)
    counts = np.diff(np.append(first, n_left))
    tree = grow_tree(distinct, counts)
    end = (first + counts)[tree.number]  # (n_points,) of each point's records
    rest, found = count_rest(tree), np.empty(k + 1, dtype=np.int64)
    ranking = rank_points(tree, rest, n_left)
    group = np.full(n_left, -1, dtype=np.int32)
    while n_left >= 2 * k:
        n_turns = 2 if n_left >= 3 * k else 1
        if work > RANK_AGAIN * len(ranking.point):
            ranking, work = rank_points(tree, rest, n_left), 0
        point, examined = find_farthest_from_centre(tree, rest, ranking, n_left)
        work += examined
        for turn in range(n_turns):
            if turn:  # search again: all records equal to the first point may have been taken
                find_points(tree, point, True, 1, found)
                point = found[0]
            group[end[point] - tree.left[point]] = n_groups
            leave_out(tree, rest, point)
            wanted = k - 1
            for place in range(find_points(tree, point, False, wanted, found)):
                for _ in range(min(tree.left[found[place]], wanted)):
                    group[end[found[place]] - tree.left[found[place]]] = n_groups
                    leave_out(tree, rest, found[place])
                    wanted -= 1
            n_groups += 1
            n_left -= k
    group[group < 0] = n_groups
    return group, n_groups + 1


@kernel
def group_line(numbers: FloatArray, k: int) -> tuple[CodeArray, int]:
    """Return (n,) the groups of at least k ascending numbers with the smallest sum of squares, and their number.

    Hansen and Mukherjee, "A polynomial algorithm for optimal univariate microaggregation" (TKDE 15(4), 2003), by
    dynamic programming: optimal groups are runs of k to 2k - 1 neighbours, and the optimum for the first i numbers adds
    one group to the optimum for fewer. Ties go to the smallest last group.
    """
    n = len(numbers)
    least = np.full(n + 1, np.inf)
    least[0] = 0.0
    size = np.zeros(n + 1, dtype=np.int64)  # of the last group of the first i numbers
    for end in range(k, n + 1):
        total = squares = 0.0
        for length in range(1, min(2 * k - 1, end) + 1):
            apart = numbers[end - 1] - numbers[end - length]  # from the last number, which keeps sums small
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
