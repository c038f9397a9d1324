"""What every attack is, and how its counts become rates with an interval: here and nowhere else."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure with the interval that holds the true one, at the stated confidence."""

    value: float
    low: float
    high: float

    def as_dict(self) -> dict[str, float]:
        """Return value, low and high."""
        return {"value": self.value, "low": self.low, "high": self.high}


@dataclass(frozen=True, slots=True)
class Tally:
    """How often an attack answered as counted here, and how often it was tried."""

    success: int
    trials: int

    def __post_init__(self) -> None:
        if not 0 <= self.success <= self.trials or not self.trials:
            raise ValueError(f"{self.success} of {self.trials} trials is not a count of successes")

    def rate(self, confidence: float = CONFIDENCE) -> Estimate:
        """Return the rate with the interval of Wilson (1927), which is sound for few trials and for rates near 0 or 1.

        >>> rate = Tally(0, 10).rate()
        >>> rate.value, rate.low, round(rate.high, 4)
        (0.0, 0.0, 0.2775)
        """
        z2 = NormalDist().inv_cdf((1 + confidence) / 2) ** 2
        n, p = self.trials, self.success / self.trials
        centre = (p + z2 / (2 * n)) / (1 + z2 / n)
        half = math.sqrt(z2) * math.sqrt(p * (1 - p) / n + z2 / (4 * n * n)) / (1 + z2 / n)
        low = 0.0 if self.success == 0 else centre - half
        return Estimate(p, low, 1.0 if self.success == n else centre + half)

    def as_dict(self) -> dict[str, int]:
        """Return the two counts."""
        return {"success": self.success, "trials": self.trials}


def difference(one: Tally, other: Tally, confidence: float = CONFIDENCE) -> Estimate:
    """Return the rate of *one* less that of *other*, with the interval of Newcombe (1998), his method 10.

    It joins the two Wilson intervals. His Table II, (a) 56/70 - 48/80:

    >>> gap = difference(Tally(56, 70), Tally(48, 80))
    >>> round(gap.value, 4), round(gap.low, 4), round(gap.high, 4)
    (0.2, 0.0524, 0.3339)
    """
    p, q = one.rate(confidence), other.rate(confidence)
    gap = p.value - q.value
    return Estimate(
        gap, gap - math.hypot(p.value - p.low, q.high - q.value), gap + math.hypot(p.high - p.value, q.value - q.low)
    )


@dataclass(frozen=True, slots=True)
class Trials:
    """What an attack did: counts on its targets and, where it has them, on people who are not in the data.

    ``baseline`` is the same without looking at the release. ``variants`` are ways to attack that were tried beside
    the one that counts.
    """

    attack: str
    success: Tally
    control: Tally | None = None
    baseline: Tally | None = None
    variants: Mapping[str, Trials] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def risk(self) -> Estimate:
        """By how much the rate on targets is above that on the control group or, without one, above the baseline."""
        beside = self.control or self.baseline
        return self.success.rate() if beside is None else difference(self.success, beside)

    def as_dict(self) -> dict[str, Any]:
        """Return all counts and the risk, for JSON."""
        told: dict[str, Any] = {"name": self.attack, "attack": self.success.as_dict()}
        for name, tally in (("control", self.control), ("baseline", self.baseline)):
            if tally is not None:
                told[name] = tally.as_dict()
        told["risk"] = self.risk.as_dict()
        if self.variants:
            told["variants"] = {name: trials.as_dict() for name, trials in self.variants.items()}
        if self.notes:
            told["notes"] = list(self.notes)
        return told


class Attack(ABC):
    """An adversary with the published rows and their manifest, tried on people of the source."""

    name: ClassVar[str]
    title: ClassVar[str]

    @abstractmethod
    def refuses(self, manifest: Mapping[str, Any]) -> str | None:
        """Return why this attack has no meaning for such a release, or None."""

    @abstractmethod
    def run(
        self,
        published: pa.Table,
        manifest: Mapping[str, Any],
        source: pa.Table,
        control: pa.Table | None,
        rng: np.random.Generator,
    ) -> Trials:
        """Attack people of the source, and of a control table of people who are not in it, if there is one."""
