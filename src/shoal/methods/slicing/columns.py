"""Attribute partition: which attributes stay together in one column of a sliced table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shoal.core.arrays import FloatArray
from shoal.core.errors import PolicyError
from shoal.core.medoids import pam
from shoal.methods.slicing.correlation import Measure, correlations
from shoal.plan.problem import Problem

Places = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """An attribute partition: every attribute is in exactly one column, all sensitive ones in the last.

    Attributes are told by their places, quasi ones first; within a column they ascend, and columns stand in the order
    of their most important quasi attribute, except that the one with sensitive attributes is last.
    """

    places: Places
    correlations: FloatArray  # (d, d)
    cost: float  # of the clustering: sum of 1 - correlation with the medoid over the attributes that were clustered


def partitioned(problem: Problem, n_columns: int, alpha: int | None, measure: Measure, intervals: int) -> Columns:
    """Return *n_columns* columns of attributes that go together: those within a column more than those between.

    Li, Li, Zhang and Molloy, "Slicing" (TKDE 2012), sections 4.1.2 and 4.1.3: attributes are clustered by PAM with the
    distance 1 - correlation. With *alpha* the sensitive column has that many attributes: the sensitive ones and the
    quasi ones that go best with one of them, of equals the more important; the others are clustered. Without it the
    sensitive attributes are one point of the clustering, as near to a quasi attribute as the nearest of them.
    """
    n_quasi, n_sensitive = len(problem.quasi), len(problem.sensitive)
    _check(n_quasi, n_sensitive, n_columns, alpha)
    found = correlations(problem, measure, intervals)
    points = _points(found, n_quasi)
    if alpha is None:
        groups, cost = _clustered(points, list(range(len(points))), n_columns)
    else:
        ranked = np.argsort(-points[n_quasi, :n_quasi], kind="stable").tolist()
        groups, cost = _clustered(points, sorted(ranked[alpha - n_sensitive :]), n_columns - 1)
        groups.append((*sorted(ranked[: alpha - n_sensitive]), n_quasi))
    groups.sort(key=lambda group: (n_quasi in group, group))
    if n_sensitive:
        groups[-1] = (*groups[-1], *range(n_quasi + 1, n_quasi + n_sensitive))
    return Columns(tuple(groups), found, cost)


def _points(found: FloatArray, n_quasi: int) -> FloatArray:
    """Return the correlations of the quasi attributes and, as one last point, all sensitive attributes if there are."""
    if len(found) == n_quasi:
        return found
    points = found[: n_quasi + 1, : n_quasi + 1].copy()
    points[n_quasi, :n_quasi] = points[:n_quasi, n_quasi] = found[n_quasi:, :n_quasi].max(axis=0)
    return points


def _clustered(points: FloatArray, some: list[int], k: int) -> tuple[list[tuple[int, ...]], float]:
    """Return k groups of some points, each ascending, and what PAM says they cost."""
    clusters = pam(1.0 - points[np.ix_(some, some)], k)
    groups: list[list[int]] = [[] for _ in range(k)]
    for point, label in zip(some, clusters.labels.tolist(), strict=True):
        groups[label].append(point)
    return [tuple(group) for group in groups], clusters.cost


def slimmer(places: Places, found: FloatArray, n_quasi: int) -> tuple[Places, int]:
    """Return the partition with one quasi attribute fewer in the sensitive column, and which one that is.

    The attribute that goes least with the sensitive ones moves to the column that it goes best with on average.
    """
    last = places[-1]
    sensitive = [place for place in last if place >= n_quasi]
    moved = min((place for place in last if place < n_quasi), key=lambda place: (found[sensitive, place].max(), place))
    others = [list(group) for group in places[:-1]]
    best = max(range(len(others)), key=lambda group: (found[others[group], moved].mean(), -group))
    others[best] = sorted([*others[best], moved])
    slim = tuple(place for place in last if place != moved)
    return (*(tuple(group) for group in others), slim), moved


def one_each(problem: Problem) -> Places:
    """Return the attribute partition of multiset generalization: every attribute is a column of its own."""
    if len(problem.quasi) + len(problem.sensitive) < 2:
        raise PolicyError("slicing: a table with one quasi attribute and no sensitive one cannot be sliced")
    return tuple((place,) for place in range(len(problem.quasi) + len(problem.sensitive)))


def _check(n_quasi: int, n_sensitive: int, n_columns: int, alpha: int | None) -> None:
    """Refuse numbers of columns and of attributes in the sensitive column that no partition has."""
    if n_columns < 2:
        raise PolicyError(f"slicing: columns is {n_columns}, but slicing separates attributes; give at least 2")
    if alpha is None:
        most = n_quasi + min(n_sensitive, 1)
        if n_columns > most:
            shared = ", for sensitive attributes share one" if n_sensitive > 1 else ""
            raise PolicyError(
                f"slicing: columns is {n_columns}, but {_counted(n_quasi, 'quasi')} and "
                f"{_counted(n_sensitive, 'sensitive')} make at most {most} columns{shared}"
            )
        return
    if not n_sensitive:
        raise PolicyError(f"slicing: alpha is {alpha}, but no attribute is sensitive, so no column is; leave alpha out")
    if alpha < n_sensitive:
        raise PolicyError(
            f"slicing: alpha is {alpha}, but the sensitive column always has {_counted(n_sensitive, 'sensitive')}; "
            f"give at least {n_sensitive}"
        )
    left = n_quasi + n_sensitive - alpha
    if left < n_columns - 1:
        raise PolicyError(
            f"slicing: alpha is {alpha}, which leaves {max(left, 0)} of {n_quasi + n_sensitive} attributes for the "
            f"{n_columns - 1} other column{'s' if n_columns > 2 else ''}; lower alpha or columns"
        )


def _counted(number: int, role: str) -> str:
    return f"{number} {role} attribute{'' if number == 1 else 's'}"
