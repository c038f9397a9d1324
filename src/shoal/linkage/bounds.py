"""What is left of l-diversity when releases are linked, in the worst case and with high probability."""

from __future__ import annotations

from collections.abc import Sequence

from shoal.errors import UsageError


def worst_case_l(n_values: int, ls: Sequence[int]) -> int:
    """Return the least number of values that a person can be left with in releases of these distinct l.

    Rameshwar and Tandon, "(l, delta)-Diversity", Proposition 3.1, for any number of releases and for a different l
    in each: a release with l of |S| values rules out at most |S| - l of the L = |S| - 1 values that are not the
    person's own, and in the worst case no two releases rule out the same one.

    >>> worst_case_l(10, [9, 9]), worst_case_l(10, [4, 4])
    (8, 1)
    """
    if n_values < 1:
        raise UsageError(f"there must be at least one sensitive value, not {n_values}")
    if not ls:
        raise UsageError("a worst case is one of at least one release; none was given")
    for l in ls:
        if not 1 <= l <= n_values:
            raise UsageError(f"l must be from 1 to the number of sensitive values, {n_values}; received {l}")
    others = n_values - 1
    return 1 + max(0, others - sum(n_values - l for l in ls))


def composed(guarantees: Sequence[tuple[int, float]]) -> tuple[int, float]:
    """Return the (l, delta) that holds for all of several (l, delta)-diverse releases together.

    Rameshwar and Tandon, Theorem 4.5, for releases that were made with the same agreed classes: all of them are
    l-diverse on the same likely values unless one of them fails, so the chances to fail add up.

    >>> composed([(5, 0.01), (5, 0.02)])
    (5, 0.03)
    """
    if not guarantees:
        raise UsageError("nothing to compose: give at least one (l, delta)")
    for l, delta in guarantees:
        if l < 1 or not 0 <= delta <= 1:
            raise UsageError("(l, delta)-diversity has an l of at least 1 and a delta from 0 to 1")
    return min(l for l, _ in guarantees), min(1.0, sum(delta for _, delta in guarantees))
