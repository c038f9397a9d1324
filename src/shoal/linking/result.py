"""The results of linking: the number of values that remain, in the worst case and for how many people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from shoal.core.arrays import IntArray
from shoal.core.results import Figures
from shoal.linking.linkable import Linkable


@dataclass(frozen=True, slots=True)
class RemainingValues:
    """The sensitive values that remain for a person, with their counts, most frequent first."""

    counts: Mapping[str, int]

    @classmethod
    def of(cls, counts: IntArray, values: Sequence[str]) -> RemainingValues:
        """Leave out values with a count of 0."""
        order = np.argsort(-counts, kind="stable")
        return cls({values[place]: int(counts[place]) for place in order.tolist() if counts[place] > 0})

    @property
    def l(self) -> int:  # noqa: E743
        return len(self.counts)

    @property
    def frequency_l(self) -> float:
        """The reciprocal of the share of the most frequent value; 0 if no value remains."""
        return sum(self.counts.values()) / max(self.counts.values()) if self.counts else 0.0

    @property
    def entropy_l(self) -> float:
        """The exponential of the entropy; 0 if no value remains.

        It is the number of equally frequent values with the same entropy.

        >>> round(RemainingValues({"flu": 2, "gout": 2}).entropy_l, 9)
        2.0
        """
        if not self.counts:
            return 0.0
        shares = np.array(list(self.counts.values())) / sum(self.counts.values())
        return float(np.prod(shares**-shares))

    def as_dict(self) -> dict[str, object]:
        return {
            "remaining": dict(self.counts),
            "l": self.l,
            "frequency_l": self.frequency_l,
            "entropy_l": self.entropy_l,
        }


@dataclass(frozen=True, slots=True)
class WorstCase(Figures):
    """Classes, one of each release, that leave few values to a person in all of them.

    A sliced release has no classes. Its values may belong to one person, so they are not mentioned.
    """

    classes: tuple[Mapping[str, str], ...]  # attribute -> label; empty for a sliced release
    remaining: RemainingValues

    @classmethod
    def of(
        cls, linkables: Sequence[Linkable], members: Sequence[int], left: IntArray, texts: Sequence[str]
    ) -> WorstCase:
        classes = tuple(each.describe(box) for each, box in zip(linkables, members, strict=True))
        return cls(classes, RemainingValues.of(left, texts))

    def as_dict(self) -> dict[str, object]:
        """Return it for JSON, with the number of remaining values but not the values."""
        left = {key: value for key, value in self.remaining.as_dict().items() if key != "remaining"}
        return {"classes": [dict(each) for each in self.classes], **left}


@dataclass(frozen=True, slots=True)
class TargetLinkage:
    """The values that several releases leave for one person."""

    releases: tuple[str, ...]
    sensitive: str
    remaining: RemainingValues
    alone: tuple[RemainingValues, ...]  # the values that each release leaves by itself
    plan: str | None = None  # digest of the plan of all the releases
    promised: int | None = None  # number of values that this plan guarantees

    def as_dict(self) -> dict[str, object]:
        return {
            "releases": [
                {"release": name, "l": left.l, "remaining": dict(left.counts)}
                for name, left in zip(self.releases, self.alone, strict=True)
            ],
            "sensitive": self.sensitive,
            **self.remaining.as_dict(),
            "plan": self.plan,
            "promised": self.promised,
        }


@dataclass(frozen=True, slots=True)
class PopulationLinkage(Figures):
    """The values that several releases leave for all people who are in all of them.

    With a population, people are its rows, and ``exact`` is true. Without it, they are the published records:
    ``people_below`` is the largest number of people who can be in all releases and in classes that fall below the floor
    together. If classes of a release overlap, ``exact`` is false: l may be smaller than the value for any person, never
    larger.
    """

    releases: tuple[str, ...]
    sensitive: str
    attributes: tuple[str, ...]
    values: int  # sensitive values in any of the releases
    alone: tuple[int, ...]  # distinct l of each release by itself
    bound: int  # worst case of Proposition 3.1
    l: int
    frequency_l: float
    entropy_l: float
    floor: int
    people: int
    people_linked: int
    people_below: int
    population: bool
    exact: bool
    combinations: int  # of classes, or of quasi values of the population, that leave something
    combinations_below: int
    combinations_empty: int  # that leave no value; for three and more releases, after the last one
    worst: tuple[WorstCase, ...]
    plan: str | None = None  # digest of the plan of all the releases
    promised: int | None = None  # number of values that this plan guarantees to all people

    def as_dict(self) -> dict[str, object]:
        stated = Figures.as_dict(self)
        del stated["alone"]
        stated["releases"] = [{"release": name, "l": l} for name, l in zip(self.releases, self.alone, strict=True)]
        return stated | {"worst_case_l": stated.pop("bound"), "from_population": stated.pop("population")}
