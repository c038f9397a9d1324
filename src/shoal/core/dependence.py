"""Dependence between two columns of codes: whether one determines the other, for all records or nearly all."""

from __future__ import annotations

import numpy as np

from shoal.core.arrays import AnyIntArray, BoolArray
from shoal.core.kernels import same_rows

SCREENED = 1 << 13  # records in which dependences are looked for
_MOST_WRONG = 20  # one record in so many may differ from the value that is determined
_BETTER = 4  # the most frequent value of the table must be wrong so many times as often
_EVIDENCE = 20  # records for which the most frequent value would be wrong, below which nothing is concluded


def determines(given: AnyIntArray, target: AnyIntArray) -> bool:
    """Whether the first column determines the second, for at least 95% of the records.

    A group of n records with the same *given* value has n - 1 chances to agree with its most frequent *target*, so a
    column with its own value for every record determines nothing. A column that is constant for nearly everyone is
    not determined either. Two independent columns pass with a chance below 1 in 10,000.

    >>> grade, school = np.arange(90) % 6, np.arange(90) % 3
    >>> determines(grade, school), determines(school, grade), determines(np.arange(90), school)
    (True, False, False)
    """
    n_rows, wrong = len(given), int((~follow(given, target)).sum())
    chances = n_rows - len(np.unique(given))
    by_chance = chances * (n_rows - int(np.bincount(target).max()))  # errors of the most frequent value, times n_rows
    enough = by_chance >= max(_EVIDENCE, _BETTER * wrong) * n_rows
    return enough and _MOST_WRONG * wrong <= chances


def follow(given: AnyIntArray, target: AnyIntArray) -> BoolArray:
    """Return (n_rows,) whether a row's target is the most frequent among the rows with the same *given* code."""
    first, group = same_rows([given])
    first_pair, pair = same_rows([given, target])
    order = first_pair[np.argsort(np.bincount(pair), kind="stable")]
    modes = np.zeros(len(first), dtype=np.int64)
    modes[group[order]] = target[order]  # the most frequent pair of a group is written last
    return np.asarray(modes[group] == target)
