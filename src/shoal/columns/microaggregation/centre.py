"""The centre of the records that are left, and the record that is farthest from it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from shoal.columns.microaggregation.tree import Tree, take_record
from shoal.core.arrays import FloatArray, IntArray
from shoal.core.kernels import inline_kernel, kernel, places_ascending

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
