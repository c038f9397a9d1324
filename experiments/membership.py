"""Exact numbers of original and fake tuples of a sliced table, by the buckets that match them.

A tuple is formed by a bucket that shows its value of every part, so the tuples are the union, over the buckets, of
products of sets. The union is counted by walking prefixes of values: values of a part that stand in the same buckets
are one step, a prefix with one bucket left is a product, and few buckets left are solved by inclusion and exclusion.
Sums that do not fit a word are taken modulo several primes and combined by the Chinese remainder theorem: every count
is exact.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from experiments import membership_kernels as kernels
from shoal.attacks.membership import BucketContents
from shoal.core.arrays import AnyIntArray, CodeArray, IntArray
from shoal.core.errors import UsageError
from shoal.core.kernels import Pairs, same_rows, sum_groups

STEPS = 1_000_000_000  # some seconds
CATEGORIES = ((1, 10), (11, 20), (21, None))  # of the paper's Figure 7


@dataclass(frozen=True, slots=True, eq=False)
class BucketSets:
    """The values of one part that stand in just the same buckets, put together: sets of buckets with their weight."""

    first: IntArray  # (n_sets + 1,)
    bucket: CodeArray  # (n_entries,) ascending within a set
    weight: IntArray  # (n_sets,) values that have it

    @classmethod
    def of(cls, part: Pairs) -> BucketSets:
        """Gather values by their buckets; a value that no bucket shows is left out."""
        begin, bucket, length = part.start[:-1], part.second, np.diff(part.start)
        edges = zip(begin[length > 1].tolist(), part.start[1:][length > 1].tolist(), strict=True)
        values = Counter(bucket[start:stop].tobytes() for start, stop in edges)
        alone = np.bincount(bucket[begin[length == 1]])  # most values of a part with many
        single = np.flatnonzero(alone)
        sets = [single.astype(bucket.dtype), *(np.frombuffer(held, dtype=bucket.dtype) for held in values)]
        first = np.cumsum([0, *np.ones_like(single), *map(len, sets[1:])], dtype=np.int64)
        return cls(first, np.concatenate(sets), np.array([*alone[single], *values.values()], dtype=np.int64))


class UncountableError(UsageError):
    """There are too many tuples to count them within the steps that were allowed."""


@dataclass(frozen=True, slots=True)
class MatchingBuckets:
    """Numbers of tuples by their number of matching buckets: ``tuples[m]`` of them have exactly m.

    >>> MatchingBuckets((0, 70, 2, *[0] * 9, 1)).categories()
    {'1-10': 72, '11-20': 1, '>20': 0}
    """

    tuples: tuple[int, ...]

    @property
    def total(self) -> int:
        """Number of tuples that match at least one bucket."""
        return sum(self.tuples[1:])

    def at_least(self, m: int) -> int:
        """Number of tuples with at least m matching buckets."""
        return sum(self.tuples[m:])

    def categories(self) -> dict[str, int]:
        """Return the paper's three categories: at most 10 matching buckets, 11 to 20, more."""
        return {
            f">{low - 1}" if high is None else f"{low}-{high}": sum(
                self.tuples[low : None if high is None else high + 1]
            )
            for low, high in CATEGORIES
        }

    def without(self, others: MatchingBuckets) -> MatchingBuckets:
        """Return the tuples that are not among *others*, all of which are among these."""
        pairs = itertools.zip_longest(self.tuples, others.tuples, fillvalue=0)
        left = tuple(ours - theirs for ours, theirs in pairs)
        if min(left, default=0) < 0:
            raise ValueError("some of the other tuples are not among these")
        return MatchingBuckets(left)

    @classmethod
    def of(cls, matching: IntArray, records: IntArray | None = None) -> MatchingBuckets:
        """Count tuples, or their records, by their number of matching buckets."""
        if records is None:
            return cls(tuple(np.bincount(matching).tolist()))
        tally = np.zeros(int(matching.max(initial=0)) + 1, dtype=np.int64)
        np.add.at(tally, matching, records)
        return cls(tuple(tally.tolist()))


@dataclass(frozen=True, slots=True)
class Membership:
    """What a sliced table does against membership disclosure, as sections 5 and 6.3 of the slicing paper measure it."""

    originals: MatchingBuckets  # distinct tuples of the original data
    records: MatchingBuckets  # the same, every record counted
    fakes: MatchingBuckets  # distinct tuples that are not in the original data and match a bucket

    @property
    def fake_tuples(self) -> int:
        """Number of distinct fake tuples."""
        return self.fakes.total


def membership(
    bucket: AnyIntArray, values: Sequence[AnyIntArray], records: AnyIntArray | None = None, *, steps: int = STEPS
) -> Membership:
    """Count original and fake tuples by their matching buckets, exactly; raises if that takes too many steps.

    Rows are original records: row i has the value ``values[j][i]`` of the j-th part.

    >>> two = membership(np.array([0, 0, 1]), [np.array([0, 1, 1]), np.array([0, 1, 0])])
    >>> two.fake_tuples, two.originals.tuples, two.fakes.tuples
    (1, (0, 2, 1), (0, 1, 0))
    """
    contents = BucketContents.of(bucket, values, records)
    tuples, copies = distinct_tuples(values, records)
    matching = matching_buckets(contents, tuples, steps=steps)
    originals = MatchingBuckets.of(matching)
    return Membership(
        originals, MatchingBuckets.of(matching, copies), count_formed_tuples(contents, steps=steps).without(originals)
    )


