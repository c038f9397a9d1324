"""Whether one column of codes determines another, for all or nearly all records."""

from __future__ import annotations

import numpy as np

from shoal.core.arrays import AnyIntArray, BoolArray
from shoal.core.kernels import same_rows

SCREENED = 1 << 13  # records in which dependences are searched
_MOST_WRONG = 20  # at most one record in 20 may differ from the determined value
_BETTER = 4  # guessing the table's most frequent value must make 4 times as many errors
_EVIDENCE = 20  # and at least 20 errors


def determines(given: AnyIntArray, target: AnyIntArray) -> bool:
    """Whether the first column determines the second for at least 95% of the records.

    A group of n records with the same *given* value has n - 1 chances to agree with its most frequent *target*.
    Therefore a column with a different value in every record determines nothing, and a column with nearly the same
    value everywhere is not determined. Two independent columns pass with a probability below 1 in 10,000.

    >>> grade, school = np.arange(90) % 6, np.arange(90) % 3
    >>> determines(grade, school), determines(school, grade), determines(np.arange(90), school)
    (True, False, False)
    """
    n_rows, wrong = len(given), int((~follow(given, target)).sum())
    chances = n_rows - len(np.unique(given))
    by_chance = chances * (n_rows - int(np.bincount(target).max()))  # errors of guessing that value, times n_rows
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
