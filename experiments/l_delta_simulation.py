"""What Rameshwar and Tandon's figures do not show: how often releases fail, and what owners lose who anonymize alone.

Section 5 of the paper has 3,000 quasi-identifiers and 50 diseases; ``Setting`` is one requirement on them. A class
fails as long as it has fewer than l values, so a sample has one number of records from which on it never fails: the
last of its classes to see its l-th value. Samples are followed up to there, and a failure with N records is a sample
whose number is greater than N. Beside the mechanism stand owners who make their tables l-diverse each by itself, and
the people who are in all their tables.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import numpy as np
import pyarrow as pa

from experiments.problems import meets
from shoal.agency.samples import class_bound, paper_samples, smallest
from shoal.attacks.base import Estimate, Tally
from shoal.core.arrays import BoolArray, FloatArray, IntArray
from shoal.core.progress import Progress, Silent
from shoal.engines.local import LocalEngine
from shoal.linking.linking import worst_case_l
from shoal.methods.mondrian.tree import MondrianTree
from shoal.policy.encoding import encode
from shoal.policy.policy import Policy
from shoal.sources.opening import open_source

DOMAIN = {"postal code": 10, "gender": 3, "age": 100}  # in the order of the quasi-identifiers
SENSITIVE = "disease"
N_QUASI = math.prod(DOMAIN.values())
N_VALUES = 50
RATIO = Fraction(19, 20)
UNIFORM = "uniform"
GEOMETRIC = "geometric"
DISTRIBUTIONS = (UNIFORM, GEOMETRIC)
RELEASES = (1, 2, 3)
PAPER, TIGHTER = "the paper's", "the tighter"
WIDTHS = (2, 10, 50)  # of the groups by which owners generalize
ALONE, COARSE, AGENCY = "each by itself", "each by itself, coarse", "the agency's classes"
_CHUNK = 50  # samples at a time


@cache
def chances(distribution: str) -> tuple[Fraction, ...]:
    """Return the exact chances of the diseases, the likeliest first."""
    powers = [RATIO**place if distribution == GEOMETRIC else Fraction(1) for place in range(N_VALUES)]
    return tuple(power / sum(powers) for power in powers)


@cache
def marginal(distribution: str) -> FloatArray:
    """Return (50,) the same in floating point.

    >>> round(float(marginal(GEOMETRIC)[0]), 3)
    0.054
    """
    found = np.array([float(chance) for chance in chances(distribution)])
    found.setflags(write=False)
    return found


@dataclass(frozen=True, slots=True)
class Setting:
    """One requirement: l values in every class of the distribution, with p = beta * p_l.

    Quasi-identifiers are equally likely and independent of the disease: with the marginals of section 5 that is the
    joint distribution for which Corollary 4.8 tells the best classes.

    >>> Setting(UNIFORM, l=10, beta=0.01).records(0.01)
    65606
    """

    distribution: str
    l: int
    beta: float

    @property
    def p(self) -> Fraction:
        """The least chance of the l values that each class must have."""
        return Fraction(str(self.beta)) * chances(self.distribution)[self.l - 1]

    @property
    def m(self) -> Fraction:
        """The bound of Lemma 4.3 on the number of classes."""
        rest = sum(sorted(chances(self.distribution), reverse=True)[self.l - 1 :], Fraction(0))
        return class_bound(N_QUASI, rest, self.l, self.p)

    @property
    def class_sizes(self) -> IntArray:
        """(n_classes,) quasi-identifiers of each class of Algorithm 3, its class size rounded up, its tail merged.

        The size is |Q| * beta, in exact arithmetic: p = P(class, s) must count as reached.

        >>> Setting(UNIFORM, l=10, beta=0.35).class_sizes.tolist()
        [1050, 1950]
        """
        size = math.ceil(N_QUASI * Fraction(str(self.beta)))
        sizes = np.full(N_QUASI // size, size, dtype=np.int64)
        sizes[-1] += N_QUASI % size
        return sizes

    @property
    def joint(self) -> FloatArray:
        """(n_classes, 50) the chances of a class with a disease."""
        return np.outer(self.class_sizes / N_QUASI, marginal(self.distribution))

    def bound(self, records: int) -> float:
        """Return the paper's bound on the failure probability with so many records (Theorem 4.4)."""
        return float(self.m * self.l) * math.exp(records * math.log1p(-float(self.p)))

    def tighter_bound(self, records: int) -> float:
        """Return the same, summed over the classes that there are and their l likeliest values."""
        sizes, times = np.unique(self.class_sizes, return_counts=True)
        likeliest = np.outer(sizes / N_QUASI, marginal(self.distribution)[: self.l])  # in descending order
        return float(times @ np.exp(records * np.log1p(-likeliest)).sum(axis=1))

    def records(self, delta: float) -> int:
        """Return the paper's N, rounded up."""
        return paper_samples(self.m, self.l, self.p, Fraction(str(delta)))

    def tighter_records(self, delta: float) -> int:
        """Return the least number of records with which the tighter bound is at most *delta*."""
        return smallest(self.tighter_bound, Fraction(str(delta)))