def distinct_tuples(values: Sequence[AnyIntArray], records: AnyIntArray | None) -> tuple[CodeArray, IntArray]:
    """Return (n_parts, n_tuples) the different tuples of the rows, and (n_tuples,) how many records have each."""
    first, group = same_rows(values)
    weights = np.ones(len(group), dtype=np.int64) if records is None else np.asarray(records, dtype=np.int64)
    tuples = np.stack([np.asarray(part)[first].astype(np.int32) for part in values])
    return tuples, sum_groups(group, weights, len(first))


def matching_buckets(contents: BucketContents, tuples: AnyIntArray, *, steps: int = STEPS) -> IntArray:
    """Return (n_tuples,) how many buckets match each tuple.

    ``tuples`` is (n_parts, n_tuples) values; -1 is a value that the table does not show.
    """
    codes = contents.mark_unknown(tuples)
    sizes = [np.append(np.diff(part.start), 0) for part in contents.parts]  # the value -1 takes the last
    needed = int(np.min([size[row] for size, row in zip(sizes, codes, strict=True)], axis=0).sum()) * len(codes)
    if needed > steps:
        raise UncountableError(_too_many(needed, steps))
    return contents.score(codes)[0]


def count_formed_tuples(contents: BucketContents, *, steps: int = STEPS) -> MatchingBuckets:
    """Count, by their matching buckets, all distinct tuples that match at least one bucket."""
    bound = sum(map(math.prod, zip(*contents.n_shown().tolist(), strict=True)))
    moduli = _moduli(bound)
    parts = sorted(contents.parts, key=lambda part: -int(np.count_nonzero(np.diff(part.start))))
    sets = [BucketSets.of(part) for part in parts]
    remainders = [_remainders(sets, contents.n_buckets, modulus, steps // len(moduli)) for modulus in moduli]
    return MatchingBuckets(_combine_remainders(remainders, moduli))


def _remainders(sets: list[BucketSets], n_buckets: int, modulus: int, steps: int) -> list[int]:
    """Return the histogram modulo *modulus*, walking the parts in the given order."""
    n_parts = len(sets)
    products = np.ones((n_parts + 1, n_buckets), dtype=np.int64)
    work = np.ones((n_parts + 1, n_buckets))
    starts = np.cumsum([0, *(len(part.weight) for part in sets)])
    entries = np.cumsum([0, *(len(part.bucket) for part in sets)])
    shown_first = np.zeros((n_parts, n_buckets + 1), dtype=np.int64)
    shown: list[IntArray] = []
    for d in range(n_parts - 1, -1, -1):
        part = sets[d]
        owner = np.repeat(np.arange(len(part.weight)), np.diff(part.first))
        shown.insert(0, owner[np.argsort(part.bucket, kind="stable")] + starts[d])
        n_sets = np.bincount(part.bucket, minlength=n_buckets)
        n_values = np.zeros(n_buckets, dtype=np.int64)
        np.add.at(n_values, part.bucket, part.weight[owner])
        shown_first[d, 1:] = np.cumsum(n_sets)
        shown_first[d] += entries[d]
        products[d] = products[d + 1] * n_values % modulus
        work[d] = work[d + 1] * n_sets
    weight = np.concatenate([part.weight for part in sets])
    given = kernels.ShownSets(weight, shown_first, np.concatenate(shown).astype(np.int64), products, work)
    scratch = kernels.Scratch.of(given)
    if kernels.count_tuples(given, scratch, kernels.Prefixes.of(given), modulus, steps) == kernels.EXHAUSTED:
        raise UncountableError(_too_many(None, steps))
    return [int(number) for number in scratch.histogram]


def _moduli(bound: int) -> list[int]:
    """Return moduli whose product is above *bound*: one if sums up to it fit a word, else primes below 2**31."""
    if bound < 1 << 62:
        return [1 << 62]
    moduli: list[int] = []
    candidate = (1 << 31) - 1
    while math.prod(moduli) <= bound:
        if all(candidate % divisor for divisor in range(3, math.isqrt(candidate) + 1, 2)):
            moduli.append(candidate)
        candidate -= 2
    return moduli


def _combine_remainders(remainders: list[list[int]], moduli: list[int]) -> tuple[int, ...]:
    """Return the numbers below the product of the moduli that have these remainders."""
    if len(moduli) == 1:
        return tuple(remainders[0])
    whole = math.prod(moduli)
    shares = [whole // modulus * pow(whole // modulus, -1, modulus) for modulus in moduli]
    return tuple(sum(map(int.__mul__, column, shares)) % whole for column in zip(*remainders, strict=True))


def _too_many(needed: int | None, steps: int) -> str:
    stated = f"{needed:,} steps" if needed is not None else "more"
    return (
        f"tuples and their matching buckets cannot be counted in {steps:,} steps; it takes {stated}: allow more of them"
    )
