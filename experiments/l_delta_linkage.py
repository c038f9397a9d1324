"""Pure l-diversity beside the mechanism: owners who anonymize by themselves, and people who are in all their tables."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from experiments.classes import meets
from experiments.l_delta_failures import RELEASES
from experiments.l_delta_settings import DOMAIN, N_QUASI, N_VALUES, SENSITIVE, Setting, marginal
from shoal.core.arrays import BoolArray, IntArray
from shoal.core.progress import Silent
from shoal.engines.local import LocalEngine
from shoal.linking.linking import worst_case_l
from shoal.methods.mondrian.tree import MondrianTree
from shoal.policy.encoding import encode
from shoal.policy.policy import Policy
from shoal.sources.opening import open_source

WIDTHS = (2, 10, 50)  # of the groups by which owners generalize
ALONE, COARSE, AGENCY = "each by itself", "each by itself, coarse", "the agency's classes"


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
    def drawn(cls, distribution: str, n_records: int, rng: np.random.Generator) -> Sample:
        """Draw independent records."""
        steps = np.cumsum(marginal(distribution))
        value = np.searchsorted(steps[:-1], rng.random(n_records), side="right")
        return cls(rng.integers(0, N_QUASI, n_records), value.astype(np.int64))

    def joined(self, other: Sample) -> Sample:
        """Return the records of both."""
        return Sample(np.concatenate([self.quasi, other.quasi]), np.concatenate([self.value, other.value]))

    def shown(self, class_of: IntArray) -> BoolArray:
        """Return (n_quasi, n_values) whether a value is in the class of a quasi-identifier, whose number is given."""
        n_classes = int(class_of.max()) + 1
        counts = np.bincount(class_of[self.quasi] * N_VALUES + self.value, minlength=n_classes * N_VALUES)
        return np.asarray(counts.reshape(n_classes, N_VALUES)[class_of] > 0)


def own_classes(sample: Sample, l: int, k: int) -> IntArray:
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


def linkages(
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
        common = Sample.drawn(setting.distribution, n_common, rng)
        remaining = {way: np.ones((N_QUASI, N_VALUES), dtype=np.bool_) for way in ways}
        for releases in RELEASES:
            sample = common.joined(Sample.drawn(setting.distribution, records - n_common, rng))
            for way in ways:
                class_of = agreed if way == AGENCY else own_classes(sample, setting.l, smallest[way])
                classes[way].append(len(np.unique(class_of[sample.quasi])))
                remaining[way] &= sample.shown(class_of)
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