@dataclass(frozen=True, slots=True)
class Failure:
    """How many of the simulated releases, or linked sets of releases, had a class with fewer than l values."""

    distribution: str
    beta: float
    l: int
    delta: float
    rule: str  # whose N
    records: int
    releases: int
    failed: int
    trials: int

    @property
    def rate(self) -> Estimate:
        """The failure rate with its Wilson interval."""
        return Tally(self.failed, self.trials).rate()

    @property
    def bound(self) -> float:
        """What the composition theorem allows."""
        return min(1.0, self.releases * self.delta)


@dataclass(frozen=True, slots=True)
class Decline:
    """Failures of samples of a share of the paper's N."""

    distribution: str
    l: int
    share: float
    records: int
    bound: float
    tighter_bound: float
    failed: list[int]  # of one, two, three releases
    trials: int


def draw_first_records(chances: FloatArray, n_samples: int, rng: np.random.Generator) -> IntArray:
    """Return (n_samples, n_cells) the number of the record with which each cell first occurs in a sample.

    Exact, without drawing every record: cells first occur in the order of exponential clocks with their chances as
    rates, and before each new one there is a geometric wait with the chance of all cells that have not occurred.
    """
    order = np.argsort(rng.standard_exponential((n_samples, len(chances))) / chances, axis=1)
    unseen = np.cumsum(chances[order][:, ::-1], axis=1)[:, ::-1]
    waits = rng.geometric(np.minimum(unseen, 1.0))
    first = np.empty_like(order)
    np.put_along_axis(first, order, np.cumsum(waits, axis=1), axis=1)
    return np.asarray(first, dtype=np.int64)


def find_records_needed(first: IntArray, l: Sequence[int]) -> IntArray:
    """Return (n_l, n_samples) the records with which every class has l values, from (samples, classes, values)."""
    ordered = np.sort(first, axis=2)
    return np.stack([ordered[:, :, one - 1].max(axis=1) for one in l])


def simulate(joint: FloatArray, l: Sequence[int], trials: int, seed: list[int], progress: Progress) -> IntArray:
    """Return (n_releases, n_l, trials) the records that one, two and three linked releases need not to fail.

    A value is left by a linkage if it is in every release: its first record is the latest of theirs.
    """
    n_chunks = -(-trials // _CHUNK)
    generators = [np.random.default_rng(one) for one in np.random.SeedSequence(seed).spawn(n_chunks)]

    def chunk(place: int) -> IntArray:
        size = min(_CHUNK, trials - place * _CHUNK)
        linked = np.zeros((size, *joint.shape), dtype=np.int64)
        needed = []
        for _ in RELEASES:
            first = draw_first_records(joint.ravel(), size, generators[place])
            linked = np.maximum(linked, first.reshape(size, *joint.shape))
            needed.append(find_records_needed(linked, l))
        return np.stack(needed)

    # Sorting and drawing run outside the interpreter's lock.
    with (
        ThreadPoolExecutor(os.cpu_count() or 1) as pool,
        progress.step("simulating releases", trials, "samples") as step,
    ):
        parts = []
        for part in pool.map(chunk, range(n_chunks)):
            parts.append(part)
            step.advance(part.shape[2])
    return np.concatenate(parts, axis=2)


def count_failures(settings: Sequence[Setting], deltas: Sequence[float], needed: IntArray) -> list[Failure]:
    """Count the failures with the paper's N and with the tighter one; *settings* are those of the l's simulated."""
    found = []
    for place, one in enumerate(settings):
        for delta in deltas:
            for rule, records in ((PAPER, one.records(delta)), (TIGHTER, one.tighter_records(delta))):
                for releases in RELEASES:
                    samples = needed[releases - 1, place]
                    failed = int(np.sum(samples > records))
                    found.append(
                        Failure(one.distribution, one.beta, one.l, delta, rule, records, releases, failed, len(samples))
                    )
    return found


def count_declines(
    settings: Sequence[Setting], delta: float, shares: Sequence[float], needed: IntArray
) -> list[Decline]:
    """Count the failures with ever more of the records that the paper asks for."""
    found = []
    for place, one in enumerate(settings):
        for share in shares:
            records = round(share * one.records(delta))
            failed = [int(np.sum(needed[releases - 1, place] > records)) for releases in RELEASES]
            bounds = min(1.0, one.bound(records)), min(1.0, one.tighter_bound(records))
            found.append(Decline(one.distribution, one.l, share, records, *bounds, failed, needed.shape[2]))
    return found


@dataclass(frozen=True, slots=True)
class Linkage:
    """What linking so many releases leaves of the people who are in all of them."""

    distribution: str
    l: int
    share: float  # records of each owner, as a share of the paper's N
    records: int
    way: str
    releases: int
    classes: float  # of one release, on average
    people: int  # of all repetitions
    repetitions: int
    below: int  # people left with fewer than l values
    disclosed: int  # people left with their own value only
    least: int  # values left to the worst off
    median: float
    worst_case: int


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """The records of one owner: quasi-identifiers by number, and diseases."""

    quasi: IntArray  # (n_records,)
    value: IntArray  # (n_records,)

    @classmethod
    def draw(cls, distribution: str, n_records: int, rng: np.random.Generator) -> Sample:
        """Draw independent records."""
        steps = np.cumsum(marginal(distribution))
        value = np.searchsorted(steps[:-1], rng.random(n_records), side="right")
        return cls(rng.integers(0, N_QUASI, n_records), value.astype(np.int64))

    def join(self, other: Sample) -> Sample:
        """Return the records of both."""
        return Sample(np.concatenate([self.quasi, other.quasi]), np.concatenate([self.value, other.value]))

    def show_values(self, class_of: IntArray) -> BoolArray:
        """Return (n_quasi, n_values) whether a value is in the class of a quasi-identifier, whose number is given."""
        n_classes = int(class_of.max()) + 1
        counts = np.bincount(class_of[self.quasi] * N_VALUES + self.value, minlength=n_classes * N_VALUES)
        return np.asarray(counts.reshape(n_classes, N_VALUES)[class_of] > 0)


def make_own_classes(sample: Sample, l: int, k: int) -> IntArray:
    """Return (n_quasi,) the class of each quasi-identifier in an owner's own Mondrian with l values and k records.

    Labels do not overlap. Quasi-identifiers outside all boxes, which no record has, are in class 0.
    """
    places = np.unravel_index(sample.quasi, tuple(DOMAIN.values()))
    table = pa.table({**dict(zip(DOMAIN, places, strict=True)), SENSITIVE: sample.value})
    attributes: dict[str, dict[str, object]] = {
        name: {
            "role": "quasi",
            "taxonomy": {
                "intervals": {"min": 0, "max": size - 1, "widths": [width for width in WIDTHS if width < size]}
            },
        }
        for name, size in DOMAIN.items()
    }
    attributes[SENSITIVE] = {"role": "sensitive"}
    privacy = [{"distinct-l-diversity": {"l": l}}, {"k-anonymity": {"k": k}}]
    asked = {"attributes": attributes, "privacy": privacy, "max_withheld": 0}
    counted = LocalEngine().count(open_source(table), tuple(attributes), Silent())
    problem = encode(counted, Policy.load(asked)).problem
    with MondrianTree(problem, ranges=False, apart=True) as tree, Silent().step("cutting", None) as step:
        tree.grow(step)
        plan = tree.plan()
    if not meets(problem, plan):
        raise AssertionError("Mondrian made a class with fewer values than it was asked for")
    class_of = np.zeros(tuple(DOMAIN.values()), dtype=np.int64)
    for number, (lo, hi) in enumerate(zip(plan.lo.tolist(), plan.hi.tolist(), strict=True)):
        class_of[tuple(slice(first, end) for first, end in zip(lo, hi, strict=True))] = number
    return class_of.ravel()


def link_owners(
    setting: Setting, delta: float, share: float, n_common: int, repetitions: int, seed: list[int]
) -> list[Linkage]:
    """Link the releases of three owners, each with that share of the paper's N, by the people common to all.

    Owners with fewer than N records publish nothing by the agency's classes.
    """
    rng = np.random.default_rng(seed)
    records = math.ceil(share * setting.records(delta))
    agreed = np.repeat(np.arange(len(setting.class_sizes)), setting.class_sizes)
    ways = (ALONE, COARSE, AGENCY) if share >= 1 else (ALONE, COARSE)
    smallest = {ALONE: 1, COARSE: records // (2 * len(setting.class_sizes))}
    left: dict[tuple[str, int], list[IntArray]] = {(way, releases): [] for way in ways for releases in RELEASES}
    classes: dict[str, list[int]] = {way: [] for way in ways}
    for _ in range(repetitions):
        common = Sample.draw(setting.distribution, n_common, rng)
        remaining = {way: np.ones((N_QUASI, N_VALUES), dtype=np.bool_) for way in ways}
        for releases in RELEASES:
            sample = common.join(Sample.draw(setting.distribution, records - n_common, rng))
            for way in ways:
                class_of = agreed if way == AGENCY else make_own_classes(sample, setting.l, smallest[way])
                classes[way].append(len(np.unique(class_of[sample.quasi])))
                remaining[way] &= sample.show_values(class_of)
                left[way, releases].append(remaining[way].sum(axis=1)[common.quasi].astype(np.int64))
    found = []
    for (way, releases), parts in left.items():
        values = np.concatenate(parts)
        found.append(
            Linkage(
                distribution=setting.distribution,
                l=setting.l,
                share=share,
                records=records,
                way=way,
                releases=releases,
                classes=float(np.mean(classes[way])),
                people=len(values),
                repetitions=repetitions,
                below=int(np.sum(values < setting.l)),
                disclosed=int(np.sum(values == 1)),
                least=int(values.min()),
                median=float(np.median(values)),
                worst_case=worst_case_l(N_VALUES, [setting.l] * releases),
            )
        )
    return found
